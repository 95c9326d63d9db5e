"""A process watched from outside: py-spy samples it piece by piece, and each piece becomes records of a run."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable

from gputop.records import Alive, AnyRecord, Event, Loader, Run, Sampler, Site, SiteSample, clean
from gputop.samplers import proc
from gputop.samplers.attach import classes, identity, loading, stacks, tool
from gputop.samplers.attach.chunk import Chunk
from gputop.samplers.attach.cycles import Cycles, Span
from gputop.samplers.attach.inside import Look
from gputop.samplers.attach.source import Source
from gputop.samplers.protocol import S

CHUNKS_S = (2.0, 2.0, 2.0, 4.0)
"""Runs of py-spy, the last length from then on: a first answer soon, then few of the short gaps between two runs."""

MAX_SITES = 20
MAX_STACK = 12
RETRIES = 3
"""Failed runs of py-spy in a row after which it is given up: one may meet a process in the middle of a fork."""

BACKEND = "stacks"

WAITING_SHARE = 0.2
"""Share of the time in data from which it is worth to look into a loader worker too."""


class Attachment:
    """Samples one process for as long as it lives. `poll` returns at once; nothing is ever written to the process."""

    def __init__(
        self, pid: int, *, host: str, clock: Callable[[], int], cmdline: bool = True,
        program: str | None = None, chunk: Callable[..., Chunk] = Chunk,
    ) -> None:  # fmt: skip
        """`clock` is the trace's. Raises Refused."""
        self.pid = pid
        self.host = host
        self._program = program or tool.check(pid)
        self._clock = clock
        self._make = chunk
        try:
            self._start = proc.of(pid).start
            self.run: Run = identity.describe(pid, t=clock(), host=host, cmdline=cmdline)
        except (OSError, ValueError):
            raise tool.Refused(f"process {pid} has ended") from None
        self.run_id = self.run.run_id
        self.over = False
        self.refused: tool.Refused | None = None
        self._cycles = Cycles(self.run_id, S // tool.RATE_HZ)
        self._source = Source(pid)
        self._said = False
        self._failures = self._count = 0
        self._heard = False
        self._loader: loading.Loading | None = None
        self._waiting = False
        self._inside: Look | None = None
        self._chunk: Chunk | None = chunk(self._program, pid, CHUNKS_S[0])
        self._began = clock()

    def poll(self) -> list[AnyRecord]:
        """The records that are ready."""
        if self.over:
            return []
        now = self._clock()
        records: list[AnyRecord] = []
        if not self._said:
            records += [self.run, Alive(t=now, run_id=self.run_id, steps=0)]
            self._said = True
        sampled = self._chunk.poll() if self._chunk is not None else None
        if sampled is None:
            if self._chunk is not None and now - self._began > self._chunk.patience_s * S:
                self._chunk.close()
                self._fail(tool.Refused("py-spy does not answer"), now, records)
            return records
        records += self._worker(now)
        if sampled.refused is None:
            self._failures, self._heard = 0, True
            records += self._read(sampled.threads, now - sampled.age_ns)
        else:
            self._fail(sampled.refused, now, records)
        if not self.over and not self._alive():
            self._end(now, "the process has ended", records)
        if not self.over:
            self._again(now, records)
        return records

    def close(self) -> None:
        """Let go of the process, at once."""
        self.over = True
        for chunk in (self._chunk, self._inside):
            if chunk is not None:
                chunk.close()
        self._chunk = self._inside = None

    def _again(self, now: int, records: list[AnyRecord]) -> None:
        self._began = now
        self._count += 1
        try:
            self._chunk = self._make(self._program, self.pid, CHUNKS_S[min(self._count, len(CHUNKS_S) - 1)])
        except tool.Refused as refused:
            self._fail(refused, now, records, at_once=True)

    def _fail(self, refused: tool.Refused, now: int, records: list[AnyRecord], *, at_once: bool = False) -> None:
        self._failures += 1
        if not self._alive():
            self._end(now, "the process has ended", records)
        elif at_once or self._failures >= RETRIES or not self._heard:
            self.refused = refused
            records.append(Sampler(t=now, host=self.host, backend=BACKEND, state="absent", why=str(refused)))
            self._end(now, clean(f"its stacks can't be sampled: {refused}", 300), records)

    def _end(self, now: int, why: str, records: list[AnyRecord]) -> None:
        records.append(Event(t=now, kind="exit", run_id=self.run_id, label=why))
        self.close()

    def _alive(self) -> bool:
        """Whether the pid is still the process that was attached to."""
        try:
            stat = proc.of(self.pid)
        except (OSError, ValueError):
            return False
        return stat.start == self._start and stat.state != "Z"

    def _read(self, threads: list[stacks.Thread], now: int) -> list[AnyRecord]:
        thread = stacks.main_thread(threads, self.pid)
        if thread is None or not thread.stretches:
            return []
        line = self._source.line
        phases = [classes.of(stretch.frames, line) for stretch in thread.stretches]
        # py-spy's times begin when it does; it ends, and writes, right after its last sample.
        shift = now - max(one.stretches[-1].to_ns for one in threads if one.stretches)
        spans = [Span(one.from_ns + shift, one.to_ns + shift, phase)
                 for one, phase in zip(thread.stretches, phases, strict=True)]  # fmt: skip
        loaded = sum(one.to_ns - one.from_ns for one in spans if one.phase == "data")
        self._waiting = loaded >= WAITING_SHARE * (spans[-1].to_ns - spans[0].from_ns)
        records: list[AnyRecord] = self._loading(threads, thread, now)
        records += self._cycles.feed(spans)
        records.append(self._sites(thread.stretches, phases, spans[0].from_ns))
        stack = [clean(one.words(), 200) for one in thread.stretches[-1].frames[::-1][:MAX_STACK]]
        count, since = self._cycles.count, spans[-1].from_ns
        records.append(
            Alive(t=now, run_id=self.run_id, steps=count, open_phase=phases[-1], open_since_ns=since, stack=stack)
        )
        return records

    def _worker(self, now: int) -> list[AnyRecord]:
        """Where one of its loader workers is, while the training waits for data: the busiest, anew each time."""
        records: list[AnyRecord] = []
        if self._inside is not None:
            records = self._inside.poll()
            if not self._inside.over:
                return records
            self._inside = None
        if self._waiting and self._loader is not None and self._loader.worker_pids:
            with contextlib.suppress(tool.Refused):
                self._inside = Look(
                    self.pid, self.run_id, clock=self._clock, seconds=2.0, program=self._program, chunk=self._make
                )
        return records

    def _loading(self, threads: list[stacks.Thread], main: stacks.Thread, now: int) -> list[AnyRecord]:
        """How its data are loaded, when that has changed."""
        found = loading.read(self.pid, threads, main)
        if found is None or found == self._loader:
            return []
        self._loader = found
        return [
            Loader(
                t=now, run_id=self.run_id, loader_id=0, num_workers=len(found.worker_pids),
                worker_pids=list(found.worker_pids), pin_memory=found.pin_memory,
            )
        ]  # fmt: skip

    def _sites(self, stretches: list[stacks.Stretch], phases: list[str], t: int) -> Site:
        seen: Counter[tuple[str, str]] = Counter()
        for one, phase in zip(stretches, phases, strict=True):
            frame = classes.users(one.frames)
            if frame is not None:
                seen[phase, clean(frame.site(), 120)] += max(1, round((one.to_ns - one.from_ns) * tool.RATE_HZ / S))
        sites = [SiteSample(phase=phase, site=site, samples=n) for (phase, site), n in seen.most_common(MAX_SITES)]
        return Site(t=t, run_id=self.run_id, sites=sites)
