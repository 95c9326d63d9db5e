"""Watching, without threads or clocks: a timeline and one judge a run, turned into a view when asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from gputop.diagnosis.verdict import Judge, judge_idle
from gputop.job import Job
from gputop.recording.past import Past, RunPast
from gputop.recording.state import RecordingState
from gputop.records import AnyRecord, Verdict
from gputop.timeline import Timeline
from gputop.tracks import EXACT_NS, RunTrack, S
from gputop.view import Cursor, RunView, Segment, Share, View
from gputop.viewing import columns_view, forgotten, gpu_order, gpu_view, host_view, run_order, run_view, trouble
from gputop.window import Window

HISTORY_COLUMNS = 300
"""Columns of history in a view: as many as the widest screen can draw."""

SHORT_COLUMNS = 60
"""The same where there are more than MANY runs."""

MANY = 16
"""Runs that are drawn afresh for each view; with more, each is drawn when it is judged."""

JUDGED_AT_ONCE = 48
"""Runs judged in one tick: with more, they take turns, so that a thousand ranks cost no more than these. The ranks of a
job that stand out, and the usual one, have one each time."""

UNWATCHED_NS = 60 * S
"""How long a busy process that nobody watches is offered: scans of all processes come seconds apart, more with many."""

SAY_AGAIN_NS = 60 * S
"""A verdict is remembered, and recorded, when its cause or its firmness changes, and this often in between."""

SAID_ALL = 2048
SAID_LEAST = 8
SAID_MOST = 256
"""Verdicts remembered: of all runs together, and of one run at least and at most. An hour of steady ones takes 60."""


class Watch:
    """What is watched: add records as they come, tick about once a second, take a view whenever one is wanted.

    `awaits`: it is watched as it happens, so that a run's processes may be sampled only after its steps are known.
    """

    def __init__(
        self,
        source: str = "live",
        *,
        column_ns: int = 2 * S,
        hostname: str = "",
        simulated: bool = False,
        keep_ns: int = EXACT_NS,
        awaits: bool = False,
    ) -> None:
        self.timeline = Timeline(column_ns, keep_ns)
        self.judges: dict[str, Judge] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.windows: dict[str, Window] = {}
        self.said: dict[str, deque[Verdict]] = {}
        self.news: list[Verdict] = []
        self.told: dict[str, Verdict] = {}
        self._rows: dict[str, RunView] = {}
        self._judged_ns: dict[str, int] = {}
        self.source = source
        self.awaits = awaits
        self.hostname = hostname
        self.simulated = simulated
        self.started_ns: int | None = None

    def add(self, record: AnyRecord) -> None:
        """Take in one record."""
        self.timeline.add(record)

    def tick(self, now_ns: int, *, every_run: bool = False) -> dict[str, Verdict]:
        """Judge the runs that go on (with very many, those whose turn it is); returns all verdicts by run.

        `news` are then the verdicts of this tick that are worth to be remembered and recorded.
        """
        if self.started_ns is None:
            self.started_ns = now_ns
        self.news = []
        many = len(self.timeline.runs) > JUDGED_AT_ONCE and not every_run
        jobs = self.timeline.jobs(now_ns) if many else ()
        for run_id in self._due(JUDGED_AT_ONCE if many else None, jobs):
            self._judge(run_id, now_ns)
        for job in jobs:
            self._lend(job, now_ns)
        for run_id in [one for one in self.judges if one not in self.timeline.runs]:
            for held in (self.judges, self.verdicts, self.windows, self.said, self._judged_ns, self._rows):
                held.pop(run_id, None)
        return self.verdicts

    def _judge(self, run_id: str, now_ns: int) -> None:
        window = self.timeline.window(run_id, now_ns)
        judge = self.judges.get(run_id)
        if judge is None:
            judge = self.judges[run_id] = Judge(awaits=self.awaits)
        self.windows[run_id] = window
        told = self.told.get(run_id)
        verdict = self.verdicts[run_id] = judge.update(window) if told is None else told
        self._judged_ns[run_id] = now_ns
        self._remember(verdict)
        if len(self.timeline.runs) > MANY:
            self._rows[run_id] = self._run_view(self.timeline.runs[run_id], self._axis(now_ns))

    def _remember(self, verdict: Verdict) -> None:
        said = self.said.setdefault(verdict.run_id, deque())
        last = said[-1] if said else None
        same = last is not None and (last.cause, last.tentative) == (verdict.cause, verdict.tentative)
        if last is not None and same and verdict.t - last.t < SAY_AGAIN_NS:
            return
        said.append(verdict)
        self.news.append(verdict)
        while len(said) > max(SAID_LEAST, min(SAID_MOST, SAID_ALL // len(self.timeline.runs))):
            said.popleft()

    def restore(self, past: Past, *, resumed: bool = False, told: Mapping[str, Verdict] | None = None) -> None:
        """Stand at another moment, with all that is known there, and judge it.

        What was said before is shown as it was; `resumed`: it was said by this watch, and stays in force until it is
        overtaken. The verdicts of `told` stand for runs of which no steps are held at that moment.
        """
        self.timeline = Timeline(past.column_ns, self.timeline.keep_ns)
        self.timeline.restore(past)
        self.judges, self.told, self.news = {}, dict(told or {}), []
        for held in (self.verdicts, self.windows, self.said, self._judged_ns, self._rows):
            held.clear()
        self.started_ns = past.from_ns if self.started_ns is None else self.started_ns
        for run_id in [one for one, track in self.timeline.runs.items() if forgotten(track, past.t_ns)]:
            del self.timeline.runs[run_id]
        for run_id in self.timeline.runs:
            before = past.runs.get(run_id, RunPast())
            judge = self.judges[run_id] = Judge()
            known_ns = past.t_ns if before.known_ns is None else min(before.known_ns, past.t_ns)
            judge.resume(
                segments_of(before.changes, known_ns), before.said if resumed else None, gap=known_ns < past.t_ns
            )
        self.tick(past.t_ns)
        for run_id, verdict in self.verdicts.items():
            changes = past.runs.get(run_id, RunPast()).changes
            goes_on = changes and len(self.judges[run_id].segments) == len(changes)  # no stretch was added to those
            if not resumed and goes_on and verdict.since_ns is not None:
                self.judges[run_id].backdate(changes[-1][0])
                self.verdicts[run_id] = msgspec.structs.replace(verdict, since_ns=min(verdict.since_ns, changes[-1][0]))
                self._rows.pop(run_id, None)

    def unjudged(self) -> bool:
        """Whether there are runs that wait for their first turn."""
        return len(self._judged_ns) < len(self.timeline.runs)

    def _due(self, limit: int | None, jobs: Iterable[Job]) -> list[str]:
        """The runs to judge now: all that go on; where they must take turns, the ranks that matter in their jobs, and
        the longest unjudged."""
        going = [
            run_id
            for run_id, track in self.timeline.runs.items()
            if track.ended is None or self._judged_ns.get(run_id, -1) < (track.last_end or 0)
        ]
        if limit is not None and len(going) > limit:
            told = [track for job in jobs for track in (*job.outstanding, job.usual) if track is not None]
            matter = {track.run.run_id for track in told}
            going.sort(key=lambda run_id: (run_id not in matter, self._judged_ns.get(run_id, -1)))
        return going[:limit]

    def _lend(self, job: Job, now_ns: int) -> None:
        """Give ranks that wait for their turn the verdict of the usual rank of their job, where they are like it: those
        that have had none yet, and those that were last judged before its cause has changed."""
        usual = None if job.usual is None else self.verdicts.get(job.usual.run.run_id)
        if job.usual is None or usual is None or self._judged_ns.get(job.usual.run.run_id) != now_ns:
            return
        for track in job.tracks:
            run_id = track.run.run_id
            judged_ns, own = self._judged_ns.get(run_id, -1), self.verdicts.get(run_id)
            stands = judged_ns >= (usual.since_ns or now_ns) or (own is not None and own.cause == usual.cause)
            if judged_ns != now_ns and not stands and job.alike(track, job.usual):
                self._borrow(track, usual, job.usual.run.rank)

    def _borrow(self, track: RunTrack, verdict: Verdict, rank: int | None) -> None:
        run_id = track.run.run_id
        said = f"judged by rank {rank}, which spends its time alike: this rank's own turn is to come"
        verdict = msgspec.structs.replace(verdict, run_id=run_id, tentative=True, notices=[said, *verdict.notices])
        self.verdicts[run_id] = verdict
        if (row := self._rows.get(run_id)) is not None:
            self._rows[run_id] = msgspec.structs.replace(row, verdict=verdict)

    def _axis(self, now_ns: int) -> tuple[int, int]:
        """The first and last column of the histories."""
        width = self.timeline.column_ns
        columns = HISTORY_COLUMNS if len(self.timeline.runs) <= MANY else SHORT_COLUMNS
        last = now_ns // width
        return min(last, max(last - columns + 1, (self.timeline.first_ns or now_ns) // width)), last

    def view(
        self,
        now_ns: int,
        warnings: tuple[str, ...] = (),
        waiting: str | None = None,
        *,
        forget: bool = True,
        cursor: Cursor | None = None,
        recording: RecordingState | None = None,
    ) -> View:
        """Everything as of `now_ns`; with `forget`, without runs that ended long ago."""
        timeline = self.timeline
        started = self.started_ns if self.started_ns is not None else now_ns
        axis = self._axis(now_ns)
        runs = tuple(
            self._row(track, axis) if len(timeline.runs) > MANY else self._run_view(track, axis)
            for run_id, track in sorted(timeline.runs.items(), key=run_order)
            if run_id in self.verdicts and not (forget and forgotten(track, now_ns))
        )
        host = next(iter(timeline.hosts.values()), None)
        trouble_ = trouble(timeline.samplers.values())
        return View(
            now_ns=now_ns,
            source=self.source,
            hostname=self.hostname or (runs[0].run.host if runs else ""),
            column_ns=timeline.column_ns,
            last_column=axis[1],
            started_ns=started,
            simulated=self.simulated or any(run.run.simulated for run in runs),
            runs=runs,
            gpus=tuple(
                gpu_view(track, now_ns, axis, trouble_)
                for _, track in sorted(timeline.gpus.items(), key=gpu_order)
                if track.samples
            ),
            host=host_view(host, now_ns, axis) if host is not None and host.samples else None,
            samplers=tuple(timeline.samplers.values()),
            events=tuple(timeline.events),
            warnings=warnings,
            unwatched=tuple(
                one for one in timeline.others.values() if one.framework and now_ns - one.t <= UNWATCHED_NS
            ),
            waiting=None if runs else waiting,
            cursor=cursor,
            recording=recording,
        )

    def idle(self, now_ns: int) -> Verdict:
        """The verdict when there is no run."""
        host = next(iter(self.timeline.hosts.values()), None)
        return judge_idle(now_ns, self.hostname or (host.samples[-1].host if host is not None and host.samples else ""))

    def _row(self, track: RunTrack, axis: tuple[int, int]) -> RunView:
        """One of many runs as it was drawn when it was judged, or when first shown."""
        run_id = track.run.run_id
        if run_id not in self._rows:
            self._rows[run_id] = self._run_view(track, axis)
        return self._rows[run_id]

    def _run_view(self, track: RunTrack, axis: tuple[int, int]) -> RunView:
        run_id, column_ns = track.run.run_id, self.timeline.column_ns
        verdict, judge = self.verdicts[run_id], self.judges.get(run_id) or Judge()
        window = self.windows.get(run_id) or Window(run=track.run, from_ns=verdict.t, to_ns=verdict.t)
        view = run_view(
            track,
            window,
            verdict,
            judge.segments,
            ledger=tuple(Share(bucket.phase, bucket.pct, bucket.ms) for bucket in judge.ledger),
            match=self.timeline.match(track.run),
            axis=axis,
            column_ns=column_ns,
        )
        if run_id in self.told or run_id not in self.windows:
            return columns_view(view, track, window.to_ns // column_ns - 1, column_ns)
        return view


def segments_of(changes: tuple[tuple[int, str], ...], end_ns: int) -> tuple[Segment, ...]:
    """The stretches under one cause each, from when each began to hold, the last one up to `end_ns`."""
    ends = [t for t, _ in changes[1:]] + [end_ns]
    return tuple(Segment(t, max(t, end), cause) for (t, cause), end in zip(changes, ends, strict=False))
