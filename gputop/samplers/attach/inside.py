"""A look into one loader worker of a training: py-spy samples the busiest, and its lines become a `site` record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gputop.records import AnyRecord, Site, SiteSample
from gputop.samplers.attach import lines, loading, stacks, tool
from gputop.samplers.attach.chunk import Chunk
from gputop.samplers.protocol import S

WORKER = "worker"
"""The phase of sites that were found in a loader worker."""

ASKED_S = 3.0
"""How long a worker is looked into on request: three hundred samples tell shares to some percent."""


class Look:
    """One look, begun at once. `poll` never waits; `over` once there is nothing more to come, with `refused` where
    nothing could be seen."""

    def __init__(
        self, pid: int, run_id: str, *, clock: Callable[[], int], workers: Sequence[int] | None = None,
        seconds: float | None = None, program: str | None = None, chunk: Callable[..., Chunk] = Chunk,
    ) -> None:  # fmt: skip
        """`pid` is the training's; `workers` None: its children that look like workers; `seconds` None: ASKED_S. Raises
        Refused."""
        busiest = next(iter(loading.busiest(workers) if workers else loading.workers(pid)), None)
        if busiest is None:
            raise tool.Refused(f"process {pid} has no loader workers")
        self.over = False
        self.refused: tool.Refused | None = None
        self._run_id, self._clock = run_id, clock
        self._chunk = chunk(program or tool.check(busiest), busiest, seconds or ASKED_S)
        self._pid, self._until = busiest, clock() + int(self._chunk.patience_s * S)

    def poll(self) -> list[AnyRecord]:
        """The record, when it is ready."""
        if self.over:
            return []
        sampled = self._chunk.poll()
        if sampled is None:
            if self._clock() > self._until:
                self.refused = tool.Refused("py-spy does not answer")
                self.close()
            return []
        self.close()
        self.refused = sampled.refused
        thread = stacks.main_thread(sampled.threads, self._pid)
        if thread is None or not thread.stretches:
            return []
        found = lines.read(self._pid, thread.stretches)
        sites = [SiteSample(phase=WORKER, site=one.site, samples=one.samples) for one in found.lines]
        return [Site(t=self._clock(), run_id=self._run_id, sites=sites)]

    def close(self) -> None:
        """Let go of the worker, at once."""
        self.over = True
        self._chunk.close()
