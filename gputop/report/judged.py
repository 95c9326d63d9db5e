"""A whole trace under today's rules: judged as it would have been live, with the verdicts over time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gputop.diagnosis.verdict import judge
from gputop.recording.chunk import DESCRIBING
from gputop.recording.past import RECORDED
from gputop.records import AnyRecord, Event, Fold, Run, Sampler, Step, Verdict, end_of
from gputop.report import exact, hindsight, series
from gputop.report.account import Account, GpuAccount, HostAccount
from gputop.report.machine import Machines
from gputop.report.series import Axis, Series
from gputop.tracks import S
from gputop.view import Segment, View
from gputop.watching import Watch

MAX_JUDGEMENTS = 1200
MIN_JUDGEMENTS = 30
"""A trace is judged once a second of its time; a long one this often, all ranks together, but MIN_JUDGEMENTS times
at least."""

NO_FINDING = ("unknown", "warmup", "idle")
"""Causes that say nothing of what held a run back, quoted only when there is nothing else; `warmup` does where it means
compiling over and over, which a cure would end: then it has a speed-up."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a trace: the verdict that stands for it, when each cause held, and each one's share of the time.

    `said` is when each recorded verdict was in force, `differs` where today's rules say something else.
    """

    run_id: str
    verdict: Verdict
    segments: tuple[Segment, ...]
    causes_pct: dict[str, float]
    notices: tuple[str, ...] = ()
    said: tuple[Segment, ...] = ()
    differs: tuple[hindsight.Difference, ...] = ()


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A judged trace. `sampled`: judged at evenly spaced moments, with percentiles from sketches, as it was too long
    for more; `judgements`: how many moments were judged; `meant`: the runs that the file was recorded for, by id."""

    watch: Watch
    from_ns: int
    to_ns: int
    runs: dict[str, RunReport]
    series: Series
    accounts: dict[str, Account] = {}
    gpus: dict[str, GpuAccount] = {}
    hosts: dict[str, HostAccount] = {}
    sampled: bool = False
    judgements: int = 0
    meant: frozenset[str] = frozenset()

    def view(self, warnings: tuple[str, ...] = ()) -> View:
        """The trace's last moment, with every run that was in it."""
        return self.watch.view(self.to_ns, warnings, forget=False)


def judge_trace(records: Iterable[AnyRecord], source: str, progress: Callable[[float], None] | None = None) -> Judged:
    """Run a trace (in time order) through the watch under a clock made of its own times.

    `progress` is told the share judged (0-1).
    """
    ordered = list(records)
    told = [record for record in ordered if not isinstance(record, (*DESCRIBING, Sampler))] or ordered
    first = min((record.t for record in told), default=0)
    last = max((end_of(record) for record in ordered), default=0)
    watch = Watch(source, keep_ns=last - first + S)
    ranks = len({record.run_id for record in ordered if isinstance(record, Run)}) or 1
    every = max(S, (last - first) // max(MIN_JUDGEMENTS, MAX_JUDGEMENTS // ranks))
    best: dict[str, dict[str, Verdict]] = {}
    due, judgements = first + every, 1
    for record in sorted(ordered, key=end_of):
        while end_of(record) > due:
            keep_surest(best, watch.tick(due))
            if progress is not None:
                progress((due - first) / (last - first))
            due += every
            judgements += 1
        watch.add(record)
    keep_surest(best, watch.tick(last, every_run=True))
    runs = {}
    for run_id, track in watch.timeline.runs.items():
        end = min(last, track.last_end or last) if track.ended else last
        whole = judge(watch.timeline.window(run_id, last, whole=True))  # cut at the run's own end
        segments = tuple(watch.judges[run_id].segments) if run_id in watch.judges else ()
        stands = standing(segments, whole, best.get(run_id, {}))
        said = [(verdict.t, verdict.cause) for verdict in track.said]
        runs[run_id] = report_on(run_id, stands, segments, also=(whole,), told=said, end_ns=end)
    machines, axis = _machines(ordered), series.axis(first, last)
    return Judged(
        watch=watch,
        from_ns=first,
        to_ns=last,
        runs=runs,
        series=series.of_records(ordered, watch.timeline.runs, axis) if ordered else Series(axis=Axis(first, S, 1)),
        accounts=_accounts(ordered, watch),
        gpus={uuid: tally.account() for uuid, tally in machines.gpus.items()},
        hosts={host: tally.account() for host, tally in machines.hosts.items()},
        judgements=judgements,
        meant=frozenset(
            one.run_id for one in ordered if isinstance(one, Event) and one.run_id and one.kind == RECORDED
        ),
    )


def _machines(records: Iterable[AnyRecord]) -> Machines:
    machines = Machines()
    for record in records:
        machines.add(record)
    return machines


def _accounts(ordered: Sequence[AnyRecord], watch: Watch) -> dict[str, Account]:
    steps: dict[str, list[Step]] = {}
    folds: dict[str, list[Fold]] = {}
    events: dict[str, list[Event]] = {}
    for record in ordered:
        if isinstance(record, Step):
            steps.setdefault(record.run_id, []).append(record)
        elif isinstance(record, Fold):
            folds.setdefault(record.run_id, []).append(record)
        elif isinstance(record, Event) and record.run_id is not None:
            events.setdefault(record.run_id, []).append(record)
    return {
        run_id: exact.account(
            track,
            sorted(steps.get(run_id, ()), key=lambda step: step.t),
            folds.get(run_id, ()),
            sorted(events.get(run_id, ()), key=lambda event: event.t),
        )
        for run_id, track in watch.timeline.runs.items()
    }


def keep_surest(best: dict[str, dict[str, Verdict]], verdicts: dict[str, Verdict]) -> None:
    """Remember the surest verdict for each cause, by run."""
    for run_id, verdict in verdicts.items():
        mine = best.setdefault(run_id, {})
        if verdict.cause not in mine or _surety(verdict) >= _surety(mine[verdict.cause]):
            mine[verdict.cause] = verdict


def _surety(verdict: Verdict) -> tuple[bool, float]:
    """What is compared between verdicts of one cause: one with a gain says more than one without."""
    return verdict.speedup_limit is not None, verdict.confidence


def _finds(verdict: Verdict | None) -> bool:
    """Whether a verdict says what held the run back."""
    if verdict is None:
        return False
    return verdict.cause not in NO_FINDING or (verdict.cause == "warmup" and verdict.speedup_limit is not None)


def report_on(
    run_id: str,
    verdict: Verdict,
    segments: tuple[Segment, ...],
    *,
    also: Sequence[Verdict] = (),
    told: Iterable[tuple[int, str]] = (),
    end_ns: int = 0,
) -> RunReport:
    """A run's report: the verdict that stands for it, and the share of the judged time that each cause held.

    `also` are further verdicts whose notices count, `told` what was said at the time (moment, cause), up to `end_ns`.
    """
    held = held_ns(segments)
    total = sum(held.values())
    causes_pct = {cause: 100 * ns / total for cause, ns in held.items() if ns} if total else {verdict.cause: 100.0}
    then = hindsight.segments(told, end_ns)
    return RunReport(
        run_id=run_id,
        verdict=verdict,
        segments=segments,
        causes_pct=causes_pct,
        notices=_notices((verdict, *also)),
        said=then,
        differs=hindsight.differences(then, segments),
    )


def _notices(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Notices of these verdicts; of those that differ in figures alone, the first."""
    kept: dict[str, str] = {}
    for verdict in verdicts:
        for notice in verdict.notices:
            kept.setdefault(re.sub(r"\d[\d.,]*", "#", notice), notice)
    return tuple(kept.values())


def held_ns(segments: tuple[Segment, ...]) -> dict[str, int]:
    """How long each cause held."""
    held: dict[str, int] = {}
    for segment in segments:
        held[segment.cause] = held.get(segment.cause, 0) + max(0, segment.to_ns - segment.from_ns)
    return held


def standing(segments: tuple[Segment, ...], whole: Verdict, best: dict[str, Verdict]) -> Verdict:
    """The verdict that stands for a run: a standstill that it ended in, an episode that only the whole of it shows,
    else the finding that held longest, else what the whole of it says."""
    if segments and segments[-1].cause == "stalled" and "stalled" in best:
        return best["stalled"]
    if whole.family == "episodic" and _finds(whole):
        return whole
    found = {cause: ns for cause, ns in held_ns(segments).items() if _finds(best.get(cause))}
    if not found or (not any(found.values()) and _finds(whole)):
        return whole
    return best[max(found, key=lambda cause: found[cause])]
