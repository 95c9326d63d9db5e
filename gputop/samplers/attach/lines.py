"""The hottest lines inside of one loader worker: what the preprocessing spends its time on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gputop.records import clean
from gputop.samplers.attach import classes, stacks, tool
from gputop.samplers.attach.chunk import Chunk

MOST = 12
LOOP = "_worker_loop"


class Line(NamedTuple):
    """A line of the user's code, the share and number of the worker's samples in which it ran (or what it called), and
    what it called at the bottom, most often."""

    site: str
    function: str
    pct: float
    samples: int
    inner: str


class Worker(NamedTuple):
    """A loader worker that was sampled: its pid, how many samples caught it working, and its hottest lines."""

    pid: int
    samples: int
    waiting_pct: float
    lines: list[Line]


def sample(
    pid: int, seconds: float, *, program: str | None = None,
    chunk: Callable[..., Chunk] = Chunk, pause: Callable[[float], None] = time.sleep,
) -> Worker:  # fmt: skip
    """Sample a worker for some seconds; waits that long. Raises Refused."""
    running = chunk(program or tool.check(pid), pid, seconds)
    try:
        left = running.patience_s
        while (sampled := running.poll()) is None:
            if left <= 0:
                raise tool.Refused("py-spy does not answer")
            pause(0.05)
            left -= 0.05
    finally:
        running.close()
    if sampled.refused is not None:
        raise sampled.refused
    thread = stacks.main_thread(sampled.threads, pid)
    if thread is None or not thread.stretches:
        raise tool.Refused(f"no stack of process {pid} was seen")
    return read(pid, thread.stretches)


def read(pid: int, stretches: list[stacks.Stretch]) -> Worker:
    """The lines of a worker's samples. Time in its loop's own waits (for indices, for room in the queue) is apart."""
    ns: Counter[tuple[str, str]] = Counter()
    inner: dict[tuple[str, str], Counter[str]] = {}
    whole = waiting = 0
    for one in stretches:
        took = one.to_ns - one.from_ns
        whole += took
        frame = classes.users(own(one.frames))
        if frame is None:
            waiting += took
            continue
        key = (clean(frame.site(), 120), clean(frame.name, 80))
        ns[key] += took
        deepest = one.frames[-1]
        inner.setdefault(key, Counter())[clean(deepest.words(), 120) if deepest is not frame else ""] += took
    lines = [
        Line(
            site,
            function,
            100 * took / whole,
            max(1, round(took * tool.RATE_HZ / 1e9)),
            inner[site, function].most_common(1)[0][0],
        )
        for (site, function), took in ns.most_common(MOST)
    ]
    samples = round((whole - waiting) * tool.RATE_HZ / 1e9)
    return Worker(pid, samples, 100 * waiting / whole if whole else 0.0, lines)


def own(frames: Sequence[stacks.Frame]) -> Sequence[stacks.Frame]:
    """The frames of a worker's own: a forked one still stands on those that its parent had."""
    for at in range(len(frames) - 1, -1, -1):
        if frames[at].name == LOOP:
            return frames[at + 1 :]
    return frames
