"""Marks within a step: from one to the next, time belongs to the innermost open one."""

from __future__ import annotations

from gputop.publisher.segment import Segment

SAME_EXTENT = 0.05
"""An explicit mark whose own time is below this share of its extent has the extent of the automatic mark inside it."""

Token = tuple[Segment, int, int]
"""An open mark: the segment it was made in, its depth there, and when."""


def settle(seg: Segment, now: int) -> str:
    """Give the time since the last mark to what it belongs to; returns that."""
    top = seg.top
    seg.phases[top] = seg.phases.get(top, 0) + now - seg.since
    seg.since = now
    return top


def open_mark(seg: Segment, name: str, now: int) -> Token:
    """A mark begins: from now on time is its."""
    top = settle(seg, now)
    seg.stack.append(top)
    seg.top = name
    seg.marks += 1
    return seg, len(seg.stack), now


def note_child(seg: Segment, depth: int, name: str, start: int, end: int, inside: int = 0) -> None:
    """Remember the automatic mark made inside the explicit mark at `depth`; a second one there makes it no match.

    `inside`: time, ns, of it that belongs to another mark.
    """
    child = seg.child
    if child is not None and child[0] == depth and child[1] == name:
        child[3] += end - start
        child[4] += end - start - inside
    else:
        seg.child = [depth, name, start, end - start, end - start - inside]


def same_extent(seg: Segment, depth: int, name: str, start: int, now: int) -> None:
    """Give an automatic mark's time to the explicit mark around it, where that has hardly any time of its own."""
    child = seg.child
    if child is None or child[0] != depth:
        return
    seg.child = None
    _, inner, began, extent, own = child
    if inner != name and began >= start and now - start - extent <= SAME_EXTENT * (now - start):
        seg.phases[inner] = max(0, seg.phases.get(inner, 0) - own)
        seg.phases[name] = seg.phases.get(name, 0) + own
        if seg.phases[inner] == 0:
            del seg.phases[inner]
