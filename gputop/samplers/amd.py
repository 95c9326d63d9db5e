"""AMD GPUs through `amdsmi`, AMD's own binding, which must be of the installed ROCm. Experimental.

What a device does not know comes as a sentinel: the text "N/A", 65535, or a number of all ones.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from typing import Any

from gputop.records import clean
from gputop.samplers.asking import ONCE, RARE_NS, SLOW_NS, Failed, Question, Unsupported
from gputop.samplers.nvml_processes import MOST, Names
from gputop.samplers.protocol import Say, unheard
from gputop.samplers.vendor import VendorBackend, VendorDevice

MIB = 1 << 20
SENTINELS = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
UNSUPPORTED = frozenset({2, 3, 5, 45})
"""AMDSMI_STATUS_ NOT_SUPPORTED, NOT_YET_IMPLEMENTED, FAIL_LOAD_SYMBOL, NO_ENERGY_DRV (amdsmi's header)."""

MENDS = {
    4: "its library was not found: install ROCm's amd-smi-lib",
    10: "not allowed: join the groups render and video",
    34: "the amdgpu driver is not loaded: sudo modprobe amdgpu",
    51: "there is no amdgpu driver here",
}


def backend(*, host: str, say: Say = unheard, amdsmi: Any = None) -> VendorBackend:
    """The backend; `amdsmi` is the binding, imported when it is None and a device is looked for."""
    library: list[Any] = [] if amdsmi is None else [amdsmi]
    names = Names()

    def find() -> list[VendorDevice]:
        if not library:
            library.append(_binding())
        return _devices(library[0])

    return VendorBackend(
        "amdsmi", find, lambda: questions(library[0], names), refused, host=host, say=say,
        close=lambda: _shut(library[0]),
    )  # fmt: skip


def _binding() -> Any:
    try:
        with contextlib.redirect_stdout(None):  # it prints that it finds no library
            return importlib.import_module("amdsmi")
    except ModuleNotFoundError:
        raise RuntimeError(
            "an AMD GPU is here, but not its binding: pip install 'gputop-live[amd]', with amdsmi of the version of "
            "the installed ROCm (or the one in /opt/rocm/share/amd_smi)"
        ) from None
    except (Exception, SystemExit) as error:
        raise RuntimeError(
            f"an AMD GPU is here, but its binding can't be loaded ({type(error).__name__}: {error}): install ROCm's "
            "amd-smi-lib, and amdsmi of the same version"
        ) from None


def _shut(amdsmi: Any) -> None:
    with contextlib.suppress(Exception):
        amdsmi.amdsmi_shut_down()


def _devices(amdsmi: Any) -> list[VendorDevice]:
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
    except Exception as error:
        code = code_of(error)
        raise RuntimeError(f"AMD's library does not start: {MENDS.get(code or 0, str(error))}") from None
    found = []
    for index, handle in enumerate(handles):
        try:
            uuid = clean(str(amdsmi.amdsmi_get_gpu_device_uuid(handle)), 96)
        except Exception:
            uuid = f"unknown-amd-{index}"
        found.append(VendorDevice(handle, index, uuid))
    return found


def code_of(error: Exception) -> int | None:
    """The library's code of an error, None when it is no error of the library's."""
    value = getattr(error, "err_code", None)
    return value if isinstance(value, int) else None


def refused(error: Exception) -> bool:
    """Whether an error means "not supported"."""
    code = code_of(error)
    if code is None:
        return isinstance(error, Unsupported | AttributeError | KeyError) and not isinstance(error, Failed)
    return code in UNSUPPORTED


def known(value: Any) -> float | None:
    """A figure, None where it is a sentinel."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value in SENTINELS or value < 0:
        return None
    return value


def questions(amdsmi: Any, names: Names) -> Sequence[Question[VendorDevice]]:
    """Everything asked of a device."""

    def activity(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_gpu_activity(device.handle)
        return {"util_pct": share(found["gfx_activity"]), "mem_util_pct": share(found["umc_activity"])}

    def memory(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_gpu_vram_usage(device.handle)
        used, total = known(found["vram_used"]), known(found["vram_total"])
        return {"mem_used_bytes": _scaled(used, MIB), "mem_total_bytes": _scaled(total, MIB)}

    def power(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_power_info(device.handle)
        fields = ("current_socket_power", "average_socket_power", "socket_power")
        value = next((one for field in fields if (one := known(found.get(field))) is not None), None)
        return {"power_w": Unsupported if value is None else value}

    def limits(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_power_cap_info(device.handle)
        return {"power_limit_w": watts(found["power_cap"]), "power_limit_default_w": watts(found["default_power_cap"])}

    def temperature(device: VendorDevice) -> dict[str, Any]:
        kinds, metrics = amdsmi.AmdSmiTemperatureType, amdsmi.AmdSmiTemperatureMetric
        now = amdsmi.amdsmi_get_temp_metric(device.handle, kinds.HOTSPOT, metrics.CURRENT)
        return {"temp_c": degrees(now)}

    def slowdown(device: VendorDevice) -> dict[str, Any]:
        kinds, metrics = amdsmi.AmdSmiTemperatureType, amdsmi.AmdSmiTemperatureMetric
        return {
            "temp_slowdown_c": degrees(amdsmi.amdsmi_get_temp_metric(device.handle, kinds.HOTSPOT, metrics.CRITICAL))
        }

    def clock(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_clock_info(device.handle, amdsmi.AmdSmiClkType.GFX)
        return {"sm_clock_mhz": known(found["clk"]), "sm_clock_max_mhz": known(found["max_clk"])}

    def energy(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_energy_count(device.handle)
        count, unit = known(found["energy_accumulator"]), known(found["counter_resolution"])
        return {"energy_j": None if count is None or unit is None else count * unit / 1e6}

    def pcie(device: VendorDevice) -> dict[str, Any]:
        found = amdsmi.amdsmi_get_pcie_info(device.handle)
        return {
            "pcie_width": known(found["pcie_metric"]["pcie_width"]),
            "pcie_width_max": known(found["pcie_static"]["max_pcie_width"]),
        }

    def processes(device: VendorDevice) -> dict[str, Any]:
        listed = [
            (int(one["pid"]), known(one.get("memory_usage", {}).get("vram_mem")))
            for one in amdsmi.amdsmi_get_gpu_process_list(device.handle)
        ]
        listed.sort(key=lambda one: -(one[1] or 0))
        return {"processes": [names.of(pid, None if size is None else int(size)) for pid, size in listed[:MOST]]}

    def name(device: VendorDevice) -> dict[str, Any]:
        return {"name": clean(str(amdsmi.amdsmi_get_gpu_asic_info(device.handle)["market_name"]), 96)}

    def address(device: VendorDevice) -> dict[str, Any]:
        return {"gpu_pci": clean(str(amdsmi.amdsmi_get_gpu_device_bdf(device.handle)), 32)}

    return [
        Question("amdsmi_get_gpu_activity", ["util_pct", "mem_util_pct"], activity),
        Question("amdsmi_get_gpu_vram_usage", ["mem_used_bytes", "mem_total_bytes"], memory),
        Question("amdsmi_get_power_info", ["power_w"], power),
        Question("amdsmi_get_temp_metric", ["temp_c"], temperature),
        Question("amdsmi_get_clock_info", ["sm_clock_mhz", "sm_clock_max_mhz"], clock),
        Question("amdsmi_get_energy_count", ["energy_j"], energy, SLOW_NS),
        Question("amdsmi_get_gpu_process_list", ["processes"], processes, SLOW_NS),
        Question("amdsmi_get_pcie_info", ["pcie_width", "pcie_width_max"], pcie, RARE_NS),
        Question("amdsmi_get_power_cap_info", ["power_limit_w", "power_limit_default_w"], limits, RARE_NS),
        Question("amdsmi_get_temp_metric critical", ["temp_slowdown_c"], slowdown, ONCE),
        Question("amdsmi_get_gpu_asic_info", ["name"], name, ONCE),
        Question("amdsmi_get_gpu_device_bdf", ["gpu_pci"], address, ONCE),
    ]


def share(value: Any) -> Any:
    """A percentage; Unsupported where the device doesn't know it, Failed where it can't be true."""
    number = known(value)
    if number is None:
        return Unsupported
    return number if number <= 100 else Failed


def watts(value: Any) -> float | None:
    """A power limit in watts: releases differ in whether it comes in watts or in millionths."""
    number = known(value)
    if not number:
        return None
    return number / 1e6 if number > 100_000 else number


def degrees(value: Any) -> float | None:
    """A temperature in degrees: releases differ in whether it comes in degrees or in thousandths."""
    number = known(value)
    if number is None:
        return None
    return number / 1000 if number > 1000 else number


def _scaled(value: float | None, unit: int) -> int | None:
    return None if value is None else int(value) * unit
