"""Ranks that take turns in being last: each step is judged as the last one has it, and nobody is called late."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.diagnosis.critical import of_the_last
from gputop.diagnosis.evidence import gather
from gputop.diagnosis.verdict import judge
from gputop.records import AnyRecord
from gputop.simulation.physics import Input, Machine, Model, Physics, Ranks
from gputop.simulation.trace import trace as trace_of
from gputop.simulation.whatif import REMEDIES, speed
from tests.diagnosis.builder import GPU_BYTES, MS, both, busy, ranks, window

WORLD = 4
COMPUTE = {"forward": 20, "backward": 40, "optimizer": 5}


def in_turns(part: str, host: dict[str, float], **fields: Any) -> list[AnyRecord]:
    """Every rank's host takes as long; whose device waits for it, and whose spins in the exchange, goes round."""

    def rank(number: int) -> dict[str, Any]:
        def each(step: int) -> dict[str, Any]:
            last = step % WORLD == number
            device = COMPUTE | ({"comm": 2, part: 60} if last else {"comm": 60, part: 2})
            named = {name: round(ms * MS) for name, ms in device.items() if name != "other"}
            return {"gpu_ns": named, "gpu_idle_ns": {part: device[part] * MS}, "queue_empty": 0.1}

        return {"phases": host, "ms": 127, "each": each, "gpu": busy(util_pct=99)} | fields

    return ranks(rank, WORLD)


@pytest.mark.parametrize("number", range(WORLD))
def test_each_rank_of_them_says_what_holds_the_last_one_back(number: int) -> None:
    records = in_turns("data", {"data": 62, "forward": 30, "backward": 30, "optimizer": 4, "comm": 0.1},
                       loader={"num_workers": 0, "batch_size": 32})  # fmt: skip
    for said in both(records, f"r{number}"):
        assert said.cause == "input-workers", (said.cause, said.headline)
        assert said.share_pct == pytest.approx(100 * 60 / 127, abs=3)
        assert said.speedup_limit == pytest.approx(127 / 67, rel=0.1)


def test_so_does_work_of_every_ranks_own() -> None:
    records = in_turns("other", {"data": 0.1, "forward": 30, "backward": 30, "optimizer": 4, "comm": 0.1})
    for said in both(records, "r2"):
        assert said.cause == "host-work", (said.cause, said.headline)


def test_what_an_allocator_has_counted_is_not_taken_from_several_ranks() -> None:
    def more(number: int) -> dict[str, Any]:
        def each(step: int) -> dict[str, Any]:
            last = step % WORLD == number
            gpu = {name: round(ms * MS) for name, ms in (COMPUTE | {"comm": 2 if last else 20}).items()}
            return {"gpu_ns": gpu, "queue_empty": 0.0, "alloc_retries": 1000 * number + step}

        full = busy(util_pct=65, mem_used_bytes=round(0.98 * GPU_BYTES))
        return {"phases": COMPUTE | {"comm": 0.1}, "ms": 85, "each": each, "gpu": full}

    said, _ = both(ranks(more, WORLD), "r1")
    assert said.cause == "memory-pressure", said.headline
    assert " 0 times" not in said.headline


def test_a_rank_that_hardly_waits_is_judged_by_its_own_steps() -> None:
    phases = COMPUTE | {"data": 1, "comm": 2}
    facts = gather(window(ranks(lambda _: {"phases": phases, "device": phases, "queue_empty": 0.0}, WORLD), "r1"))
    assert of_the_last(facts) is facts


def test_where_one_rank_is_late_it_is_named_and_not_what_makes_it_so() -> None:
    late, usual = COMPUTE | {"data": 60, "comm": 2}, COMPUTE | {"data": 1, "comm": 61}

    def rank(number: int) -> dict[str, Any]:
        device = late if number == 3 else usual
        idle = {"data": device["data"]}
        return {"phases": device | {"comm": 0.1}, "ms": 127, "device": device, "idle": idle, "queue_empty": 0.1}

    for said in both(ranks(rank, WORLD), "r1"):
        assert said.cause == "straggler", said.headline
        assert said.headline.startswith("rank 3 arrives")


def test_the_steps_of_ranks_that_take_turns_are_no_longer_than_the_jobs() -> None:
    """A host that comes late had waited for its device in the step before: that time is not the loop's."""
    job = Physics(
        machine=Machine(cores=64),
        input=Input(workers=2, decode_ns=520 * MS, decode_jitter=0.15),
        model=Model(forward=907, backward=1911, optimizer=212, kernel_ns=23_000, optimizer_kernel_ns=23_000),
        ranks=Ranks(world=4, link_bytes_s=9e10, buckets=4),
    )
    seen = window(trace_of(job, seconds=20), "sim-custom-0-r2")
    facts = gather(seen)
    last = of_the_last(facts)
    assert last.last
    assert facts.loop is not None
    assert last.loop is not None
    assert last.loop.mean_ms == pytest.approx(facts.loop.mean_ms, rel=0.02)
    assert last.loop.contradictory == 0
    said = judge(seen)
    assert said.cause == "input-workers"
    gained = speed(REMEDIES["input-workers"](job), 60, 0, 120) / speed(job, 60, 0, 120)
    assert said.speedup_limit == pytest.approx(gained, rel=0.15)
