"""A run's account from all of its steps: percentiles, epochs and what comes every so often."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from gputop.diagnosis.apart import set_apart
from gputop.diagnosis.numbers import median, period, ranked
from gputop.diagnosis.phases import EPISODIC, role
from gputop.records import Event, Fold, Step
from gputop.report.account import Account, Episode, Epoch, Spread
from gputop.thinned import weights
from gputop.tracks import RunTrack

MS = 1e-6

EVENTFUL = (*EPISODIC, "gc")
"""Kinds of events with a duration that are episodes of a run."""


def account(track: RunTrack, steps: Sequence[Step], folds: Sequence[Fold], events: Sequence[Event]) -> Account:
    """The account of a run whose finished steps, summed steps and events are all at hand, each in time order."""
    whole = [step for step in steps if not step.partial]
    train = [step for step in whole if track.kind(step) != "eval"]
    lengths = [float(step.dur_ns) for step in train]
    keep, warm, _ = set_apart(train, lengths) if train else ([], [], [])
    held = weights(train, folds) if folds else [1.0] * len(train)
    longest = max((fold.max_ns or 0 for fold in folds if fold.kind in (None, "train")), default=0)
    return Account(
        from_ns=track.first_t,
        to_ns=track.last_end,
        steps=track.train_steps,
        train_ns=track.train_ns,
        samples=track.samples,
        phases_ns=dict(track.phases),
        every=spread(lengths, longest, held),
        steady=spread([lengths[index] for index in keep], 0, [held[index] for index in keep]),
        warmup_steps=len(warm),
        epoch_firsts=len(train) - len(keep) - len(warm),
        epochs=epochs(train, track.last_end or 0, track.train_steps if folds else 0),
        episodes=tuple(episodes(track, whole, train, events)),
    )


def spread(lengths_ns: Sequence[float], longest_ns: float, weights: Sequence[float]) -> Spread | None:
    """Percentiles of these steps, each of which stands for so many; `longest_ns` is of steps known only as a sum. None
    for no step at all."""
    if not lengths_ns:
        return Spread(steps=0, max=longest_ns * MS) if longest_ns else None
    ordered = sorted(zip(lengths_ns, weights, strict=True))
    if max(weights) == 1:
        p50, p95, p99 = (ranked([length for length, _ in ordered], q) * MS for q in (0.5, 0.95, 0.99))
    else:
        upto = list(accumulate(weight for _, weight in ordered))
        p50, p95, p99 = (ordered[bisect_left(upto, q * upto[-1])][0] * MS for q in (0.5, 0.95, 0.99))
    return Spread(steps=len(ordered), p50=p50, p95=p95, p99=p99, max=max(ordered[-1][0], longest_ns) * MS)


def epochs(train: Sequence[Step], end_ns: int, whole: int = 0) -> tuple[Epoch, ...]:
    """The passes over the data, as far as steps tell them apart; none where nothing says where one begins.

    `whole`: how many steps there were where only some are at hand; their numbers tell how many each pass had.
    """
    starts = [
        index
        for index, step in enumerate(train)
        if step.first_of_epoch or (index and step.epoch != train[index - 1].epoch and step.epoch is not None)
    ]
    if not starts:
        return ()
    if starts[0] != 0:
        starts.insert(0, 0)
    edges = [*starts, len(train)]
    numbers = [train[index].n for index in starts] + [max(train[-1].n + 1, train[0].n + whole)]
    return tuple(
        Epoch(
            epoch=train[first].epoch,
            from_ns=train[first].t,
            to_ns=train[following].t if following < len(train) else max(end_ns, train[first].t),
            steps=max(following - first, numbers[at + 1] - numbers[at]) if whole else following - first,
            first_step_ms=train[first].dur_ns * MS,
        )
        for at, (first, following) in enumerate(pairwise(edges))
    )


def episodes(track: RunTrack, steps: Sequence[Step], train: Sequence[Step], events: Sequence[Event]) -> list[Episode]:
    """Checkpoints, evaluations and garbage collections: from the steps' own marks, else from evaluation loops, else
    from events."""
    out = []
    for kind in EVENTFUL:
        found = _marked(train, kind) or _loops(track, steps, kind) or _told(events, kind)
        if found:
            out.append(summed(kind, found, track.train_ns))
    return out


def summed(kind: str, found: Sequence[tuple[int | None, int, float]], whole_ns: float) -> Episode:
    """Episodes as (step number, moment, length in ns), in time order, in one line; `whole_ns` is all the run's time."""
    total = sum(length for _, _, length in found)
    places = [n for n, _, _ in found if n is not None]
    gap = median([later - earlier for (_, earlier, _), (_, later, _) in pairwise(found)])
    return Episode(
        kind=kind,
        count=len(found),
        period_steps=period(places) if len(places) > 2 else None,
        period_s=None if gap is None else gap / 1e9,
        mean_ms=total / len(found) * MS,
        share_pct=min(100.0, 100 * total / whole_ns) if whole_ns else 0.0,
    )


def _marked(train: Sequence[Step], kind: str) -> list[tuple[int | None, int, float]]:
    found: list[tuple[int | None, int, float]] = []
    for step in train:
        length = sum(ns for name, ns in step.phases_ns.items() if role(name) == kind)
        if length > 0:
            found.append((step.n, step.t, float(length)))
    return found


def _loops(track: RunTrack, steps: Sequence[Step], kind: str) -> list[tuple[int | None, int, float]]:
    """Evaluation loops between training steps, each as one episode."""
    if kind != "eval":
        return []
    found: list[tuple[int | None, int, float]] = []
    ordered = sorted(steps, key=lambda step: step.t)
    for evaluates, group in groupby(ordered, key=lambda step: track.kind(step) == "eval"):
        if evaluates:
            loop = list(group)
            found.append((None, loop[0].t, float(sum(step.dur_ns for step in loop))))
    return found


def _told(events: Sequence[Event], kind: str) -> list[tuple[int | None, int, float]]:
    return [(None, event.t, float(event.dur_ns)) for event in events if event.kind == kind and event.dur_ns]
