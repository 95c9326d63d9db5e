"""GPM, links, MIG and the use of the processors by process: each figure by its own return code, garbage left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.records import GpuProcess
from gputop.samplers import nvml_usage, proc
from tests.nvml_stub import StubState
from tests.samplers.nvml_process import NvmlProcess
from tests.samplers.test_nvml import CODES, GONE

GPM = {
    "0.gpm": 1, "0.gpm.2": 61.5, "0.gpm.3": 33.25, "0.gpm.5": 12.5, "0.gpm.10": 44, "0.gpm.20": 100, "0.gpm.21": 200,
    "0.gpm.60": 300, "0.gpm.61": 400,
}  # fmt: skip
SHARES = ["sm_active_pct", "sm_occupancy_pct", "tensor_active_pct", "dram_active_pct"]
MIB = 1 << 20
ME = os.getpid()


def shares(gpu: object) -> list[float | None]:
    return [getattr(gpu, name) for name in SHARES]


def test_gpm_tells_from_the_second_tick_on(nvml: NvmlProcess) -> None:
    nvml.state.set(GPM)
    (first,) = nvml.open().gpus()
    assert shares(first) == [None] * 4
    assert not {*SHARES} & {*(first.unsupported or ()), *(first.failed or ())}
    (second,) = nvml.gpus()
    assert shares(second) == [61.5, 33.25, 12.5, 44]


def test_each_gpm_metric_has_its_own_return_code(nvml: NvmlProcess) -> None:
    nvml.state.set({**GPM, "0.gpm.3": "!3", "0.gpm.5": "!10", "0.gpm.10": "nan"})
    nvml.open().sample()
    (gpu,) = nvml.gpus()
    assert shares(gpu) == [61.5, None, None, None]
    assert "sm_occupancy_pct" in (gpu.unsupported or ())
    assert gpu.failed == ["dram_active_pct", "tensor_active_pct"]


def test_a_share_of_gpm_above_all_is_not_believed(nvml: NvmlProcess) -> None:
    nvml.state.set({**GPM, "0.gpm.2": 101})
    nvml.open().sample()
    assert nvml.gpus()[0].failed == ["sm_active_pct"]


def test_without_gpm_its_fields_are_unsupported_and_it_is_not_asked_each_tick(nvml_dir: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    process = NvmlProcess(nvml_dir, StubState(tmp_path / "gpus"), calls)
    for _ in range(5):
        (gpu,) = process.open().gpus() if not calls.exists() else process.gpus()
    assert {*SHARES} <= {*(gpu.unsupported or ())}
    assert calls.read_text().count("nvmlGpmQueryDeviceSupport") == 1
    assert "nvmlGpmSampleAlloc" not in calls.read_text()
    process.close()


@pytest.mark.parametrize(
    "function", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmSampleAlloc", "nvmlGpmMetricsGet"]
)
def test_an_error_of_gpm_costs_only_its_fields_and_goes_by(nvml: NvmlProcess, function: str) -> None:
    nvml.state.set({**GPM, "0.util": 55})
    for code in CODES:
        nvml.state.set({f"error.{function} {'0' if function.endswith(('Support', 'SampleGet')) else '*'}": code})
        nvml.open().sample()
        (gpu,) = nvml.gpus()
        assert (gpu.util_pct, *shares(gpu)) == (55, None, None, None, None), code
        assert {*SHARES} <= {*(gpu.unsupported or ()), *(gpu.failed or ())}, code
        nvml.state.clear()
        nvml.state.set({**GPM, "0.util": 55})
        nvml.sample(after_s=61)
        assert shares(nvml.gpus()[0]) == [61.5, 33.25, 12.5, 44], code


def test_two_buffers_a_device_are_kept_and_given_back(nvml_dir: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    state = StubState(tmp_path / "gpus").set({**GPM, "1.gpm": 1, "1.gpm.2": 7}, devices=2)
    process = NvmlProcess(nvml_dir, state, calls)
    process.open()
    for _ in range(6):
        rows = process.gpus()
    assert [row.sm_active_pct for row in rows] == [61.5, 7]
    process.open()
    said = calls.read_text()
    assert said.count("nvmlGpmSampleAlloc") == said.count("nvmlGpmSampleFree") == 4
    assert "not given back" not in said
    process.close()


def test_rates_of_gpm_stand_in_for_counters_that_a_device_lacks(nvml: NvmlProcess) -> None:
    nvml.state.set({**GPM, "0.field.197": 0, "0.field.198": 0})
    nvml.open().sample()
    nvml.state.set({"0.field.197": 5000, "0.field.198": 7000})
    (gpu,) = nvml.gpus()
    assert (gpu.pcie_tx_bytes_s, gpu.pcie_rx_bytes_s) == (5000, 7000)
    assert (gpu.nvlink_rx_bytes_s, gpu.nvlink_tx_bytes_s) == (300 * MIB, 400 * MIB)
    nvml.state.drop("0.field.197", "0.field.198")
    (gpu,) = nvml.gpus()
    assert (gpu.pcie_tx_bytes_s, gpu.pcie_rx_bytes_s) == (100 * MIB, 200 * MIB)


def test_nvlink_counters_are_in_kib_and_over_all_links(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.field.138": 1000, "0.field.139": 5000})
    assert nvml.open().gpus()[0].nvlink_tx_bytes_s is None
    nvml.state.set({"0.field.138": 3000, "0.field.139": 5500})
    (gpu,) = nvml.gpus(after_s=2)
    assert (gpu.nvlink_tx_bytes_s, gpu.nvlink_rx_bytes_s) == (1024 * 1000, 1024 * 250)


def test_power_now_and_the_memorys_temperature(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.power_mw": 300_000, "0.field.186": 412_500, "0.field.82": 88})
    (gpu,) = nvml.open().gpus()
    assert (gpu.power_w, gpu.power_instant_w, gpu.mem_temp_c) == (300, 412.5, 88)
    nvml.state.set({"0.field.82": 0})
    assert nvml.gpus()[0].mem_temp_c is None


def by_pid(processes: list[GpuProcess] | None) -> dict[int, float | None]:
    return {process.pid: process.sm_pct for process in processes or ()}


def test_use_by_process_leaves_out_garbage_and_what_does_not_run(nvml: NvmlProcess) -> None:
    nvml.state.set({
        "0.procs": f"{ME}:1000:C {GONE}:500:C 77:1:C",
        "0.usage": f"{ME}:1000000:37 {GONE}:1000000:37100 {GONE - 1}:1000000:99 77:0:50",
    })  # fmt: skip
    assert by_pid(nvml.open().gpus()[0].processes) == {ME: 37, GONE: 0, 77: 0}


def test_use_is_asked_from_the_drivers_own_last_stamp(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.procs": f"{ME}:1000:C", "0.usage": f"{ME}:1000000:90"})
    assert by_pid(nvml.open().gpus()[0].processes) == {ME: 90}
    assert by_pid(nvml.gpus(after_s=2)[0].processes) == {ME: 0}
    nvml.state.set({"0.usage": f"{ME}:1000000:90 {ME}:1020000:12"})
    assert by_pid(nvml.gpus(after_s=2)[0].processes) == {ME: 12}


def test_a_drivers_clock_that_is_set_back_does_not_leave_processes_idle_for_ever(nvml: NvmlProcess) -> None:
    nvml.state.set({"0.procs": f"{ME}:1000:C", "0.usage": f"{ME}:9000000000:90"})
    nvml.open().sample()
    nvml.state.set({"0.usage": f"{ME}:1000000:55"})
    told = [by_pid(nvml.gpus(after_s=2)[0].processes)[ME] for _ in range(nvml_usage.DRY + 2)]
    assert told == [0] * nvml_usage.DRY + [55, 0]
    nvml.state.set({"0.usage": f"{ME}:1000000:55 {ME}:1020000:12"})
    assert by_pid(nvml.gpus(after_s=2)[0].processes) == {ME: 12}


def test_a_process_on_two_gpus_is_on_each_with_its_own_figures(nvml: NvmlProcess) -> None:
    nvml.state.set({
        "0.procs": f"{ME}:1000:C", "1.procs": f"{ME}:77:C", "0.usage": f"{ME}:1000000:64", "1.usage": f"{ME}:1000000:3",
    }, devices=2)  # fmt: skip
    rows = [(gpu.processes or [])[0] for gpu in nvml.open().gpus()]
    assert [(one.pid, one.mem_bytes, one.sm_pct, one.start_ticks) for one in rows] == [
        (ME, 1000, 64, proc.start(ME)), (ME, 77, 3, proc.start(ME)),
    ]  # fmt: skip


def test_counters_kept_to_administrators_are_missing_and_have_not_failed(nvml: NvmlProcess) -> None:
    for denied in ({"error.nvmlGpmSampleGet 0": 4}, {f"0.gpm.{metric}": "!4" for metric in (2, 3, 5, 10)}):
        nvml.state.clear()
        nvml.state.set({**GPM, **denied})
        nvml.open().sample()
        (gpu,) = nvml.gpus()
        assert {*SHARES} <= {*(gpu.unsupported or ())}
        assert gpu.failed is None


def test_drivers_that_only_know_the_newer_call_are_asked_by_it(nvml: NvmlProcess) -> None:
    nvml.state.set({
        "0.procs": f"{ME}:1000:C", "0.usage": f"{ME}:1000000:64", "error.nvmlDeviceGetProcessUtilization 0": 3,
    })  # fmt: skip
    assert by_pid(nvml.open().gpus()[0].processes) == {ME: 64}


def test_without_either_call_the_processes_are_listed_all_the_same(nvml: NvmlProcess) -> None:
    for code in CODES:
        nvml.state.set({"0.procs": f"{ME}:1000:C", "0.usage": f"{ME}:1000000:64"})
        nvml.state.set({"error.nvmlDeviceGetProcessUtilization 0": code})
        nvml.state.set({"error.nvmlDeviceGetProcessesUtilizationInfo 0": code})
        (gpu,) = nvml.open().gpus()
        assert by_pid(gpu.processes) in ({ME: None}, {ME: 0}), code  # 0 where the code means "nothing is newer"
        assert (by_pid(gpu.processes) == {ME: 0}) == (code == 6)


MIG = {
    "0.mig": 1, "0.migs": "0 3", "100.uuid": "MIG-a", "100.name": "H100 MIG 1g.10gb", "100.mem_used": 5 << 30,
    "100.mem_total": 10 << 30, "100.procs": f"{ME}:700:C", "103.uuid": "MIG-b", "103.mem_total": 20 << 30,
    "0.gpm": 1, "100.gpm.2": 80, "103.gpm.2": 5, "error.nvmlDeviceGetUtilizationRates 0": 3,
}  # fmt: skip


def test_mig_instances_are_told_and_gaps_are_none(nvml: NvmlProcess) -> None:
    nvml.state.set(MIG)
    (gpu,) = nvml.open().gpus()
    assert gpu.util_pct is None
    first, second = gpu.mig or []
    assert first == {
        "uuid": "MIG-a", "name": "H100 MIG 1g.10gb", "gpu_instance": 1, "compute_instance": 0,
        "mem_used_bytes": 5 << 30, "mem_total_bytes": 10 << 30,
        "processes": [{"pid": ME, "mem_bytes": 700, "start_ticks": proc.start(ME)}],
    }  # fmt: skip
    assert (second["uuid"], second["gpu_instance"], second["mem_total_bytes"]) == ("MIG-b", 4, 20 << 30)
    first, second = nvml.gpus(after_s=6)[0].mig or []
    assert (first["sm_active_pct"], second["sm_active_pct"]) == (80, 5)


def test_without_mig_there_is_no_list(nvml: NvmlProcess) -> None:
    assert nvml.open().gpus()[0].mig is None


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGpuInstanceId",
     "nvmlDeviceGetName"],
)  # fmt: skip
def test_one_instance_that_does_not_answer_costs_only_its_own_figures(nvml: NvmlProcess, function: str) -> None:
    nvml.state.set({**MIG, "0.util": 9})
    whole = nvml.open().gpus()[0].mig or []
    for code in CODES:
        nvml.state.set({f"error.{function} 100": code})
        rows = nvml.open().gpus()[0].mig or []
        nvml.state.drop(f"error.{function} 100")
        assert rows[1] == whole[1], code
        listed = rows[0].pop("processes", [])  # the list of the other kind is enough, and empty
        assert listed in ([], whole[0]["processes"]), code
        assert rows[0].items() <= whole[0].items(), code


def test_an_instance_that_goes_and_comes_is_followed(nvml: NvmlProcess) -> None:
    nvml.state.set(MIG)
    nvml.open().sample()
    nvml.state.set({"0.migs": "3"})
    assert [one["uuid"] for one in nvml.gpus(after_s=6)[0].mig or []] == ["MIG-b"]
    nvml.state.set({"0.mig": 0})
    assert nvml.gpus(after_s=6)[0].mig is None
