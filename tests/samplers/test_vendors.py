"""AMD, Intel and Apple by recorded answers: sentinels are no figures, one bad answer costs only itself."""

from __future__ import annotations

import os
import plistlib
import sys
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.records import Gpu, Sampler
from gputop.samplers import amd, apple, backends, doctor, intel
from gputop.samplers.protocol import unheard
from gputop.samplers.vendor import Several

S = 1_000_000_000
ME = os.getpid()


class Kind(IntEnum):
    HOTSPOT = 1
    CURRENT = 2
    CRITICAL = 3
    GFX = 4


class AmdError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.err_code = code


ANSWERS: dict[str, Any] = {
    "activity": {"gfx_activity": 87, "umc_activity": 41, "mm_activity": "N/A"},
    "vram_usage": {"vram_total": 196_592, "vram_used": 4096},
    "power_info": {"current_socket_power": "N/A", "average_socket_power": 412, "socket_power": 65535},
    "power_cap_info": {"power_cap": 750_000_000, "default_power_cap": 750},
    "clock_info": {"clk": 1900, "max_clk": 0xFFFFFFFF},
    "energy_count": {"energy_accumulator": 2_000_000, "counter_resolution": 15.3},
    "process_list": [{"pid": ME, "memory_usage": {"vram_mem": 1000}}, {"pid": 4_194_302, "memory_usage": {}}],
    "pcie_info": {"pcie_metric": {"pcie_width": 16}, "pcie_static": {"max_pcie_width": "N/A"}},
    "asic_info": {"market_name": "AMD Instinct MI300X"},
    "bdf": "0000:0c:00.0",
    "uuid": "99ff74a1-0000-1000-80d4-0123456789ab",
    "temp": 61,
}


def library(devices: int = 1, **instead: Any) -> Any:
    """amdsmi as far as it is used, with recorded answers; an exception is raised."""
    answers = {**ANSWERS, **instead}

    def answer(name: str) -> Any:
        def call(handle: Any, *_: Any) -> Any:
            value = answers[name]
            value = value(handle) if callable(value) else value
            if isinstance(value, Exception):
                raise value
            return value

        return call

    calls = {
        "amdsmi_get_gpu_activity": "activity", "amdsmi_get_gpu_vram_usage": "vram_usage",
        "amdsmi_get_power_info": "power_info", "amdsmi_get_power_cap_info": "power_cap_info",
        "amdsmi_get_clock_info": "clock_info", "amdsmi_get_energy_count": "energy_count",
        "amdsmi_get_gpu_process_list": "process_list", "amdsmi_get_pcie_info": "pcie_info",
        "amdsmi_get_gpu_asic_info": "asic_info", "amdsmi_get_gpu_device_bdf": "bdf",
        "amdsmi_get_gpu_device_uuid": "uuid", "amdsmi_get_temp_metric": "temp",
    }  # fmt: skip
    return SimpleNamespace(
        amdsmi_init=lambda: None, amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: list(range(devices)),
        AmdSmiTemperatureType=Kind, AmdSmiTemperatureMetric=Kind, AmdSmiClkType=Kind,
        **{call: answer(name) for call, name in calls.items()},
    )  # fmt: skip


def rows(backend: Any, ticks: int = 1) -> list[Gpu]:
    backend.open()
    found: list[Any] = []
    for tick in range(ticks):
        found = backend.sample((1 + 6 * tick) * S)
    return found


def test_amd_figures_are_in_the_records_units() -> None:
    (gpu,) = rows(amd.backend(host="box", amdsmi=library()))
    assert (gpu.util_pct, gpu.mem_util_pct, gpu.temp_c, gpu.sm_clock_mhz, gpu.pcie_width) == (87, 41, 61, 1900, 16)
    assert (gpu.mem_used_bytes, gpu.mem_total_bytes) == (4096 << 20, 196_592 << 20)
    assert (gpu.power_w, gpu.power_limit_w, gpu.power_limit_default_w) == (412, 750, 750)
    assert gpu.energy_j == pytest.approx(30.6)
    assert (gpu.name, gpu.gpu_pci) == ("AMD Instinct MI300X", "0000:0c:00.0")
    assert [(one.pid, one.mem_bytes) for one in gpu.processes or ()] == [(ME, 1000), (4_194_302, None)]


def test_amd_sentinels_are_no_figures() -> None:
    (gpu,) = rows(amd.backend(host="box", amdsmi=library()))
    assert (gpu.sm_clock_max_mhz, gpu.pcie_width_max) == (None, None)
    nothing = {"gfx_activity": 65535, "umc_activity": "N/A"}
    (gpu,) = rows(amd.backend(host="box", amdsmi=library(activity=nothing)))
    assert (gpu.util_pct, gpu.mem_util_pct) == (None, None)
    assert {"util_pct", "mem_util_pct"} <= {*(gpu.unsupported or ())}


@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - {"uuid"}))
@pytest.mark.parametrize("code", [2, 7, 10, 34])
def test_an_amd_call_that_fails_on_one_of_three_costs_only_its_own_fields(name: str, code: int) -> None:
    whole = rows(amd.backend(host="box", amdsmi=library(3)))[1]
    broken = library(3, **{name: lambda handle: AmdError(code) if handle == 1 else ANSWERS[name]})
    found = rows(amd.backend(host="box", amdsmi=broken))
    assert [gpu.util_pct for gpu in (found[0], found[2])] == [87, 87]
    present = {field for field in whole.__struct_fields__ if getattr(whole, field) is not None}
    missing = {field for field in present if getattr(found[1], field) is None}
    assert missing - {"unsupported", "failed"} <= {*(found[1].unsupported or ()), *(found[1].failed or ())}
    assert len(missing) <= 2


def test_amd_without_its_binding_or_driver_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    (said,) = rows(amd.backend(host="box"))
    assert isinstance(said, Sampler)
    assert "pip install 'gputop-live[amd]'" in (said.why or "")
    broken = library()

    def init() -> None:
        raise AmdError(34)

    broken.amdsmi_init = init
    (said,) = rows(amd.backend(host="box", amdsmi=broken))
    assert isinstance(said, Sampler)
    assert "modprobe amdgpu" in (said.why or "")


def plist(**statistics: Any) -> bytes:
    return plistlib.dumps([{"model": b"Apple M3 Max\0", "PerformanceStatistics": statistics}, {"model": "no GPU"}])


def test_apples_gpu_shares_the_machines_memory() -> None:
    data = plist(**{"Device Utilization %": 63, "In use system memory": 3 << 30})
    (gpu,) = rows(apple.backend(host="box", ask=lambda: data))
    assert (gpu.name, gpu.util_pct, gpu.mem_used_bytes, gpu.mem_shared) == ("Apple M3 Max", 63, 3 << 30, True)


def test_what_apples_statistics_lack_is_unsupported_and_garbage_is_absent() -> None:
    (gpu,) = rows(apple.backend(host="box", ask=plist))
    assert (gpu.util_pct, gpu.unsupported) == (None, ["mem_used_bytes", "util_pct"])
    (said,) = rows(apple.backend(host="box", ask=lambda: b"ioreg: no"))
    assert isinstance(said, Sampler)
    assert "property list" in (said.why or "")


class Tree:
    """A sysfs and a procfs with one card of Intel's in it."""

    def __init__(self, root: Path, driver: str, address: str = "0000:03:00.0") -> None:
        self.sysfs, self.procfs, self.address = root / "sys", root / "proc", address
        self.device = self.sysfs / "devices" / address
        self.write(self.device / "device", "0x56a0\n")
        (self.sysfs / "drivers" / driver).mkdir(parents=True)
        (self.device / "driver").symlink_to(self.sysfs / "drivers" / driver)
        (self.sysfs / "class/drm/card1").mkdir(parents=True)
        (self.sysfs / "class/drm/card1/device").symlink_to(self.device)
        (self.sysfs / "class/drm/card1-DP-1").mkdir()

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def client(self, pid: int, fd: int, client: int, lines: str) -> None:
        head = f"pos:\t0\ndrm-driver:\txe\ndrm-client-id:\t{client}\ndrm-pdev:\t{self.address}\n"
        self.write(self.procfs / f"{pid}/fdinfo/{fd}", head + lines)
        link = self.procfs / f"{pid}/fd/{fd}"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to("/dev/dri/renderD128")

    def backend(self) -> Any:
        return intel.backend(host="box", sysfs=self.sysfs, procfs=self.procfs)


def test_intels_engines_of_i915_are_time_and_forks_count_once(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "i915")
    tree.write(tree.device / "hwmon/hwmon2/energy1_input", "1000000\n")
    tree.write(tree.device / "drm/card1/gt_act_freq_mhz", "2100\n")
    tree.write(tree.device / "drm/card1/gt_max_freq_mhz", "2400\n")
    for pid in (ME, 4_194_302):
        tree.client(pid, 7, 1, "drm-engine-compute:\t0 ns\ndrm-resident-local0:\t2048 KiB\n")
    backend = tree.backend()
    (first,) = rows(backend)
    assert (first.util_pct, first.power_w, first.energy_j, first.sm_clock_mhz) == (None, None, 1.0, 2100)
    assert [(one.pid, one.mem_bytes) for one in first.processes or ()] == [(ME, 2 << 20)]
    for pid in (ME, 4_194_302):
        tree.client(pid, 7, 1, "drm-engine-compute:\t3000000000 ns\ndrm-engine-copy:\t100 ns\n")
    tree.write(tree.device / "hwmon/hwmon2/energy1_input", "601000000\n")
    (second,) = backend.sample(7 * S)
    assert second.util_pct == pytest.approx(50)
    assert second.power_w == pytest.approx(100)


def test_intels_engines_of_xe_are_cycles_of_all_cycles(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "xe")
    tree.write(tree.device / "tile0/gt0/freq0/act_freq", "1500\n")
    tree.write(tree.device / "tile0/gt0/freq0/max_freq", "2850\n")
    tree.client(ME, 7, 1, "drm-cycles-ccs:\t100\ndrm-total-cycles-ccs:\t1000\n")
    tree.client(ME, 8, 2, "drm-cycles-ccs:\t50\ndrm-total-cycles-ccs:\t1000\n")
    backend = tree.backend()
    rows(backend)
    tree.client(ME, 7, 1, "drm-cycles-ccs:\t400\ndrm-total-cycles-ccs:\t2000\n")
    tree.client(ME, 8, 2, "drm-cycles-ccs:\t150\ndrm-total-cycles-ccs:\t2000\n")
    (gpu,) = backend.sample(7 * S)
    assert gpu.util_pct == pytest.approx(40)
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz, gpu.gpu_pci) == (1500, 2850, "0000:03:00.0")
    assert "power_w" in (gpu.unsupported or ())


def test_only_vendors_that_the_kernel_shows_are_asked(tmp_path: Path) -> None:
    nothing = tmp_path / "none"
    assert backends.vendors(nothing, nothing, "linux") == ["nvml"]
    assert backends.vendors(nothing, nothing, "darwin") == ["apple"]
    tree = Tree(tmp_path / "a", "xe")
    assert backends.vendors(tree.sysfs, tree.procfs, "linux") == ["intel"]
    (tree.procfs / "driver/nvidia").mkdir(parents=True)
    assert backends.vendors(tree.sysfs, tree.procfs, "linux") == ["nvml", "intel"]
    inside = Tree(tmp_path / "b", "i915", address="0000:00:02.0")
    assert backends.vendors(inside.sysfs, inside.procfs, "linux") == ["nvml"]
    (inside.sysfs / "class/kfd/kfd/topology/nodes").mkdir(parents=True)
    (inside.sysfs / "module/amdgpu").mkdir(parents=True)
    assert backends.vendors(inside.sysfs, inside.procfs, "linux") == ["amd"]


def test_two_vendors_are_one_backend_and_an_absent_one_is_no_news() -> None:
    whole, absent = amd.backend(host="box", amdsmi=library(2)), apple.backend(host="box", ask=lambda: b"")
    assert [gpu.gpu_index for gpu in rows(Several([absent, whole]))] == [0, 1]
    (said,) = rows(Several([absent, apple.backend(host="box", ask=lambda: b"")]))
    assert isinstance(said, Sampler)
    assert backends.here(host="box", say=unheard, names=["nvml"]).name == "nvml"
    assert backends.here(host="box", say=unheard, names=["amd", "intel"]).name == "amdsmi"


def test_a_binding_without_its_library_says_so_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "amdsmi.py").write_text("print('Unable to find it'); raise KeyError('libamd_smi.so')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    (check,) = doctor.other_vendors(["nvml", "amd"])
    assert (check.name, check.state) == ("AMD GPUs", "warn")
    assert "libamd_smi.so" in check.finding
    assert "amd-smi-lib" in (check.mend or "")
    assert capfd.readouterr().out == ""


def test_doctor_counts_other_vendors_gpus_and_calls_them_experimental(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", library(2))
    (check,) = doctor.other_vendors(["amd"])
    assert (check.state, check.finding) == ("ok", "2 found (experimental)")
    assert doctor.other_vendors(["nvml"]) == []
