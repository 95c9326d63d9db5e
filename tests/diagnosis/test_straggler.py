"""straggler: one late rank of a job, and jobs in which none is late."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnosis.builder import both, busy, ranks

LATE: dict[str, tuple[int, int, dict[str, Any], dict[str, Any]]] = {
    "forward": (4, 2, {"forward": 60, "backward": 50}, {"forward": 30, "backward": 80}),
    "data": (4, 2, {"data": 60, "forward": 30, "backward": 41}, {"data": 1, "forward": 30, "backward": 100}),
    "backward, exchange marked": (4, 2, {"backward": 80, "comm": 5}, {"backward": 45, "comm": 40}),
    "forward, exchange marked": (4, 1, {"forward": 65, "comm": 5}, {"forward": 30, "comm": 40}),
    "of two": (2, 1, {"data": 70, "backward": 50}, {"data": 1, "backward": 119}),
}
"""(ranks, which is late, its phases in ms, the others')."""


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
