"""Jobs of several ranks: they meet in the exchange, wait there for the last one, and every rank says who it is."""

from __future__ import annotations

import pytest

from gputop.records import Step
from gputop.report.judged import judge_trace
from gputop.simulation.clock import VirtualClock
from gputop.simulation.exchange import Exchange
from gputop.simulation.job import rigs, train_all
from gputop.simulation.physics import Physics, Ranks
from gputop.simulation.scenarios import JOBS
from gputop.simulation.trace import records
from gputop.simulation.whatif import Unwatched

SECOND = 1_000_000_000


@pytest.mark.parametrize("name", JOBS)
def test_every_rank_names_it_and_what_the_cure_leaves(name: str) -> None:
    cause = name.partition(":")[0]
    planted = judge_trace(records(name, seconds=14), "test")  # type: ignore[arg-type]
    assert len(planted.runs) == JOBS[name].planted.ranks.world
    assert {run.verdict.cause for run in planted.runs.values()} == {cause}
    cured = judge_trace(records(name, fixed=True, seconds=14), "test")  # type: ignore[arg-type]
    assert {run.verdict.cause for run in cured.runs.values()} == {"gpu-bound"}


def test_a_sum_ends_when_the_last_part_has_gone_round_and_the_next_after_it() -> None:
    physics = Physics(ranks=Ranks(world=2, buckets=2, latency_ns=10, link_bytes_s=1e18))
    exchange = Exchange(physics)
    exchange.join([iter(()), iter([0])])
    ends = []

    def other() -> object:
        ends.append(exchange.meet(1, [400, 405]))
        yield 1

    exchange.join([iter(()), other()])  # type: ignore[list-item]
    assert exchange.meet(0, [100, 900]) == 910
    assert ends == [910]


@pytest.mark.parametrize("overlap", [True, False])
def test_ranks_stay_together_and_the_early_ones_devices_are_busy_waiting(overlap: bool) -> None:
    physics = Physics(ranks=Ranks(world=3, late=1, late_compute=2.0, overlap=overlap))
    clocks = [VirtualClock() for _ in range(3)]
    job = rigs(physics, clocks)
    for _ in train_all(job, [Unwatched()] * 3):
        if clocks[0].now() > 5 * SECOND:
            break
    now = [clock.now() for clock in clocks]
    assert max(now) - min(now) < 0.3 * SECOND
    assert all(rig.device.busy.mean(2 * SECOND, 4 * SECOND) > 0.95 for rig in job)
    power = [rig.device.power.mean(2 * SECOND, 4 * SECOND) for rig in job]
    assert power[1] > 1.4 * max(power[0], power[2])


def test_what_is_left_of_the_sums_after_backward_is_a_phase_as_the_publisher_tells_it() -> None:
    apart = [r for r in records("comm-bound: after backward", seconds=3) if isinstance(r, Step)]
    inside = [r for r in records("comm-bound: inside backward", seconds=3) if isinstance(r, Step)]
    for step in (*apart, *inside):
        assert step.gpu_ns is not None
        assert step.gpu_ns["comm"] > 0.2 * step.gpu_ns["backward"]
        assert 0 < step.phases_ns["comm"] < step.gpu_ns["comm"]
    assert len({step.run_id for step in apart}) == 4
