"""What is planted is what holds the run back, and the cure takes it away: by what-if, never by a label."""

from __future__ import annotations

import pytest

from gputop.simulation.physics import MS, Host, Physics
from gputop.simulation.scenarios import JOBS, SCENARIOS
from gputop.simulation.whatif import speed, truth


def seconds(name: str) -> float:
    return 3.0 if name == "small-model" else 10.0


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_planted_resource_is_the_one_whose_removal_helps_most(name: str) -> None:
    assert truth(SCENARIOS[name].planted, seconds(name)) == name


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_cure_leaves_the_device_as_the_limit(name: str) -> None:
    assert truth(SCENARIOS[name].fixed, seconds(name)) == "gpu-bound"


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "small-model"])
def test_the_cure_is_faster(name: str) -> None:
    scenario = SCENARIOS[name]
    samples = [speed(p, 10.0) * p.input.batch for p in (scenario.planted, scenario.fixed)]
    assert samples[1] > 1.15 * samples[0]


@pytest.mark.parametrize("name", JOBS)
def test_of_a_job_too_and_the_cure_leaves_the_device_as_the_limit(name: str) -> None:
    job = JOBS[name]
    assert truth(job.planted, 4.0) == name.partition(":")[0]
    assert truth(job.fixed, 4.0) == "gpu-bound"
    assert speed(job.fixed, 4.0) > 1.15 * speed(job.planted, 4.0)


def test_what_comes_every_so_many_steps_is_measured_over_whole_periods() -> None:
    """Of 120 steps, the first fifth left out, 3 end with such work: over 95 steps it would count a fifth less."""
    rare = Physics(host=Host(work_ns=2_500 * MS, work_every=25), jitter=0.0)
    without = 1 / speed(Physics(host=Host(work_ns=0), jitter=0.0), 300, steps=120)
    assert 1 / speed(rare, 300, steps=120) == pytest.approx(without + 2.5 / 25, rel=0.03)
