"""Where the ranks of a simulated job meet: a sum over all of them ends when the last one's part has gone round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputop.simulation.physics import Physics


class Exchange:
    """The sums of one job. Ranks have clocks of their own and meet in nothing else.

    A rank that comes to a sum has the next one run until it is there too, and so on: the order in which they are run is
    none in time. Rank 0 is run by whoever watches the job.
    """

    def __init__(self, physics: Physics) -> None:
        plan = physics.ranks
        parts = plan.buckets if plan.overlap else 1
        sent = 2 * (plan.world - 1) / plan.world * 4 * physics.model.params / parts
        self._sum_ns = physics.scaled(sent / plan.link_bytes_s * 1e9 + plan.latency_ns)
        self._trainings: Sequence[Iterator[int]] = ()
        self._ready: list[list[int]] = [[] for _ in range(plan.world)]
        self._ends = 0

    def join(self, trainings: Sequence[Iterator[int]]) -> None:
        """The training of each rank, in order."""
        self._trainings = trainings

    def meet(self, rank: int, ready: list[int]) -> int:
        """When the sums are over whose parts are ready at these times on this rank, one after the other."""
        self._ready[rank] = ready
        if rank + 1 < len(self._ready):
            next(self._trainings[rank + 1])
        else:
            self._ends = 0
            for parts in zip(*self._ready, strict=True):
                self._ends = max(self._ends, *parts) + self._sum_ns
        return self._ends
