"""Whatever comes in: shares sum to 100, nothing is raised, and a verdict keeps its promises."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.codec import from_json, to_json
from gputop.diagnosis.causes import FAMILIES, IDS
from gputop.diagnosis.evidence import gather
from gputop.diagnosis.verdict import judge
from gputop.records import AnyRecord, GpuProcess, Step, SyncSite, Verdict
from tests.diagnosis.builder import PID, RUN_ID, STARVED, T0, event, low, others, trace, window, workers

PHASES = ["data", "h2d", "forward", "backward", "optimizer", "sync", "eval", "checkpoint", "comm", "self", "metrics"]

durations = st.integers(0, 10**10)
steps = st.lists(
    st.builds(
        dict,
        phases=st.dictionaries(st.sampled_from(PHASES), durations, max_size=6),
        rest=durations,
        gap=st.integers(0, 10**9),
        had_backward=st.sampled_from([None, True, False]),
        kind=st.sampled_from([None, "train", "eval", "warmup"]),
        loader_id=st.sampled_from([None, 0, 1]),
        epoch=st.sampled_from([None, 0, 1]),
        queue_empty=st.sampled_from([None, 0.0, 0.5, 1.0]),
        idle=st.one_of(st.none(), st.dictionaries(st.sampled_from([*PHASES, "other"]), durations, max_size=3)),
        device=st.one_of(st.none(), st.dictionaries(st.sampled_from(PHASES), durations, max_size=4)),
    ),
    min_size=0,
    max_size=40,
)  # fmt: skip

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def records(made: list[dict[str, Any]]) -> list[AnyRecord]:
    """A run of such steps."""
    out: list[AnyRecord] = trace({}, n=0)
    t = T0
    for n, one in enumerate(made):
        length = max(1, sum(one["phases"].values()) + one["rest"])
        fields = {name: one[name] for name in ("had_backward", "kind", "loader_id", "epoch", "queue_empty")}
        step = Step(
            t=t, run_id=RUN_ID, n=n, dur_ns=length, phases_ns=one["phases"], gpu_idle_ns=one["idle"],
            gpu_ns=one["device"], **fields,
        )  # fmt: skip
        out.append(step)
        t += length + one["gap"]
    return out


def keeps_its_promises(said: Verdict) -> None:
    assert said.cause in IDS
    assert said.family == FAMILIES[said.cause]
    assert said.headline
    assert 0 <= said.confidence < 1
    assert said.cause in ("unknown", "warmup", "stalled") or said.confidence >= 0.4
    assert said.share_pct is None or 0 <= said.share_pct <= 100
    assert said.speedup_limit is None or said.speedup_limit >= 1
    assert said.runner_up is None or said.runner_up.cause != said.cause
    assert said.runner_up is None or 0 <= (said.runner_up.share_pct or 0) <= 100
    assert from_json(to_json(said)) == said


@quick
@given(steps)
def test_ledger_sums_to_a_hundred_and_no_share_is_above(made: list[dict[str, Any]]) -> None:
    facts = gather(window(records(made), now_ns=T0 + 10**12))
    if facts.loop is None:
        assert facts.ledger == ()
        return
    assert sum(bucket.pct for bucket in facts.ledger) == pytest.approx(100, abs=1e-6)
    assert all(-1e-9 <= bucket.pct <= 100 + 1e-9 for bucket in facts.ledger)
    assert sum(bucket.ms for bucket in facts.ledger) == pytest.approx(facts.loop.mean_ms, rel=1e-9)
    assert facts.lost is not None
    assert all(-1e-9 <= share <= 100 + 1e-6 for share in facts.lost.by.values())
    assert facts.lost.total_pct is None or 0 <= facts.lost.total_pct <= 100 + 1e-6


@quick
@given(steps, st.booleans())
def test_any_steps_get_a_verdict_that_keeps_its_promises(made: list[dict[str, Any]], ended: bool) -> None:
    end = [event("exit", 10**6)] if ended else []
    keeps_its_promises(judge(window([*records(made), *end], now_ns=T0 + 10**13)))


def everything() -> list[AnyRecord]:
    """A trace in which every field that the diagnosis reads is present."""
    site = SyncSite(site="train.py:8", call=".item()", count=2, ns=900_000, source="patched")
    return trace(
        STARVED, n=60, ms=110, idle={"data": 50, "other": 5}, device={"forward": 20, "backward": 30, "optimizer": 4},
        queue_empty=0.7, samples=32, batches=1, kind="train", had_backward=True, optimizer_step=True, loader_id=0,
        ready_batches=1, late_ready=0, sync_count=2, sync_ns=10**6, sync_sites=[site], h2d_bytes=10**8,
        h2d_pageable_bytes=10**8, alloc_retries=3, shapes=2, host_cpu_ns=40_000_000, epoch=0, first_of_epoch=False,
        run={"cores_allowed": 8, "cores": 16, "rank": 0, "world_size": 1, "gpu_name": "GPU X", "gpu_uuid": "GPU-1"},
        loader={"num_workers": 4, "prefetch_factor": 2, "pin_memory": False, "persistent_workers": False,
                "in_order": True, "batch_size": 32, "dataset_path_fs": "ext4"},
        model={"param_count": 10**7, "devices": {"cuda:0": 10**7}, "dtypes": {"float32": 10**7}, "autocast": False,
               "compiled": False, "matmul_tf32": False, "optimizer": "AdamW", "optimizer_fused": False,
               "param_tensors": 300, "on_cpu": ["embed.weight"]},
        gpu=low(power_limit_default_w=700.0, temp_c=80.0, sm_clock_mhz=1500, sm_clock_max_mhz=1980,
                throttle=["thermal_sw"], pcie_gen=4, pcie_gen_max=5, pcie_width=8, pcie_width_max=16, mem_util_pct=20.0,
                sm_active_pct=30.0, processes=[GpuProcess(pid=PID, mem_bytes=10**10, sm_pct=30.0),
                                               GpuProcess(pid=7, mem_bytes=10**10, sm_pct=20.0, name="x")]),
        host={"cpu_pct": 70.0, "cores": 16, "system_pct": 9.0, "iowait_pct": 4.0, "steal_pct": 1.0, "load1": 20.0,
              "psi_cpu_pct": 20.0, "psi_io_pct": 5.0, "psi_mem_pct": 2.0, "throttled_ns": lambda i: i * 10**7,
              "cpu_quota_cores": 8.0, "disk_busy_pct": 40.0, "disk_await_ns": 10**6, "disk_read_bytes_s": 1e8,
              "swap_in_bytes_s": 0.0, "mem_used_bytes": 10**10, "mem_total_bytes": 10**11, "net_recv_bytes_s": 1e6},
        process={"cpu_pct": 90.0, "main_thread_cpu_pct": 60.0, "main_thread_wait_pct": 12.0,
                 "workers": workers(4, 80.0, system_pct=5.0, threads=2, state="R", read_bytes_s=1e7)},
        extra=[*others("make", 300.0, 2), event("eval", 900, 300), event("recompile", 1500)],
    )  # fmt: skip


OPTIONAL = {"phases_ns", "n", "dur_ns", "t", "run_id", "host", "pid", "gpu_uuid", "kind", "loader_id", "backend",
            "state"}  # fmt: skip
"""Fields that are required, or name what a record belongs to."""


@pytest.mark.parametrize("seed", range(60))
def test_any_subset_of_optional_fields_gets_a_verdict(seed: int) -> None:
    random = Random(seed)
    kept = random.random()
    absent: dict[str, set[str]] = {}
    thinned: list[AnyRecord] = []
    for record in everything():
        name = type(record).__name__
        fields = [one for one in record.__struct_fields__ if one not in OPTIONAL]
        gone = absent.setdefault(name, {one for one in fields if random.random() > kept})
        if name not in ("Run", "Step") and random.random() > 0.8:
            continue
        present = {one: getattr(record, one) for one in record.__struct_fields__ if one not in gone}
        thinned.append(msgspec.convert(present | {"type": name.lower()}, type(record)) if gone else record)
    keeps_its_promises(judge(window(thinned)))


def test_every_field_present_gets_a_verdict() -> None:
    keeps_its_promises(judge(window(everything())))


def test_ids_are_those_that_were_promised() -> None:
    promised = [
        "input-workers", "input-cpu", "input-disk", "input-oversubscribed", "input-slow-sample",
        "input-transfer", "input-restart", "h2d-pageable", "h2d-link", "launch-bound", "sync", "host-work", "optimizer",
        "host-contention", "cpu-fallback", "cpu-bound", "gpu-bound", "small-model", "memory-pressure",
        "throttled", "gpu-contention", "straggler", "comm-bound", "checkpoint", "evaluation", "warmup",
        "stalled", "idle", "unknown",
    ]  # fmt: skip
    assert sorted(IDS) == sorted(promised)
