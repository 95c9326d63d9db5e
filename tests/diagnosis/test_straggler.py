"""straggler: one late rank of a job, and jobs in which none is late."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.records import Process
from tests.diagnosis.builder import HOST, PID, T0, S, both, busy, ranks, workers

LATE: dict[str, tuple[int, int, dict[str, Any], dict[str, Any]]] = {
    "forward": (4, 2, {"forward": 60, "backward": 50}, {"forward": 30, "backward": 80}),
    "data": (4, 2, {"data": 60, "forward": 30, "backward": 41}, {"data": 1, "forward": 30, "backward": 100}),
    "backward, exchange marked": (4, 2, {"backward": 80, "comm": 5}, {"backward": 45, "comm": 40}),
    "forward, exchange marked": (4, 1, {"forward": 65, "comm": 5}, {"forward": 30, "comm": 40}),
    "of two": (2, 1, {"data": 70, "backward": 50}, {"data": 1, "backward": 119}),
}
"""(ranks, which is late, its phases in ms, the others')."""

ON_DEVICE: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "data": (4, {"data": 70, "forward": 20, "backward": 45}, {"data": 0, "forward": 20, "backward": 115}),
    "slower device": (4, {"data": 0, "forward": 50, "backward": 100}, {"data": 0, "forward": 25, "backward": 125}),
    "h2d": (2, {"h2d": 50, "forward": 25, "backward": 50}, {"h2d": 1, "forward": 25, "backward": 99}),
    "exchange marked": (
        4,
        {"forward": 25, "backward": 95, "comm": 5},
        {"forward": 25, "backward": 50, "comm": 50},
    ),
}
"""(ranks, device times in ms of rank 1, the others'): hosts run ahead, so that theirs are the same everywhere."""

AHEAD = {"data": 1, "forward": 60, "backward": 60, "optimizer": 5}
"""Host times of a rank whose launches wait for room in the queue wherever it is full."""


def job(world: int, late: int, slow: dict[str, Any], usual: dict[str, Any], **fields: Any) -> Any:
    return ranks(lambda rank: {"phases": {"optimizer": 5} | (slow if rank == late else usual)} | fields, world)


@pytest.mark.parametrize("name", LATE)
def test_every_rank_says_who_is_late(name: str) -> None:
    world, late, slow, usual = LATE[name]
    records = job(world, late, slow, usual)
    for rank in range(world):
        for said in both(records, f"r{rank}"):
            assert said.cause == "straggler", (rank, said.cause, said.headline)
            assert f"rank {late} " in said.headline
            assert said.confidence >= 0.4


def test_ranks_whose_gpus_spin_in_the_exchange_read_busy_and_still_wait() -> None:
    world, late, slow, usual = LATE["forward"]
    records = job(world, late, slow, usual, gpu=busy(util_pct=99))
    assert {both(records, f"r{rank}")[0].cause for rank in range(world)} == {"straggler"}


def test_equal_ranks_are_bound_by_the_exchange() -> None:
    records = ranks(lambda _: {"phases": {"data": 1, "forward": 30, "backward": 45, "optimizer": 5, "comm": 45}})
    for rank in range(4):
        for said in both(records, f"r{rank}"):
            assert said.cause == "comm-bound", said.headline


def test_ranks_that_all_wait_for_data_have_no_straggler() -> None:
    records = ranks(lambda _: {"phases": {"data": 60, "forward": 30, "backward": 45, "optimizer": 5}})
    for rank in range(4):
        assert both(records, f"r{rank}")[0].cause.startswith("input-")


def test_a_single_rank_has_no_straggler() -> None:
    records = ranks(lambda _: {"phases": {"data": 60, "forward": 30, "backward": 45, "optimizer": 5}}, world=1)
    assert both(records, "r0")[0].cause == "input-workers"


def test_what_makes_a_rank_late_is_no_second_answer() -> None:
    work, rest = {"backward": 28, "logging": 32}, {"backward": 60}
    said = both(job(4, 0, work, rest), "r0")[0]
    assert said.cause == "straggler"
    assert said.confidence >= 0.5


@pytest.mark.parametrize("name", ON_DEVICE)
def test_hosts_that_run_ahead_hide_nothing_from_the_device_clock(name: str) -> None:
    world, slow, usual = ON_DEVICE[name]
    host = AHEAD | ({"comm": 0.1} if "comm" in slow else {})

    def rank(number: int) -> dict[str, Any]:
        device = {"optimizer": 5} | (slow if number == 1 else usual)
        return {"phases": host, "ms": sum(device.values()), "device": device, "queue_empty": 0.0}

    records = ranks(rank, world)
    for number in range(world):
        for said in both(records, f"r{number}"):
            assert said.cause == "straggler", (number, said.cause, said.headline)
            assert said.headline.startswith("rank 1 arrives")


def test_a_rank_that_alone_saves_is_late_with_saving_seen_from_the_others() -> None:
    def rank(number: int) -> dict[str, Any]:
        usual = {"data": 1, "forward": 20, "backward": 45, "optimizer": 5}

        def each(step: int) -> dict[str, Any]:
            saves = step % 10 == 9
            device = usual | ({"backward": 445} if saves and number else {"checkpoint": 400} if saves else {})
            phases = usual | ({"checkpoint": 400} if saves and not number else {"backward": 445} if saves else {})
            return {"phases": phases, "gpu_ns": {name: round(ms * 1e6) for name, ms in device.items()}}

        return {"phases": usual, "queue_empty": 0.0, "each": each}

    records = ranks(rank, 4)
    for number in (1, 3):
        for said in both(records, f"r{number}"):
            assert said.cause == "straggler", said.headline
            assert said.headline.startswith("rank 0 arrives")
            assert "saving" in said.headline


def test_on_the_late_rank_itself_it_is_named_before_what_makes_it_late() -> None:
    late, others = {"data": 70, "forward": 20, "backward": 45}, {"data": 0, "forward": 20, "backward": 115}

    def rank(number: int) -> dict[str, Any]:
        device = {"optimizer": 5} | (late if number == 1 else others)
        return {"phases": device, "device": device, "idle": {"data": device["data"]}, "queue_empty": 0.3}

    said = both(ranks(rank, 2), "r1")
    assert {one.cause for one in said} == {"straggler"}
    assert "waiting for data" in said[0].headline


def test_a_loss_summed_for_a_log_does_not_hide_that_backward_holds_the_exchange() -> None:
    late = {"data": 1, "other": 60, "forward": 10, "backward": 20, "comm": 1}
    others = {"data": 1, "forward": 10, "backward": 80, "comm": 1}
    records = ranks(lambda rank: {"phases": late if rank == 1 else others, "ms": 92}, 2)
    for number in range(2):
        for said in both(records, f"r{number}"):
            assert said.cause == "straggler", said.headline
            assert said.headline.startswith("rank 1 arrives")


def on_device(world: int, host: dict[str, float], device: Any, **fields: Any) -> Any:
    """A job whose hosts are all alike; `device(rank, step)` is what a device takes, ms by phase."""

    def rank(number: int) -> dict[str, Any]:
        def each(step: int) -> dict[str, Any]:
            took = {name: round(ms * 1e6) for name, ms in device(number, step).items()}
            return {"gpu_ns": took, "gpu_idle_ns": {"data": took["data"]}}

        return {"phases": host, "ms": sum(device(number, 1).values()), "queue_empty": 0.0, "each": each} | fields

    return ranks(rank, world)


def test_a_rank_that_is_last_by_chance_does_what_all_do_and_is_not_late() -> None:
    first = {"data": 2, "forward": 20, "backward": 45, "optimizer": 5, "comm": 70}
    last = first | {"data": 70, "comm": 2}
    host = {"data": 75, "forward": 30, "backward": 30, "optimizer": 5, "comm": 0.1}
    records = on_device(
        2, host, lambda rank, _: last if rank else first, loader={"num_workers": 0, "batch_size": 32}
    )  # fmt: skip
    for number in range(2):
        for said in both(records, f"r{number}"):
            assert said.cause == "input-workers", said.headline


def test_what_comes_now_and_then_is_priced_over_whole_periods() -> None:
    usual = {"data": 0, "forward": 20, "backward": 45, "optimizer": 5, "comm": 1}

    def device(rank: int, step: int) -> dict[str, float]:
        long = step % 25 == 13
        return usual | ({"checkpoint": 1000.0} if rank == 0 else {"comm": 1001.0}) if long else usual

    def rank(number: int) -> dict[str, Any]:
        def each(step: int) -> dict[str, Any]:
            took = device(number, step)
            phases = {"checkpoint": 1000.0} if "checkpoint" in took else {"backward": 25 + took["comm"]}
            return {"phases": phases, "gpu_ns": {name: round(ms * 1e6) for name, ms in took.items()}}

        host = {"data": 0.1, "forward": 40, "backward": 26, "optimizer": 5, "comm": 0.1}
        return {"phases": host, "queue_empty": 0.0, "each": each, "n": 95}

    records = ranks(rank, 2)
    for number in range(2):
        said = both(records, f"r{number}")[0]
        assert said.cause == "straggler", said.headline
        assert said.speedup_limit == pytest.approx((25 * 71 + 1000) / (25 * 71), rel=0.08)


LATE_DATA = {"data": 100, "forward": 20, "backward": 45, "optimizer": 5, "comm": 2}
EARLY = LATE_DATA | {"data": 0, "comm": 102}


def loading(busy_pct: float, **fields: Any) -> Any:
    """Rank 1 is late with its data; every rank's loader workers are at work so much of the time."""

    def rank(number: int) -> dict[str, Any]:
        device = LATE_DATA if number == 1 else EARLY
        made = {name: round(ms * 1e6) for name, ms in device.items()}
        idle = {"data": made["data"]}
        return {
            "phases": device | {"comm": 0.1, "data": max(0.2, device["data"])}, "ms": 172, "queue_empty": 0.0,
            "each": lambda _: {"gpu_ns": made, "gpu_idle_ns": idle}, "loader": {"num_workers": 4, "batch_size": 32},
        } | fields  # fmt: skip

    records = [record for record in ranks(rank, 2) if not isinstance(record, Process)]
    end = max(record.t for record in records)
    for number in range(2):
        for second in range(int((end - T0) / S) + 1):
            records.append(
                Process(t=T0 + second * S, host=HOST, pid=PID + number, run_id=f"r{number}",
                        workers=workers(4, 100.0 if number == 1 else busy_pct))
            )  # fmt: skip
    return records


def test_a_cure_is_promised_no_more_than_the_others_loaders_allow() -> None:
    for number in range(2):
        said = both(loading(10.0), f"r{number}")[0]
        assert said.cause == "straggler", said.headline
        assert said.speedup_limit == pytest.approx(172 / 72, rel=0.05)
    bounded = both(loading(50.0), "r0")[0]
    assert bounded.cause == "straggler", bounded.headline
    assert bounded.speedup_limit == pytest.approx(1 / 0.5, rel=0.02)


def test_where_the_others_loaders_never_rest_either_no_rank_is_late() -> None:
    for number in range(2):
        said = both(loading(99.0), f"r{number}")[0]
        assert said.cause.startswith("input-"), said.headline
