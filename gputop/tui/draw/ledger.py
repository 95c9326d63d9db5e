"""The ledger bar: where every millisecond of a step goes, each bucket with its texture and its letter."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gputop.records import clean
from gputop.tui import figures
from gputop.tui.glyphs import BUCKETS, USER_TEXTURE
from gputop.tui.lines import Line, Span, fit
from gputop.view import RunView, Share

_SHORT = {
    "data": "data", "h2d": "h2d", "forward": "fwd", "backward": "bwd", "optimizer": "opt", "checkpoint": "ckpt",
    "self": "gputop",
}  # fmt: skip


def ordered(ledger: Sequence[Share]) -> list[Share]:
    """Buckets in the order of a step: known ones, the user's own, gputop's, the rest."""
    order = {name: index for index, name in enumerate(BUCKETS)}
    own = order["eval"] + 0.5
    return sorted((share for share in ledger if 0 < share.pct < inf), key=lambda s: (order.get(s.phase, own), s.phase))


def letter_and_texture(phase: str) -> tuple[str, str]:
    """How a bucket is drawn; a user's own phase has its first letter in lower case."""
    if phase in BUCKETS:
        return BUCKETS[phase]
    return (clean(phase, 20)[:1].lower() or "u", USER_TEXTURE)


def style_of(phase: str) -> str:
    """The style name of a bucket."""
    return f"bucket.{phase}" if phase in BUCKETS else "bucket.user"


def tile_of(phase: str) -> str:
    """The style name of a bucket's letter."""
    return style_of(phase).replace("bucket.", "tile.")


def cells_of(ledger: Sequence[Share], cells: int) -> list[int]:
    """Cells for each bucket, summing to `cells` exactly, by largest remainder."""
    total = sum(share.pct for share in ledger)
    if total <= 0 or cells <= 0:
        return [0] * len(ledger)
    exact = [share.pct / total * cells for share in ledger]
    out = [int(value) for value in exact]
    by_remainder = sorted(range(len(out)), key=lambda i: (out[i] - exact[i], i))
    for index in by_remainder[: cells - sum(out)]:
        out[index] += 1
    return out


def bar(ledger: Sequence[Share], cells: int) -> Line:
    """The buckets side by side; each begins with its letter."""
    shares = ordered(ledger)
    spans = []
    for share, many in zip(shares, cells_of(shares, cells), strict=True):
        letter, texture = letter_and_texture(share.phase)
        tile = letter if many > 1 else ""
        spans += [Span(tile, tile_of(share.phase)), Span(texture * (many - len(tile)), style_of(share.phase))]
    return fit(spans, cells)


def legend(ledger: Sequence[Share], cells: int, *, short: bool = False) -> Line:
    """Letter, name and share of the largest buckets, as many as fit whole, in the order of a step."""
    shares = ordered(ledger)
    texts = {share.phase: _entry(share, short=short) for share in shares}
    room, kept = cells, set()
    for share in sorted(shares, key=lambda s: -s.pct):
        need = len(texts[share.phase]) + 2
        if need - 2 > room:
            break
        kept.add(share.phase)
        room -= need
    spans: list[Span] = []
    for share in shares:
        if share.phase in kept:
            spans += [Span("  " if spans else ""), *mark(share.phase), Span(texts[share.phase][2:])]
    return fit(spans, cells)


def mark(phase: str) -> list[Span]:
    """The two cells that stand for a bucket in a legend: its letter as a tile, and its texture."""
    letter, texture = letter_and_texture(phase)
    return [Span(letter, tile_of(phase)), Span(texture if texture != letter else " ", style_of(phase))]


def _entry(share: Share, *, short: bool) -> str:
    name = _SHORT.get(share.phase, clean(share.phase, 16)) if short else clean(share.phase, 16)
    name = "gputop" if share.phase == "self" else name
    return f"   {name} {figures.pct(share.pct)}"


def lines(run: RunView | None, width: int, label: int, rows: int) -> list[Line]:
    """The bar with its label column, then its legend, in `rows` lines (1: bar alone)."""
    cells = max(0, width - label - 1)
    if run is None or not run.ledger:
        text = "no finished step yet" if run is not None else ""
        first = fit([Span(" step".ljust(label), "dim"), Span(text, "dim")], width)
        return [first, *[fit([], width)] * (rows - 1)][:rows]
    short = cells < 76
    mean = sum(share.ms for share in run.ledger)
    head = [Span(" mean ", "dim"), Span(figures.ms(mean).rjust(max(0, label - 7)), "bold"), Span(" ")]
    shown = [
        fit([*head, *bar(run.ledger, cells)], width),
        fit([Span(" " * label), *legend(run.ledger, cells, short=short)], width),
    ]
    return [*shown, *[fit([], width)] * (rows - 2)][:rows]
