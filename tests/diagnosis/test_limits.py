"""What a cure can gain ends at the next limit; and what only shows beyond one window is not forgotten."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.diagnosis.evidence import Facts, gather
from gputop.diagnosis.limits import bounded, loader_busy_pct
from gputop.diagnosis.weigh import weigh
from gputop.simulation.physics import MS, Episodes, Host, Input, Machine, Model, Physics
from tests.diagnosis.builder import COMPUTE, low, trace, window, workers
from tests.simulation.loops import watched


def facts(worker_pct: float) -> Facts:
    sample = {"cpu_pct": 60, "workers": workers(4, worker_pct)}
    return gather(
        window(
            trace(
                COMPUTE | {"other": 40.0}, idle={"data": 0.5, "other": 40.0}, queue_empty=0.5, gpu=low(),
                loader={"num_workers": 4}, host={"cpu_pct": 30, "cores": 16}, process=sample,
            )
        )
    )  # fmt: skip


def test_a_gain_ends_where_the_workers_are_never_idle() -> None:
    free, full = facts(20), facts(85)
    one, other = (weigh(found).ranked[0] for found in (free, full))
    assert one.cause == other.cause == "host-work"
    assert one.speedup_limit is not None
    assert other.speedup_limit is not None
    assert other.speedup_limit <= 100 / 85 + 0.01 < one.speedup_limit
    assert other.score < one.score


def test_a_loader_without_workers_is_no_limit() -> None:
    found = facts(85)
    assert found.loader is not None
    alone = replace(found, loader=replace(found.loader, num_workers=0))
    assert loader_busy_pct(alone) is None
    winner = weigh(found).ranked[0]
    assert bounded(alone, replace(winner, gain_pct=None)).gain_pct is None


def test_a_validation_longer_than_the_window_is_named_while_it_goes_on() -> None:
    long = Physics(episodes=Episodes(validate_every=40, validate_batches=120))
    said = [verdict.cause for verdict in watched(long, 0, 60, 2)]
    assert said[-1] == "evaluation"
    assert set(said[3:]) <= {"evaluation", "gpu-bound"}


def test_single_slow_samples_that_come_again_are_no_accidents() -> None:
    rare = Physics(
        machine=Machine(cores=24),
        input=Input(workers=12, batch=16, decode_ns=190 * MS, slow_share=0.04, slow_factor=24.0),
        model=Model(forward=556, backward=1167, optimizer=130, kernel_ns=23_000, optimizer_kernel_ns=23_000),
    )
    assert watched(rare, 3, 60)[-1].cause == "input-slow-sample"


def test_thread_pools_that_starve_the_training_thread_are_named_though_no_data_is_awaited() -> None:
    crowded = Physics(
        machine=Machine(cores=12),
        input=Input(workers=6, prefetch=4, decode_ns=300 * MS, worker_threads=6),
        model=Model(forward=3500, backward=7500, optimizer=800, kernel_ns=9_000, launch_ns=8_300),
    )
    verdict = watched(crowded, 1, 30)[-1]
    assert verdict.cause == "input-oversubscribed"
    assert watched(replace(crowded, input=replace(crowded.input, worker_threads=1)), 1, 30)[-1].cause != verdict.cause


def test_an_unfused_update_is_told_from_launching_as_such() -> None:
    slow = Physics(model=Model(optimizer_fused=False, param_tensors=5_000), host=Host(work_ns=50_000))
    verdict = watched(slow, 2, 30)[-1]
    assert verdict.cause == "optimizer"
    assert verdict.speedup_limit is not None
