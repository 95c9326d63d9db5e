"""The simulated loader deals batches as torch's does."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from gputop.simulation.activity import Activity
from gputop.simulation.clock import VirtualClock
from gputop.simulation.loader import SimulatedLoader
from gputop.simulation.physics import Input, Machine, Physics

PLAIN = Input(workers=4, batches=40, decode_ns=400, decode_jitter=0.0, handover_ns=0, read_bytes=0)


def waits(plan: Input, step_ns: int, cores: int = 64) -> list[int]:
    """The wait of each request of one epoch whose steps take `step_ns`."""
    clock = VirtualClock()
    loader = SimulatedLoader(clock, Physics(input=plan, machine=Machine(cores=cores)), Random(0), Activity())
    found, asked = [], clock.now()
    for _ in loader:
        found.append(clock.now() - asked)
        clock.wait_until(clock.now() + step_ns)
        asked = clock.now()
    return found


def test_an_epoch_yields_every_batch_in_order() -> None:
    loader = SimulatedLoader(VirtualClock(), Physics(input=PLAIN), Random(0), Activity())
    assert [batch.number for batch in loader] == list(range(40)) == list(range(len(loader)))


def test_a_loop_slower_than_the_workers_waits_for_the_first_batch_alone() -> None:
    assert waits(PLAIN, 150) == [400] + [0] * 39


def test_a_loop_faster_than_the_workers_waits_once_a_round() -> None:
    found = waits(PLAIN, 10)
    assert sum(found) == pytest.approx(10 * 400 - 40 * 10, rel=0.05)
    assert [i for i, wait in enumerate(found) if wait > 300] == list(range(0, 40, 4))


def test_with_no_workers_each_request_makes_its_batch() -> None:
    assert waits(replace(PLAIN, workers=0), 1000) == [400] * 40


def test_more_workers_than_cores_are_each_slower() -> None:
    few, many = sum(waits(PLAIN, 0, cores=4)), sum(waits(replace(PLAIN, workers=16), 0, cores=4))
    assert many == pytest.approx(few, rel=0.25)


def test_a_slow_batch_holds_up_ready_ones() -> None:
    class Slow(Random):
        dealt = 0

        def lognormvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
            self.dealt += 1
            return 20.0 if self.dealt == 9 else 1.0

    clock = VirtualClock()
    loader = SimulatedLoader(clock, Physics(input=replace(PLAIN, decode_jitter=1.0)), Slow(), Activity())
    held = []
    for _ in loader:
        held.append(loader.late_ready)
        clock.wait_until(clock.now() + 300)
    assert held[8] >= 5
    assert max(held[:8] + held[10:]) == 0
