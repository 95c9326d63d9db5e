"""The largest batch that should fit, and the advice of a larger one."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.diagnosis.batch_room import BatchRoom, batch_room, larger_batch
from gputop.diagnosis.evidence import Facts, gather
from tests.diagnosis.builder import low, trace, window

GB = 1 << 30
LAUNCHES = {"data": 0.2, "forward": 8.0, "backward": 10.0, "optimizer": 3.0}


def facts(gpu: dict[str, Any] | None = None, batch: int | None = 32, **fields: Any) -> Facts:
    loader = None if batch is None else {"batch_size": batch}
    return gather(window(trace(LAUNCHES, gpu=gpu, loader=loader, **fields)))


def room(**given: Any) -> BatchRoom:
    found = batch_room(facts(**given))
    assert found is not None
    return found


def test_what_stays_between_steps_is_not_charged_to_the_samples() -> None:
    # 4 GB stay, 16 GB come and go with 32 samples, 1 GB beside the allocator: 0.5 GB a sample in 72 - 5 GB
    found = room(gpu=low(mem_used_bytes=21 * GB), mem_allocated_bytes=4 * GB, mem_reserved_bytes=20 * GB)
    assert found.sample_bytes == 0.5 * GB
    assert found.fits == 134
    assert found.target == 64


def test_where_only_the_whole_is_known_the_estimate_errs_to_the_small_side() -> None:
    assert room(gpu=low(mem_used_bytes=20 * GB)).fits == 115
    assert room(gpu=low(mem_used_bytes=20 * GB), mem_allocated_bytes=18 * GB).fits == 124


def test_others_memory_is_not_planned_with() -> None:
    alone = room(gpu=low(mem_used_bytes=12 * GB), mem_allocated_bytes=2 * GB, mem_reserved_bytes=10 * GB)
    beside = room(gpu=low(mem_used_bytes=52 * GB), mem_allocated_bytes=2 * GB, mem_reserved_bytes=10 * GB)
    assert beside.fits < alone.fits / 2


def test_the_batch_is_taken_from_the_steps_where_the_loader_does_not_say() -> None:
    assert room(gpu=low(mem_used_bytes=20 * GB), batch=None, samples=64).batch == 64


@pytest.mark.parametrize("given", [{"gpu": None}, {"gpu": low(), "batch": None}])
def test_unknown_memory_or_batch_gives_no_estimate(given: dict[str, Any]) -> None:
    assert batch_room(facts(**given)) is None


def test_the_advice_names_the_largest_and_prints_code() -> None:
    seen = facts(low(mem_used_bytes=21 * GB), mem_allocated_bytes=4 * GB, mem_reserved_bytes=20 * GB)
    (advice,) = larger_batch(seen, "why")
    assert advice.do == "batch_size 32 → 64; up to about 134 should fit: a sample takes 512 MiB or less"
    assert advice.code is not None
    assert "batch_size=64" in advice.code
    assert "estimate" in (advice.why or "")


def test_a_full_card_is_not_told_to_take_a_larger_batch() -> None:
    assert larger_batch(facts(low(mem_used_bytes=76 * GB)), "why") == []
    assert larger_batch(facts(low(mem_used_bytes=76 * GB), batch=None), "why") == []
