"""What a cure can gain ends at the next limit; and what only shows beyond one window is not forgotten."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.diagnosis.evidence import Facts, gather
from gputop.diagnosis.limits import bounded, loader_busy_pct
from gputop.diagnosis.weigh import weigh
from gputop.simulation.physics import MS, Episodes, Host, Input, Machine, Model, Physics, Ranks
from gputop.simulation.trace import trace as trace_of
from gputop.simulation.whatif import REMEDIES, speed
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


def gain(physics: Physics, cause: str, steps: int = 120) -> float:
    """How many times as fast a loop is with plenty of what a cause is short of."""
    return speed(REMEDIES[cause](physics), 60, 0, steps) / speed(physics, 60, 0, steps)


def kept_promise(physics: Physics, cause: str, rel: float) -> None:
    """The loop is called so, and gains what is promised."""
    verdict = watched(physics, 0, 24, 4)[-1]
    assert verdict.cause == cause
    assert verdict.speedup_limit == pytest.approx(gain(physics, cause), rel=rel)


def test_launches_hide_no_idle_time_of_the_loops_own_work() -> None:
    """Once they are quick, the device still rests while the host works, and is still busy as long as it was."""
    slow = Physics(
        model=Model(forward=22_000, backward=36_000, optimizer=4_400, kernel_ns=2_000, optimizer_kernel_ns=2_000,
                    launch_ns=5_000),
        host=Host(work_ns=86 * MS),
    )  # fmt: skip
    kept_promise(slow, "launch-bound", rel=0.1)


def test_one_thread_for_each_worker_spares_no_copy() -> None:
    pools = Physics(
        machine=Machine(cores=8),
        input=Input(workers=4, prefetch=4, pin_memory=False, batch_bytes=160_000_000, decode_ns=95 * MS,
                    worker_threads=7),
        model=Model(forward=1_130, backward=2_000, optimizer=235, kernel_ns=10_000, optimizer_kernel_ns=10_000),
    )  # fmt: skip
    kept_promise(pools, "input-oversubscribed", rel=0.15)


def test_what_stops_the_loop_is_not_the_limit_where_the_loader_never_rests() -> None:
    both = Physics(
        input=Input(decode_ns=80 * MS, read_bytes=1 << 20, disk_bytes_s=14e6),
        model=Model(forward=579, backward=1462, optimizer=154, kernel_ns=17_000, optimizer_kernel_ns=17_000),
        episodes=Episodes(save_every=20, save_bytes=600_000_000),
    )
    found = gather(window(trace_of(both, seconds=20), "sim-custom-0"))
    saving = next(one for one in weigh(found).ranked if one.cause == "checkpoint")
    assert saving.share_pct > 10
    assert saving.gain_pct is not None
    assert saving.gain_pct < 10
    assert weigh(found).winner.cause == "input-disk"


def test_other_ranks_hand_over_their_batches_however_quick_the_late_one_becomes() -> None:
    late = Physics(
        input=Input(handover_ns=75 * MS, batch_bytes=16_000_000),
        model=Model(forward=236, backward=522, optimizer=57),
        ranks=Ranks(world=2, late_link=220.0),
    )
    kept_promise(late, "straggler", rel=0.1)


def test_workers_without_a_core_delay_no_batch_that_lies_ready() -> None:
    crowded = Physics(
        machine=Machine(cores=8, others=32),
        input=Input(workers=4, decode_ns=60 * MS, handover_ns=50 * MS),
        model=Model(forward=650, backward=1840, optimizer=187, kernel_ns=22_000, optimizer_kernel_ns=22_000,
                    launch_ns=4_000),
    )  # fmt: skip
    assert watched(crowded, 0, 24, 4)[-1].cause == "input-transfer"


def on_cpu(own_pct: float, wait_pct: float = 2.0, *, loader: int = 0, **process: object) -> Facts:
    """A training that computes on two cores of a machine without a GPU and waits 36 of 100 ms for data."""
    sample = {"cpu_pct": own_pct, "main_thread_cpu_pct": 90.0, "main_thread_wait_pct": wait_pct} | process
    return gather(
        window(
            trace(
                {"data": 36.0, "forward": 31.0, "backward": 32.0, "optimizer": 1.0}, run={"device": "cpu", "cores": 2},
                no_gpu=True, loader={"num_workers": loader}, host={"cpu_pct": 99, "cores": 2}, process=sample,
            )
        )
    )  # fmt: skip


def promised(found: Facts, cause: str) -> float:
    limit = next(one.speedup_limit for one in weigh(found).ranked if one.cause == cause)
    assert limit is not None
    return limit


def test_workers_take_no_cpu_time_away_from_a_training_that_computes_on_all_cores() -> None:
    """A real loop whose operators take both cores: a worker beside it won little, the wait promised 1.5."""
    assert promised(on_cpu(100), "input-workers") == pytest.approx(1.5, abs=0.1)
    assert promised(on_cpu(162), "input-workers") == pytest.approx(2 / 1.62, abs=0.05)


def test_cheaper_batches_give_a_training_thread_its_core_back() -> None:
    taken = {"main_thread_cpu_pct": 30.0, "tree_cpu_pct": 198.0, "workers": workers(2, 84, wait_pct=12.0)}
    rested, queued = (on_cpu(30, pct, loader=2, **taken) for pct in (0.0, 20.0))
    assert promised(rested, "input-cpu") == pytest.approx(100 / 64, abs=0.1)
    assert promised(queued, "input-cpu") == pytest.approx(100 / 44, abs=0.15)
