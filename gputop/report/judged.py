"""A whole trace under today's rules: judged as it would have been live, with the verdicts over time."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gputop.diagnosis.verdict import judge
from gputop.records import AnyRecord, Run, Step, Verdict
from gputop.tracks import S
from gputop.view import Segment, View
from gputop.watching import Watch

MAX_JUDGEMENTS = 1200
MIN_JUDGEMENTS = 30
"""A trace is judged once a second of its time; a long one this often, all ranks together, but MIN_JUDGEMENTS times
at least."""

NO_FINDING = ("unknown", "warmup", "idle")
"""Causes that say nothing of what held a run back, quoted only when there is nothing else."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a trace: the verdict that stands for it, when each cause held, and each one's share of the time."""

    run_id: str
    verdict: Verdict
    segments: tuple[Segment, ...]
    causes_pct: dict[str, float]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A judged trace."""

    watch: Watch
    from_ns: int
    to_ns: int
    runs: dict[str, RunReport]

    def view(self, warnings: tuple[str, ...] = ()) -> View:
        """The trace's last moment, with every run that was in it."""
        return self.watch.view(self.to_ns, warnings, forget=False)


def judge_trace(records: Iterable[AnyRecord], source: str) -> Judged:
    """Run a trace (in time order) through the watch under a clock made of its own times."""
    ordered = list(records)
    first = min((record.t for record in ordered), default=0)
    last = max((_end(record) for record in ordered), default=0)
    watch = Watch(source, keep_ns=last - first + S)
    ranks = len({record.run_id for record in ordered if isinstance(record, Run)}) or 1
    every = max(S, (last - first) // max(MIN_JUDGEMENTS, MAX_JUDGEMENTS // ranks))
    best: dict[str, dict[str, Verdict]] = {}
    due = first + every
    for record in sorted(ordered, key=_end):
        while _end(record) > due:
            _keep(best, watch.tick(due))
            due += every
        watch.add(record)
    _keep(best, watch.tick(last, every_run=True))
    runs = {}
    for run_id, track in watch.timeline.runs.items():
        end = min(last, track.last_end or last) if track.ended else last
        whole = judge(watch.timeline.window(run_id, end, whole=True))
        segments = tuple(watch.judges[run_id].segments) if run_id in watch.judges else ()
        runs[run_id] = report_on(run_id, _standing(segments, whole, best.get(run_id, {})), segments)
    return Judged(watch=watch, from_ns=first, to_ns=last, runs=runs)


def _end(record: AnyRecord) -> int:
    """When a record could have been known: a step when it was over."""
    return record.t + record.dur_ns if isinstance(record, Step) else record.t


def _keep(best: dict[str, dict[str, Verdict]], verdicts: dict[str, Verdict]) -> None:
    """Remember the surest verdict for each cause."""
    for run_id, verdict in verdicts.items():
        mine = best.setdefault(run_id, {})
        if verdict.cause not in mine or verdict.confidence >= mine[verdict.cause].confidence:
            mine[verdict.cause] = verdict


def report_on(run_id: str, verdict: Verdict, segments: tuple[Segment, ...]) -> RunReport:
    """A run's report: the verdict that stands for it, and the share of the judged time that each cause held."""
    held = _held(segments)
    total = sum(held.values())
    causes_pct = {cause: 100 * ns / total for cause, ns in held.items() if ns} if total else {verdict.cause: 100.0}
    return RunReport(run_id=run_id, verdict=verdict, segments=segments, causes_pct=causes_pct)


def _held(segments: tuple[Segment, ...]) -> dict[str, int]:
    held: dict[str, int] = {}
    for segment in segments:
        held[segment.cause] = held.get(segment.cause, 0) + max(0, segment.to_ns - segment.from_ns)
    return held


def _standing(segments: tuple[Segment, ...], whole: Verdict, best: dict[str, Verdict]) -> Verdict:
    """The verdict that stands for a run: a standstill that it ended in, an episode that only the whole of it shows,
    else the finding that held longest, else what the whole of it says."""
    if segments and segments[-1].cause == "stalled" and "stalled" in best:
        return best["stalled"]
    if whole.family == "episodic" and whole.cause not in NO_FINDING:
        return whole
    found = {cause: ns for cause, ns in _held(segments).items() if cause not in NO_FINDING and cause in best}
    if not found or (not any(found.values()) and whole.cause not in NO_FINDING):
        return whole
    return best[max(found, key=lambda cause: found[cause])]
