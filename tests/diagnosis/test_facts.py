"""The facts of a window: ledger, spikes, lost device time, cores, and what is set apart."""

from __future__ import annotations

import msgspec
import pytest

from gputop.diagnosis.evidence import Facts, gather
from gputop.diagnosis.loop import Loop, shape
from gputop.diagnosis.lost import Lost
from gputop.records import AnyRecord, Burst, Event, Gpu, Run, Step, end_of
from gputop.report.judged import judge_trace
from tests.diagnosis.builder import (
    COMPUTE,
    HOST,
    MS,
    RUN_ID,
    STARVED,
    T0,
    UUID,
    S,
    busy,
    low,
    reported,
    trace,
    verdict,
    window,
    workers,
)


def loop_of(records: list[AnyRecord]) -> Loop:
    loop = gather(window(records)).loop
    assert loop is not None
    return loop


def lost_of(records: list[AnyRecord]) -> Lost:
    lost = gather(window(records)).lost
    assert lost is not None
    return lost


def test_ledger_names_every_phase_and_what_is_left() -> None:
    facts = gather(window(trace(COMPUTE, ms=100, jitter=0)))
    assert {one.phase: round(one.ms) for one in facts.ledger} == {
        "data": 1, "forward": 30, "backward": 45, "optimizer": 8, "other": 16,
    }  # fmt: skip


def test_gaps_between_steps_belong_to_the_ledger() -> None:
    records = trace(COMPUTE, jitter=0, n=30)
    apart = [one if not hasattr(one, "dur_ns") else _moved(one, 16 * MS) for one in records]
    facts = gather(window(apart))
    assert facts.loop is not None
    assert facts.loop.mean_ms == pytest.approx(100, abs=1)
    assert sum(one.pct for one in facts.ledger) == pytest.approx(100)


def _moved(step: object, gap: int) -> AnyRecord:
    assert isinstance(step, Step)
    return msgspec.structs.replace(step, t=step.t + step.n * gap)


def test_the_publishers_own_cost_is_a_bucket() -> None:
    facts = gather(window(trace(COMPUTE | {"self": 1.0})))
    assert next(one.pct for one in facts.ledger if one.phase == "self") == pytest.approx(100 / 85, rel=0.01)


def test_where_few_steps_are_told_the_others_pay_nothing_of_its_cost() -> None:
    records = trace(COMPUTE | {"self": 1.0})
    told = [msgspec.structs.replace(one, detail_every=8) if isinstance(one, Run) else one for one in records]
    whole, facts = gather(window(records)).ledger, gather(window(told)).ledger
    all_of_it, own = [next(one.ms for one in seen if one.phase == "self") for seen in (whole, facts)]
    assert own == pytest.approx(all_of_it / 8)
    assert sum(one.pct for one in facts) == pytest.approx(100)
    assert sum(one.ms for one in facts) == pytest.approx(sum(one.ms for one in whole) - all_of_it + own)


def test_spikes_have_a_period_in_steps_and_a_share_of_the_mean() -> None:
    loop = loop_of(trace(COMPUTE, n=200, each=lambda i: {"phases": {"log": 500 if i % 25 == 24 else 0}}))
    form = shape(loop, "host")
    assert form.period == 25
    assert not form.steady
    assert form.median_ms < 1
    assert loop.pct("host") == pytest.approx(100 * 20 / 104, abs=3)


def test_warm_up_and_first_steps_of_epochs_are_in_no_mean() -> None:
    loop = loop_of(
        trace(
            COMPUTE, n=60,
            each=lambda i: {"phases": {"forward": 3000 if i < 2 else 30, "data": 800 if i in (20, 40) else 1},
                            "epoch": i // 20, "first_of_epoch": i % 20 == 0},
        )
    )  # fmt: skip
    assert loop.max_ms < 100
    assert len(loop.warmup_ms) == 2
    assert [round(first.wait_ms / 800, 1) for first in loop.firsts] == [1.0, 1.0]


def test_the_end_of_a_pass_that_takes_workers_down_is_in_no_mean_but_in_the_epochs_cost() -> None:
    loop = loop_of(
        trace(
            COMPUTE, n=60, jitter=0,
            each=lambda i: {"phases": {"data": 80 if i in (20, 40) else 31 if i in (19, 39) else 1},
                            "epoch": i // 20, "first_of_epoch": i % 20 == 0},
        )
    )  # fmt: skip
    assert max(loop.roles["data"]) < 2
    assert [(round(first.wait_ms), round(first.before_ms)) for first in loop.firsts] == [(80, 30), (80, 30)]


def test_steps_that_were_profiled_are_in_no_mean() -> None:
    def slow(i: int) -> dict[str, object]:
        return {"other_ms": 400, "profiled": True} if 50 <= i < 71 else {}

    loop = loop_of(trace(COMPUTE, n=100, each=slow, jitter=0))
    assert loop.max_ms < 200
    assert 0 < loop.n < loop.seen
    assert not any(step.profiled for step in loop.steps)
    assert loop.missing == 0


def test_one_accident_is_set_apart_and_named() -> None:
    records = trace(COMPUTE, n=100, each=lambda i: {"other_ms": 5000 if i == 50 else 0}, gpu=busy())
    assert loop_of(records).lone == (50, pytest.approx(5084, rel=0.1))
    assert any("number 50" in notice for notice in verdict(records).notices)


def test_lost_device_time_comes_from_measured_idle_first() -> None:
    lost = lost_of(trace(STARVED, idle={"data": 50, "other": 0}, queue_empty=0.4, gpu=busy()))
    assert lost.source == "device"
    assert lost.pct("data") == pytest.approx(100 * 50 / 98, abs=1)


def test_work_queued_at_the_entry_loses_no_device_time_in_launching_phases() -> None:
    lost = lost_of(trace(COMPUTE, device={"forward": 30, "backward": 45, "optimizer": 8}, queue_empty=0.1))
    assert lost.total_pct == pytest.approx(0, abs=1)


def test_a_region_longer_than_its_shortest_with_work_queued_is_idle_for_the_rest() -> None:
    def swing(i: int) -> dict[str, object]:
        queued = i % 5 == 0
        return {"queue_empty": 0.2 if queued else 0.9, "gpu_ns": {"forward": (10 if queued else 30) * MS}}

    lost = lost_of(trace({"data": 0.5, "forward": 30}, each=swing, jitter=0))
    assert lost.pct("forward") == pytest.approx(100 * 20 / 30.5 * 0.8, abs=3)
    assert "forward" in lost.estimated
    assert "forward" not in lost.upper


def test_a_queue_that_is_always_empty_gives_an_upper_bound() -> None:
    lost = lost_of(trace(COMPUTE, device={"forward": 30, "backward": 45, "optimizer": 8}, queue_empty=0.95))
    assert lost.total_pct == pytest.approx(100, abs=1)
    assert {"forward", "backward"} <= lost.upper


def test_the_drivers_idle_time_goes_to_what_works_no_device_first() -> None:
    lost = lost_of(trace(STARVED, gpu=low(30)))
    assert lost.source == "nvml"
    assert lost.pct("data") == pytest.approx(61, abs=1)
    assert lost.total_pct == pytest.approx(70)


def test_host_times_alone_give_no_total() -> None:
    lost = lost_of(trace(STARVED))
    assert (lost.source, lost.total_pct) == ("host", None)


def test_on_a_cpu_computing_is_what_the_time_is_for() -> None:
    lost = lost_of(trace(STARVED, run={"device": "cpu"}))
    assert lost.source == "cpu"
    assert lost.pct("forward") == 0
    assert lost.total_pct == pytest.approx(62 / 98 * 100, abs=3)


def machine(**fields: object) -> Facts:
    return gather(window(trace(STARVED, **fields)))  # type: ignore[arg-type]


def test_usable_cores_are_the_least_of_mask_quota_and_machine() -> None:
    facts = machine(run={"cores_allowed": 12}, host={"cpu_pct": 10, "cores": 64, "cpu_quota_cores": 4})
    assert facts.machine.cores == 4


def test_absent_figures_are_unknown_and_not_zero() -> None:
    facts = machine()
    assert facts.machine.free_cores is None
    assert facts.machine.main_wait_pct is None
    assert facts.device.util_pct is None
    assert facts.device.gpus_present is None


def test_what_others_use_is_what_the_run_does_not() -> None:
    facts = machine(host={"cpu_pct": 75, "cores": 8}, process={"cpu_pct": 50, "workers": workers(2, 75)})
    assert facts.machine.others_cores == pytest.approx(4)


def test_bursts_of_the_driver_show_what_a_mean_of_zero_hides() -> None:
    bursts: list[AnyRecord] = [
        Burst(
            t=T0 + second * S, host=HOST, gpu_uuid=UUID, dt_ns=[20 * MS * i for i in range(50)],
            util_pct=[60.0 if i % 9 == 0 else 0.0 for i in range(50)],
        )
        for second in range(11)
    ]  # fmt: skip
    said = verdict(trace(STARVED, gpu=low(0), loader={"num_workers": 0}, extra=bursts))
    assert any("nvidia-smi would show 0 % here" in one and "60 %" in one for one in said.notices)


def test_only_the_driver_saying_so_makes_a_machine_without_gpus() -> None:
    assert gather(window(trace(COMPUTE))).device.gpus_present is None
    assert gather(window(trace(COMPUTE, no_gpu=True))).device.gpus_present == 0
    assert gather(window(trace(COMPUTE, gpu=busy()))).device.gpus_present == 1


def xid_comes(at_s: int, xid: int, ends: bool = False) -> list[AnyRecord]:
    """The driver reports an error of the run's GPU at a moment; the run may end by it."""
    seen = {"xid": xid, "xid_ns": T0 + at_s * S}
    records = trace(COMPUTE, n=200, gpu=busy())
    last = max(end_of(one) for one in records if isinstance(one, Step))
    out = [
        msgspec.structs.replace(one, **seen) if isinstance(one, Gpu) and one.t >= T0 + at_s * S else one
        for one in records
    ]
    if ends:
        out.append(Event(t=last + S, kind="lost_process", run_id=RUN_ID))
        out.append(Gpu(t=last + 2 * S, host="box", gpu_uuid=UUID, lost=True, xid=xid, xid_ns=last + 2 * S))
    return out


@pytest.mark.parametrize(("xid", "said"), [(79, "fallen off the bus"), (31, "a program on the run's GPU"), (45, None)])
def test_an_error_that_the_driver_reports_of_the_runs_gpu_is_a_notice(xid: int, said: str | None) -> None:
    for told in (verdict(xid_comes(12, xid)), reported(xid_comes(12, xid))):
        found = [notice for notice in told.notices if "XID" in notice]
        assert len(found) == (said is not None)
        assert all(said in notice for notice in found if said)


def test_the_error_by_which_a_run_ends_is_told_of_it_though_it_was_noticed_later() -> None:
    told = judge_trace(xid_comes(10**6, 79, ends=True), "test").runs[RUN_ID]
    assert any("XID 79" in notice for notice in told.notices)


def test_an_old_error_is_told_no_more() -> None:
    assert not any("XID" in notice for notice in verdict(xid_comes(-700, 79)).notices)
