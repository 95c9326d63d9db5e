"""A recording too long to be judged step by step: judged at evenly spaced moments, summed from its minutes.

Time and memory grow with the recording's minutes, not with its steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise

from gputop.diagnosis.phases import EPISODIC, role
from gputop.diagnosis.steady import WINS
from gputop.diagnosis.verdict import Judge, judge
from gputop.recording.past import Info, RunSpan
from gputop.recording.reader import Recording
from gputop.records import Verdict
from gputop.report.account import Account
from gputop.report.gauges import gauges
from gputop.report.judged import Judged, RunReport, keep_surest, report_on, standing
from gputop.report.minutes import figures, first_steps
from gputop.report.series import RunSeries, Series, axis, marks
from gputop.timeline import Timeline
from gputop.tracks import WINDOW_NS, S
from gputop.view import Segment
from gputop.watching import Watch

MOMENTS = 40
"""Moments that are judged, evenly spaced: a stretch of a fortieth of the run or more is seen by one of them."""

RUN_MOMENTS = 800
"""Runs times moments: with very many runs each is judged at fewer moments, but at LEAST_MOMENTS."""

LEAST_MOMENTS = 8

LONG_LOOK_NS = 600 * S
LONG_LOOK_STEPS = 20_000
"""How long a stretch is read to judge what comes rarely (a checkpoint, an evaluation), and how many steps at most."""

EPISODIC_PCT = 10.0
"""Share of the run's time in such episodes from which that stretch is read: less is never what holds a run back."""

GAP_STEPS = 3
MAX_GAP_NS = 20 * S
"""Steps between the judgements by which a new cause must win, and how long they may take."""

MINUTE = 60 * S

Progress = Callable[[float], None]


def judge_recording(recording: Recording, info: Info, source: str, progress: Progress | None = None) -> Judged:
    """A long recording under today's rules. `progress` is told the share done (0-1). Raises Unreadable."""
    tell = progress or (lambda share: None)
    found, best = _looks(recording, info, lambda share: tell(0.6 * share))
    lines = axis(info.from_ns - info.from_ns % MINUTE, info.to_ns, least_s=60)
    accounts: dict[str, Account] = {}
    drawn: dict[str, RunSeries] = {}
    firsts = first_steps(recording)
    tell(0.7)
    for number, span in enumerate(info.runs):
        run_id = span.run.run_id
        accounts[run_id], drawn[run_id] = figures(recording, span, lines, firsts.get(run_id, []))
        tell(0.7 + 0.1 * (number + 1) / len(info.runs))
    machines, gpus, hosts = gauges(recording, info, lines)
    tell(0.95)
    watch = Watch(source, simulated=info.simulated)
    watch.restore(recording.at(info.to_ns))
    watch.tick(info.to_ns, every_run=True)
    changes = recording.changes()
    reports: dict[str, RunReport] = {}
    for span in info.runs:
        run_id = span.run.run_id
        said = changes.get(run_id, [])
        mine = found.get(run_id, [])
        whole = _long_look(recording, span, accounts[run_id]) or (mine[-1][1] if mine else watch.verdicts.get(run_id))
        if whole is not None and run_id in watch.verdicts:
            segments = _segments(mine, span, said)
            stands = standing(segments, whole, best.get(run_id, {}))
            reports[run_id] = report_on(run_id, stands, segments, also=(whole,), told=said, end_ns=span.last_ns)
    tell(1.0)
    return Judged(
        watch=watch,
        from_ns=info.from_ns,
        to_ns=info.to_ns,
        runs=reports,
        series=Series(axis=lines, runs=drawn, gpus=gpus, hosts=hosts, marks=marks(recording.events())),
        accounts=accounts,
        gpus={uuid: tally.account() for uuid, tally in machines.gpus.items()},
        hosts={host: tally.account() for host, tally in machines.hosts.items()},
        sampled=True,
        judgements=sum(map(len, found.values())),
        meant=frozenset(span.run.run_id for span in info.runs if span.meant),
    )


Look = tuple[int, Verdict]
Found = dict[str, list[Look]]
Best = dict[str, dict[str, Verdict]]


def _looks(recording: Recording, info: Info, tell: Progress) -> tuple[Found, Best]:
    """Verdicts at evenly spaced moments, by run, and the surest of each cause."""
    found: Found = {}
    best: Best = {}
    held: dict[str, Verdict] = {}
    gap_ns = _gap_ns(info.runs)
    count = max(LEAST_MOMENTS, min(MOMENTS, RUN_MOMENTS // max(1, len(info.runs))))
    for number in range(count):
        t_ns = info.from_ns + (2 * number + 1) * (info.to_ns - info.from_ns) // (2 * count)
        going = [span.run.run_id for span in info.runs if span.first_ns <= t_ns <= span.last_ns]
        if going:
            past = recording.at(t_ns, columns=1, exact_ns=WINDOW_NS + (WINS - 1) * gap_ns)
            timeline = Timeline(past.column_ns)
            timeline.restore(past)
            for run_id in [one for one in going if one in timeline.runs]:
                said = past.runs[run_id].said if run_id in past.runs else None
                held[run_id] = _settled(timeline, run_id, t_ns, gap_ns, held.get(run_id), said)
                found.setdefault(run_id, []).append((t_ns, held[run_id]))
            keep_surest(best, {run_id: held[run_id] for run_id in going if run_id in held})
        tell((number + 1) / count)
    return found, best


def _gap_ns(runs: Sequence[RunSpan]) -> int:
    """How far apart the judgements of a new cause are: as live, a second, but steps enough for it to win."""
    lengths = [(span.last_ns - span.first_ns) / span.steps for span in runs if span.steps]
    return int(min(MAX_GAP_NS, max(S, GAP_STEPS * max(lengths, default=0.0))))


def _settled(
    timeline: Timeline, run_id: str, t_ns: int, gap_ns: int, held: Verdict | None, said: Verdict | None
) -> Verdict:
    """The verdict at a moment, as steady as a live one: another cause than that of the look before must win as there,
    unless it was said at the time as well."""
    now = judge(timeline.window(run_id, t_ns))
    before = held or said
    if before is None or now.cause == before.cause or (said is not None and now.cause == said.cause):
        return now
    steady = Judge()
    steady.resume((), before)
    verdict = now
    for back in reversed(range(WINS)):
        verdict = steady.update(timeline.window(run_id, t_ns - back * gap_ns))
    return verdict


def _long_look(recording: Recording, span: RunSpan, account: Account) -> Verdict | None:
    """A verdict over some minutes of the run, where much of its time went into what comes rarely."""
    rare = sum(ns for name, ns in account.phases_ns.items() if role(name) in EPISODIC)
    if not account.train_ns or 100 * rare < EPISODIC_PCT * account.train_ns:
        return None
    rate = account.steps / max(1, span.last_ns - span.first_ns)
    length = int(min(LONG_LOOK_NS, LONG_LOOK_STEPS / max(rate, 1e-18), span.last_ns - span.first_ns))
    at = min(span.last_ns, (span.first_ns + span.last_ns + length) // 2)
    past = recording.at(at, columns=1, exact_ns=length)
    timeline = Timeline(past.column_ns, keep_ns=length)
    timeline.restore(past)
    return judge(timeline.window(span.run.run_id, at, whole=True)) if span.run.run_id in timeline.runs else None


def _segments(found: Sequence[Look], span: RunSpan, said: Sequence[tuple[int, str]]) -> tuple[Segment, ...]:
    """The stretches under one verdict. Between two moments that differ, the change is where it was said at the time
    that the later cause began to hold, else half-way."""
    if not found:
        return ()
    out = [Segment(span.first_ns, span.last_ns, found[0][1].cause)]
    for (before, earlier), (after, later) in pairwise(found):
        if earlier.cause == later.cause:
            continue
        since = said[bisect_left(said, (before, "")) :]
        at = next((t for t, cause in since if t >= after or cause == later.cause), after)
        change = at if before < at < after else (before + after) // 2
        out[-1] = Segment(out[-1].from_ns, change, out[-1].cause)
        out.append(Segment(change, span.last_ns, later.cause))
    return tuple(out)
