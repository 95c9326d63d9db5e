"""The NVML backend through the real binding: the figures are the library's, and one bad device, call or field costs
only itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from gputop.records import Sampler
from gputop.samplers import nvml_library, proc
from gputop.samplers.nvml_processes import pid_limit
from tests.nvml_stub import StubState, env
from tests.samplers.nvml_process import NvmlProcess, fields

FIGURES = {
    "util": 37, "mem_util": 21, "mem_used": 41 << 30, "mem_reserved": 600 << 20, "mem_total": 80 << 30,
    "power_mw": 312_500, "power_limit_mw": 650_000, "power_limit_default_mw": 700_000, "temp": 61, "temp_slowdown": 87,
    "temp_shutdown": 92, "sm_clock": 1755, "sm_clock_max": 1980, "other_clock": 7, "throttle": 0x4, "pcie_gen": 4,
    "pcie_gen_max": 5, "pcie_width": 8, "pcie_width_max": 16, "enc": 3, "dec": 9, "energy_mj": 123_456, "name": "H100",
}  # fmt: skip

MANY = {
    "nvmlDeviceGetUUID": set(),
    "nvmlDeviceGetUtilizationRates": {"util_pct", "mem_util_pct"},
    "nvmlDeviceGetSamples": set(),
    "nvmlDeviceGetMemoryInfo_v2": {"mem_reserved_bytes"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetTemperature": {"temp_c"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz"},
    "nvmlDeviceGetCurrentClocksEventReasons": {"throttle"},
    "nvmlDeviceGetFieldValues": {"throttled_ns", "pcie_rx_bytes_s", "pcie_tx_bytes_s"},
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_j"},
    "nvmlDeviceGetEncoderUtilization": {"enc_pct"},
    "nvmlDeviceGetDecoderUtilization": {"dec_pct"},
    "nvmlDeviceGetComputeRunningProcesses_v3": {"processes"},
    "nvmlDeviceGetGraphicsRunningProcesses_v3": {"processes"},
    "nvmlDeviceGetCurrPcieLinkGeneration": {"pcie_gen"},
    "nvmlDeviceGetCurrPcieLinkWidth": {"pcie_width"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w"},
    "nvmlDeviceGetPowerManagementDefaultLimit": {"power_limit_default_w"},
    "nvmlDeviceGetTemperatureThreshold": {"temp_slowdown_c"},
    "nvmlDeviceGetMaxClockInfo": {"sm_clock_max_mhz"},
    "nvmlDeviceGetMaxPcieLinkGeneration": {"pcie_gen_max"},
    "nvmlDeviceGetMaxPcieLinkWidth": {"pcie_width_max"},
    "nvmlDeviceGetName": {"name"},
    "nvmlDeviceGetPciInfo_v3": set(),
}
"""Each function of a device, and the fields that may be absent when it fails."""

S = 1_000_000_000
GONE = pid_limit() - 5
"""A pid that no process has, most likely."""

CODES = [1, 2, 3, 4, 6, 7, 9, 10, 13, 16, 17, 18, 25, 27, 999]
MEMORY = {"mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes"}


def planted(index: int, **more: object) -> dict[str, object]:
    return {f"{index}.{name}": value for name, value in {**FIGURES, **more}.items()}


def test_every_figure_is_the_librarys(nvml: NvmlProcess) -> None:
    nvml.state.set(planted(0), devices=1)
    (gpu,) = nvml.open().gpus()
    assert fields(gpu) == {
        "name": "H100", "util_pct": 37, "mem_util_pct": 21, "mem_used_bytes": 41 << 30, "mem_total_bytes": 80 << 30,
        "mem_reserved_bytes": 600 << 20, "power_w": 312.5, "power_limit_w": 650, "power_limit_default_w": 700,
        "temp_c": 61, "temp_slowdown_c": 87, "sm_clock_mhz": 1755, "sm_clock_max_mhz": 1980, "throttle": ["power_cap"],
        "pcie_gen": 4, "pcie_gen_max": 5, "pcie_width": 8, "pcie_width_max": 16, "enc_pct": 3, "dec_pct": 9,
        "energy_j": 123.456, "processes": [],
    }  # fmt: skip
    assert gpu.gpu_pci == "00000000:17:00.0"
    assert gpu.gpu_uuid == "GPU-5eed0000-0000-4000-8000-000000000000"
    assert gpu.failed is None


def test_gauges_move_each_tick_and_each_device_has_its_own(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.util": 10, "1.util": 90, "1.power_mw": 5000}, devices=2)
    assert [gpu.util_pct for gpu in nvml.open().gpus()] == [10, 90]
    nvml.state.set({"0.util": 11, "1.util": 0})
    first, second = nvml.gpus()
    assert (first.util_pct, second.util_pct, second.power_w) == (11, 0, 5.0)


@pytest.mark.parametrize("function", MANY)
def test_any_error_of_any_function_on_one_gpu_of_three_costs_only_its_own_fields(
    nvml: NvmlProcess, function: str
) -> None:
    nvml.state.set({**planted(0), **planted(1), **planted(2), "*.field.197": 5, "*.field.198": 6}, devices=3)
    whole = [fields(gpu) for gpu in nvml.open().gpus()]
    for code in CODES:
        nvml.state.set({f"error.{function} 1": code})
        rows = nvml.open().gpus()
        nvml.state.drop(f"error.{function} 1")
        assert len(rows) == 3, code
        assert [fields(rows[0]), fields(rows[2])] == [whole[0], whole[2]], code
        missing = whole[1].keys() - fields(rows[1]).keys()
        allowed = MANY[function] | (MEMORY if function == "nvmlDeviceGetMemoryInfo_v2" else set())
        assert missing <= allowed, code
        named = {*(rows[1].unsupported or ()), *(rows[1].failed or ())}
        assert missing <= named, code
        assert not rows[1].lost


def test_a_call_that_has_hung_is_left_out_alone_and_asked_again_later(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.power_mw": 9000, "0.util": 7}, devices=2)
    left = {"nvmlDeviceGetPowerUsage": 60 * S, "nvmlDeviceGetAddressingMode": 60 * S}
    first, second = nvml.open(**left).gpus()
    assert (first.power_w, first.failed, first.util_pct) == (None, ["power_w"], 7)
    assert (second.power_w, second.failed) == (70.0, None)
    assert nvml.gpus(after_s=59)[0].failed == ["power_w"]
    assert nvml.gpus(after_s=1)[0].power_w == 9.0


def test_a_device_whose_opening_has_hung_costs_only_itself(nvml: NvmlProcess) -> None:
    nvml.state.set({"1.util": 7}, devices=2)
    rows = nvml.open(nvmlDeviceGetHandleByIndex=60 * S).gpus()
    assert [(row.gpu_uuid[:9], row.failed, row.util_pct) for row in rows] == [
        ("GPU-5eed0", None, 7), ("unknown-0", ["handle"], None),
    ]  # fmt: skip
    for after_s in (11, 50):
        nvml.gpus(after_s=after_s)
    assert [row.util_pct for row in nvml.gpus(after_s=21)] == [0, 7]


def test_no_call_is_made_that_blocks_to_measure(nvml_dir: Path, tmp_path: Path) -> None:
    state, calls = StubState(tmp_path / "gpus"), tmp_path / "calls"
    process = NvmlProcess(nvml_dir, state, calls)
    process.open()
    for _ in range(8):
        process.sample(after_s=20)
    process.close()
    asked = {line.split(" ")[0] for line in calls.read_text().splitlines()}
    assert "nvmlDeviceGetUtilizationRates" in asked
    assert not asked & {"nvmlDeviceGetPcieThroughput", "nvmlDeviceGetViolationStatus"}


def test_not_supported_and_failed_are_told_apart(nvml: NvmlProcess) -> None:
    nvml.state.set({"error.nvmlDeviceGetPowerUsage 0": 3, "error.nvmlDeviceGetTemperature 0": 999})
    (gpu,) = nvml.open().gpus()
    assert "power_w" in (gpu.unsupported or ())
    assert gpu.failed == ["temp_c"]


def test_what_is_not_supported_is_asked_again_a_minute_later_only(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.power_mw": 9000, "error.nvmlDeviceGetPowerUsage 0": 13})
    nvml.open().sample()
    nvml.state.drop("error.nvmlDeviceGetPowerUsage 0")
    assert nvml.gpus(after_s=30)[0].power_w is None
    assert nvml.gpus(after_s=31)[0].power_w == 9.0


def test_what_failed_is_asked_again_at_the_next_tick(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.power_mw": 9000, "error.nvmlDeviceGetPowerUsage 0": 10})
    nvml.open().sample()
    nvml.state.drop("error.nvmlDeviceGetPowerUsage 0")
    (gpu,) = nvml.gpus()
    assert (gpu.power_w, gpu.failed) == (9.0, None)


def test_a_lost_gpu_keeps_its_row_and_is_never_called_again(nvml_dir: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    state = StubState(tmp_path / "gpus").set({"1.name": "B200", "1.util": 50, "0.util": 7}, devices=3)
    process = NvmlProcess(nvml_dir, state, calls)
    process.open().sample()
    state.set({"error.nvmlDeviceGetTemperature 1": 15})
    rows = process.gpus()
    assert [row.lost for row in rows] == [None, True, None]
    assert (rows[1].name, rows[1].util_pct, rows[0].util_pct) == ("B200", None, 7)
    calls.write_text("")
    for _ in range(5):
        assert process.gpus()[1].lost
    assert not [line for line in calls.read_text().splitlines() if line.endswith(" 1")]
    process.close()


def test_a_lost_gpu_that_comes_back_is_watched_again_and_looked_for_ever_less_often(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.util": 7, "1.util": 50, "error.nvmlDeviceGetTemperature 1": 15}, devices=2)
    assert [row.lost for row in nvml.open().gpus()] == [None, True]
    nvml.sample()
    nvml.state.drop("error.nvmlDeviceGetTemperature 1")
    assert [row.util_pct for row in nvml.gpus(after_s=8)] == [7, None]
    assert [row.util_pct for row in nvml.gpus(after_s=2)] == [7, 50]


def test_a_lost_gpu_that_does_not_even_tell_its_name_any_more_keeps_one_row(nvml: NvmlProcess) -> None:
    nvml.state.set({"1.name": "B200"}, devices=3)
    nvml.open().sample()
    nvml.state.set({"error.* 1": 15})
    for _ in range(8):
        rows = nvml.gpus(after_s=30)
        assert sorted((row.gpu_index, row.lost, row.name) for row in rows if row.lost) == [(1, True, "B200")]
        assert len(rows) == 3


def test_a_device_that_is_forbidden_costs_no_new_start_of_the_library(nvml_dir: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    state = StubState(tmp_path / "gpus").set({"error.nvmlDeviceGetHandleByIndex_v2 1": 4}, devices=2)
    process = NvmlProcess(nvml_dir, state, calls)
    process.open()
    for _ in range(20):
        process.sample(after_s=30)
    assert calls.read_text().count("nvmlInitWithFlags") == 1
    process.close()


def test_a_gpu_that_is_lost_before_we_start_is_a_row_too(nvml: NvmlProcess) -> None:
    nvml.state.set({"error.nvmlDeviceGetHandleByIndex_v2 1": 15, "2.util": 44}, devices=3)
    rows = sorted(nvml.open().gpus(), key=lambda row: row.gpu_index or 0)
    assert [row.lost for row in rows] == [None, True, None]
    assert rows[2].util_pct == 44


def test_a_gpu_without_permission_costs_only_itself(nvml: NvmlProcess) -> None:
    nvml.state.set({"error.nvmlDeviceGetHandleByIndex_v2 0": 4, "1.util": 44}, devices=2)
    rows = sorted(nvml.open().gpus(), key=lambda row: row.gpu_index or 0)
    assert (rows[0].failed, rows[0].lost, rows[1].util_pct) == (["handle"], None, 44)


def test_a_name_that_is_no_utf8_and_a_uuid_with_a_control_byte(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.name": r"NVIDIA\xff\x1b[31m Red", "0.uuid": r"GPU-\x1babc"})
    (gpu,) = nvml.open().gpus()
    assert gpu.name == "NVIDIA\ufffd\\x1b[31m Red"
    assert gpu.gpu_uuid == "GPU-\\x1babc"


def test_processes_are_merged_and_a_sentinel_is_no_memory(nvml: NvmlProcess) -> None:
    me = os.getpid()
    nvml.state.set({"0.procs": f"{me}:1000:B {GONE}:-:C {GONE + 1}:5000:G"})
    processes = nvml.open().gpus()[0].processes or []
    assert [(process.pid, process.mem_bytes) for process in processes] == [
        (GONE + 1, 5000), (me, 1000), (GONE, None),
    ]  # fmt: skip
    mine = processes[1]
    assert mine.name is not None
    assert "pytest" in (mine.cmdline or "")
    assert mine.start_ticks == proc.of(me).start
    assert (processes[2].name, processes[2].start_ticks) == (None, None)


@pytest.mark.parametrize("garbage", ["0:1:C 4242:100:C", "4294967295:1:C", "4242:99999999999999:C"])
def test_garbage_pids_fail_the_list_and_not_the_device(nvml: NvmlProcess, garbage: str) -> None:
    nvml.state.set({"0.procs": garbage, "0.util": 12})
    (gpu,) = nvml.open().gpus()
    assert (gpu.processes, gpu.failed, gpu.util_pct) == (None, ["processes"], 12)


def test_one_readable_process_list_is_enough(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.procs": f"{GONE}:7:C", "error.nvmlDeviceGetGraphicsRunningProcesses_v3 0": 3})
    (gpu,) = nvml.open().gpus()
    assert [process.pid for process in gpu.processes or []] == [GONE]


def test_older_memory_call_counts_what_is_reserved_and_says_so(nvml: NvmlProcess) -> None:
    for code in (13, 3, 999):
        nvml.state.set({**planted(0), "error.nvmlDeviceGetMemoryInfo_v2 0": code})
        (gpu,) = nvml.open().gpus()
        assert gpu.mem_used_bytes == (41 << 30) + (600 << 20)
        assert gpu.mem_reserved_bytes is None
        assert "mem_reserved_bytes" in (gpu.unsupported or ())


def test_shared_memory_is_the_hosts_and_is_labelled_so(nvml: NvmlProcess) -> None:
    nvml.state.set({"error.nvmlDeviceGetMemoryInfo_v2 0": 3, "error.nvmlDeviceGetMemoryInfo 0": 3})
    discrete = nvml.open().gpus()[0]
    if hasattr(pynvml, "nvmlDeviceGetAddressingMode"):  # a binding before 13.580 can't ask
        assert (discrete.mem_total_bytes, discrete.mem_shared) == (None, None)
    nvml.state.set({"0.addressing_mode": 2})
    unified = nvml.open().gpus()[0]
    assert unified.mem_shared is True
    assert unified.mem_util_pct is None  # the driver answers 0 there, from the first tick on
    assert "mem_util_pct" in (unified.unsupported or ())
    assert unified.mem_total_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert nvml.gpus()[0].mem_util_pct is None


def test_throttle_bits_have_names_and_unknown_ones_are_other(nvml: NvmlProcess) -> None:
    for bits, names in {
        0x0: [], 0x1: ["idle"], 0x102: ["app_clocks"], 0x4: ["power_cap"], 0x60: ["thermal_sw", "thermal_hw"],
        0x88: ["hw_slowdown", "power_brake"], 0x10: ["sync_boost"], 0x8000: ["other"],
    }.items():  # fmt: skip
        nvml.state.set({"0.throttle": bits})
        assert nvml.open().gpus()[0].throttle == names


def test_a_hardware_slowdown_that_flashes_for_one_look_is_none(nvml: NvmlProcess) -> None:
    nvml.open().sample()
    told = []
    for bits in (0x8, 0x0, 0x8, 0x8, 0x48, 0x0, 0x88):
        nvml.state.set({"0.throttle": bits})
        told.append(nvml.gpus()[0].throttle)
    brake = ["hw_slowdown", "power_brake"]
    assert told == [[], [], [], ["hw_slowdown"], ["hw_slowdown", "thermal_hw"], [], brake]


def test_the_old_name_of_the_throttle_call_is_tried(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.throttle": 4, "error.nvmlDeviceGetCurrentClocksEventReasons 0": 13})
    assert nvml.open().gpus()[0].throttle == ["power_cap"]


def test_counters_become_rates_and_a_wrap_is_no_rate(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.field.197": 1000, "0.field.198": 50_000, "0.field.74": 77, "0.field.269": 5})
    (first,) = nvml.open().gpus()
    assert (first.pcie_tx_bytes_s, first.throttled_ns) == (None, {"power_cap": 77})
    nvml.state.set({"0.field.197": 3000, "0.field.198": 250_000})
    (second,) = nvml.gpus(after_s=2)
    assert (second.pcie_tx_bytes_s, second.pcie_rx_bytes_s) == (1000, 100_000)
    nvml.state.set({"0.field.197": 10})
    (third,) = nvml.gpus()
    assert (third.pcie_tx_bytes_s, third.pcie_rx_bytes_s) == (None, 0)


def test_a_share_above_a_hundred_is_not_believed(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.util": 37100})
    (gpu,) = nvml.open().gpus()
    assert gpu.util_pct is None
    assert "util_pct" in (gpu.failed or ())


def test_bursts_carry_the_drivers_samples_once(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.samples": "1000000:90 1020000:0 1040000:45"})
    (burst,) = nvml.open().bursts()
    assert burst.util_pct == [90, 0, 45]
    assert burst.dt_ns == [0, 20_000_000, 40_000_000]
    assert burst.t + 40_000_000 == nvml.now_ns
    assert nvml.bursts() == []
    nvml.state.set({"0.samples": "1000000:90 1020000:0 1040000:45 1060000:7 1080000:900"})
    (burst,) = nvml.bursts()
    assert burst.util_pct == [7]


def test_library_absent_says_so_with_its_mend(tmp_path: Path) -> None:
    state = StubState(tmp_path / "gpus")
    process = NvmlProcess(tmp_path, state)
    sampler = process.open().sampler()
    assert (sampler.state, sampler.backend, sampler.devices) == ("absent", "nvml", 0)
    assert "libnvidia-ml.so.1" in (sampler.why or "")
    process.close()


@pytest.mark.parametrize(
    ("code", "word", "devices"),
    [
        (9, "not loaded", 0),
        (18, "reboot", None),
        (4, "permissions", None),
        (17, "cgroup", None),
        (999, "unknown", None),
    ],
)
def test_a_driver_that_does_not_start_says_why(nvml: NvmlProcess, code: int, word: str, devices: int | None) -> None:
    nvml.state.set({"error.nvmlInitWithFlags *": code})
    sampler = nvml.open().sampler()
    assert (sampler.state, sampler.devices) == ("absent", devices)
    assert word in (sampler.why or "")


def test_a_driver_that_comes_later_is_found_without_a_restart(nvml: NvmlProcess) -> None:
    nvml.state.set({"error.nvmlInitWithFlags *": 9, "0.util": 5})
    nvml.open().sampler()
    nvml.state.drop("error.nvmlInitWithFlags *")
    assert nvml.sampler().state == "absent"
    assert nvml.gpus(after_s=2)[0].util_pct == 5


def test_no_device_is_said(nvml: NvmlProcess) -> None:
    nvml.state.set(devices=0)
    sampler = nvml.open().sampler()
    assert (sampler.state, sampler.devices) == ("absent", 0)
    assert "no GPU" in (sampler.why or "")


def test_a_device_that_arrives_later_is_found(nvml: NvmlProcess) -> None:
    nvml.state.set(devices=0)
    nvml.open().sampler()
    nvml.state.set(devices=2)
    assert len(nvml.gpus(after_s=61)) == 2


def test_after_a_driver_reload_the_devices_are_matched_by_uuid(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.uuid": "GPU-a", "1.uuid": "GPU-b", "0.util": 1, "1.util": 2}, devices=2)
    nvml.open().sample()
    nvml.state.set({"reload": 1, "0.uuid": "GPU-b", "1.uuid": "GPU-a", "0.util": 2, "1.util": 1})
    assert all(row.util_pct is None for row in nvml.gpus())
    nvml.sample()
    assert {row.gpu_uuid: row.util_pct for row in nvml.gpus()} == {"GPU-a": 1, "GPU-b": 2}


def test_an_absurd_count_of_devices_is_not_believed(nvml: NvmlProcess) -> None:
    nvml.state.set({"devices": 4_000_000_000, "0.util": 5, "error.nvmlDeviceGetHandleByIndex_v2 *": 2})
    (said,) = nvml.open().sample()
    assert isinstance(said, Sampler)
    nvml.state.clear().set({"devices": 4_000_000_000})
    nvml.state.set({f"error.nvmlDeviceGetHandleByIndex_v2 {index}": 2 for index in range(2, 130)})
    assert len(nvml.open().gpus()) == 2


def test_two_gpus_under_one_uuid_are_two_rows(nvml: NvmlProcess) -> None:
    nvml.state.set({"*.uuid": "GPU-same", "0.util": 3, "1.util": 60}, devices=2)
    assert {row.gpu_uuid: row.util_pct for row in nvml.open().gpus()} == {"GPU-same": 3, "GPU-same#1": 60}


GARBAGE = {
    "util": ("util_pct", 37_100), "mem_util": ("mem_util_pct", 255), "power_mw": ("power_w", 0xFFFFFFFF),
    "power_limit_mw": ("power_limit_w", 0xFFFFFFFF), "power_limit_default_mw": ("power_limit_default_w", 0xFFFFFFFF),
    "temp": ("temp_c", 0xFFFFFFF6), "temp_slowdown": ("temp_slowdown_c", 0xFFFFFFFF),
    "sm_clock": ("sm_clock_mhz", 0xFFFFFFFF), "sm_clock_max": ("sm_clock_max_mhz", 0xFFFFFFFF),
    "pcie_gen": ("pcie_gen", 0xFFFFFFFF), "pcie_width_max": ("pcie_width_max", 65_535), "enc": ("enc_pct", 0xFFFFFFFF),
    "field.186": ("power_instant_w", 1 << 63), "field.82": ("mem_temp_c", 0xFFFFFFFF),
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_a_figure_that_cant_be_true_costs_itself_alone(nvml: NvmlProcess, name: str) -> None:
    field, value = GARBAGE[name]
    sane = {"0.field.186": 90_000, "0.field.82": 70, "0.field.74": 5}
    nvml.state.set({**planted(0), **sane})
    whole = fields(nvml.open().gpus()[0])
    assert whole.get(field) is not None
    nvml.state.set({f"0.{name}": value})
    (gpu,) = nvml.open().gpus()
    assert whole.keys() - fields(gpu).keys() == {field}
    assert gpu.failed == [field]


def test_more_memory_in_use_than_there_is_is_not_believed(nvml: NvmlProcess) -> None:
    for figures in ({"0.mem_used": 1 << 62}, {"0.mem_reserved": (1 << 64) - 1}, {"0.mem_total": (1 << 64) - 1}):
        nvml.state.clear().set(figures)
        (gpu,) = nvml.open().gpus()
        assert (gpu.mem_used_bytes, gpu.mem_total_bytes, gpu.util_pct) == (None, None, 0), figures
        assert set(gpu.failed or ()) >= MEMORY


def test_a_jump_of_a_counter_is_no_rate(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.field.197": 5})
    nvml.open().sample()
    nvml.state.set({"0.field.197": 1 << 63})
    assert nvml.gpus()[0].pcie_tx_bytes_s is None


def test_sixteen_gpus(nvml: NvmlProcess) -> None:
    nvml.state.set({f"{index}.util": index for index in range(16)}, devices=16)
    rows = nvml.open().gpus()
    assert [row.util_pct for row in rows] == list(range(16))
    assert len({row.gpu_uuid for row in rows}) == 16


def test_a_module_that_shadows_the_binding_is_named(tmp_path: Path, nvml_dir: Path) -> None:
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): pass\n")
    code = (
        "from gputop.samplers.nvml import NvmlBackend; b = NvmlBackend(host='h'); b.open(); print(b.sample(1)[0].why)"
    )
    state = StubState(tmp_path / "gpus")
    shadowed = {**env(nvml_dir, state), "PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=shadowed, check=True)
    assert "another module has taken the name pynvml" in said.stdout
    assert str(tmp_path) in said.stdout
    assert "give that file another name" in said.stdout


@pytest.mark.parametrize("code", ["raise SystemExit('mine')", "raise RuntimeError('mine')", "import no_such_module"])
def test_a_module_of_that_name_that_does_not_even_load_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    (tmp_path / "pynvml.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    with pytest.raises(nvml_library.Absent, match="can't be imported"):
        nvml_library.binding()
