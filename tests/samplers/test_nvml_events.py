"""XIDs: the driver's own reports of errors, each told once, kept with its time, and missing where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop import xids
from gputop.records import Event, Gpu
from tests.nvml_stub import StubState
from tests.samplers.nvml_process import NvmlProcess


def told(nvml: NvmlProcess, after_s: float = 2.0) -> tuple[list[Gpu], list[str | None]]:
    records = nvml.sample(after_s)
    events = [one for one in records if isinstance(one, Event)]
    assert all(one.kind == "xid" and one.gpu_uuid and one.run_id is None for one in events)
    return [one for one in records if isinstance(one, Gpu)], [one.label for one in events]


def test_an_error_is_told_once_and_stays_with_its_time(nvml: NvmlProcess) -> None:
    nvml.state.set({"1.xids": "1:31"}, devices=2)
    rows, events = told(nvml.open())  # what was before the set was registered is not told
    assert ([row.xid for row in rows], events) == ([None, None], [])
    assert all("xid" not in (row.unsupported or ()) for row in rows)
    nvml.state.set({"1.xids": "1:31 2:79 3:13"})
    rows, events = told(nvml)
    assert events == ["GPU 1: XID 79 (the GPU has fallen off the bus)", f"GPU 1: {xids.words(13)}"]
    assert [(row.xid, row.xid_ns) for row in rows] == [(None, None), (13, nvml.now_ns)]
    noticed = nvml.now_ns
    rows, events = told(nvml)
    assert (events, rows[1].xid, rows[1].xid_ns) == ([], 13, noticed)


def test_many_of_one_number_are_one_and_what_a_program_leaves_hides_no_error(nvml: NvmlProcess) -> None:
    told(nvml.open())
    nvml.state.set({"0.xids": "1:94 2:45 3:45 4:45"})
    (row,), events = told(nvml)
    assert (row.xid, len(events)) == (94, 2)
    nvml.state.set({"0.xids": "5:45"})
    (row,), events = told(nvml)
    assert (row.xid, len(events)) == (94, 1)


def test_events_of_other_kinds_and_empty_ones_are_no_errors(nvml: NvmlProcess) -> None:
    told(nvml.open())
    nvml.state.set({"0.xids": "1:7:0x10 2:0"})
    (row,), events = told(nvml)
    assert (row.xid, events) == (None, [])


@pytest.mark.parametrize(
    "planted",
    [{"1.events": 2}, {"error.nvmlDeviceGetSupportedEventTypes 1": 3}, {"error.nvmlDeviceRegisterEvents 1": 3}],
)
def test_a_device_without_such_events_says_so(nvml: NvmlProcess, planted: dict[str, object]) -> None:
    nvml.state.set(planted, devices=3)
    rows, _ = told(nvml.open())
    assert ["xid" in (row.unsupported or ()) for row in rows] == [False, True, False]


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"]
)
def test_any_error_of_the_event_set_of_one_gpu_of_three_costs_only_that(nvml: NvmlProcess, function: str) -> None:
    for code in (1, 2, 4, 13, 16, 17, 25, 999):
        nvml.state.set({f"error.{function} 1": code}, devices=3)
        rows, _ = told(nvml.open())
        nvml.state.drop(f"error.{function} 1")
        missing = [{*(row.unsupported or ()), *(row.failed or ())} & {"xid", "xid_ns", "util_pct"} for row in rows]
        assert missing == [set(), {"xid", "xid_ns"}, set()], code


def test_a_gpu_that_falls_off_the_bus_tells_why_and_its_sets_are_given_back(nvml_dir: Path, tmp_path: Path) -> None:
    state, calls = StubState(tmp_path / "gpus"), tmp_path / "calls"
    nvml = NvmlProcess(nvml_dir, state, calls)
    state.set(devices=2)
    told(nvml.open())
    state.set({"0.xids": "1:79", "error.nvmlDeviceGetUtilizationRates 0": 15})
    rows, events = told(nvml, 1.0)
    assert [(row.lost, row.xid) for row in rows] == [(True, 79), (None, None)]
    assert events == ["GPU 0: XID 79 (the GPU has fallen off the bus)"]
    rows, events = told(nvml)
    assert (rows[0].xid, events) == (79, [])
    nvml.open()
    nvml.close()
    assert "not given back" not in calls.read_text()


def test_an_unknown_number_is_told_as_it_is() -> None:
    assert xids.words(4711) == "XID 4711"
    assert xids.of_device(4711)
    assert not xids.of_device(31)
