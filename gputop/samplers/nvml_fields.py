"""Every field that is asked of a device: the call, how often it is made, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.records import clean
from gputop.samplers import nvml_bursts, nvml_processes, proc
from gputop.samplers.asking import ALWAYS, ONCE, RARE_NS, SLOW_NS, Failed, Question, Unsupported
from gputop.samplers.nvml_device import Device, pci_id
from gputop.samplers.nvml_library import UNKNOWN, code_of, refused, text
from gputop.samplers.protocol import S

THROTTLE_BITS = {
    0x1: "idle",
    0x2: "app_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "thermal_sw",
    0x40: "thermal_hw",
    0x80: "power_brake",
    0x100: "app_clocks",
}
"""nvmlClocksEventReason bits (nvml.h); 0x100 is the display's clock setting. Unknown ones are "other"."""

THROTTLE_FIELDS = {74: "power_cap", 75: "thermal_sw", 76: "sync_boost"}
"""Cumulative counters in ns by field id. Only ids that mean the same in every header: those of the hardware reasons
are 251 to 253 in CUDA 12's, 269 to 271 in CUDA 13's, and each of these means something else in the other."""

PCIE_TX_FIELD, PCIE_RX_FIELD = 197, 198
"""Cumulative bytes; unlike nvmlDeviceGetPcieThroughput, which blocks 20 ms a direction, reading them costs nothing."""

NVML_TEMPERATURE_GPU = 0
NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
NVML_CLOCK_SM = 1

ADDRESSING_ATS = 2
"""nvmlDeviceAddressingModeType: CPU and GPU share page tables, so the GPU may have no memory of its own to report."""

MEMORY = ("mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes", "mem_shared")
COUNTERS = ("throttled_ns", "pcie_rx_bytes_s", "pcie_tx_bytes_s")


def questions() -> list[Question[Device]]:
    """Everything asked of a device: gauges at each tick, what moves slowly every few seconds, what is fixed once."""
    return [
        Question("nvmlDeviceGetUtilizationRates", ["util_pct", "mem_util_pct"], _utilization),
        Question("nvmlDeviceGetSamples", ["burst"], _burst),
        Question("nvmlDeviceGetMemoryInfo", MEMORY, _memory),
        _figure("nvmlDeviceGetPowerUsage", "power_w", scale=1000),
        _figure("nvmlDeviceGetTemperature", "temp_c", NVML_TEMPERATURE_GPU),
        _figure("nvmlDeviceGetClockInfo", "sm_clock_mhz", NVML_CLOCK_SM),
        Question("nvmlDeviceGetCurrentClocksEventReasons", ["throttle"], _throttle),
        Question("nvmlDeviceGetFieldValues", COUNTERS, _counters),
        _figure("nvmlDeviceGetTotalEnergyConsumption", "energy_j", scale=1000),
        _coder("nvmlDeviceGetEncoderUtilization", "enc_pct"),
        _coder("nvmlDeviceGetDecoderUtilization", "dec_pct"),
        Question("nvmlDeviceGetRunningProcesses", ["processes"], _processes, SLOW_NS),
        _figure("nvmlDeviceGetCurrPcieLinkGeneration", "pcie_gen", every_ns=SLOW_NS),
        _figure("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width", every_ns=SLOW_NS),
        _figure("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w", every_ns=RARE_NS, scale=1000),
        _figure("nvmlDeviceGetPowerManagementDefaultLimit", "power_limit_default_w", every_ns=ONCE, scale=1000),
        _figure(
            "nvmlDeviceGetTemperatureThreshold", "temp_slowdown_c", NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, every_ns=ONCE
        ),
        _figure("nvmlDeviceGetMaxClockInfo", "sm_clock_max_mhz", NVML_CLOCK_SM, every_ns=ONCE),
        _figure("nvmlDeviceGetMaxPcieLinkGeneration", "pcie_gen_max", every_ns=ONCE),
        _figure("nvmlDeviceGetMaxPcieLinkWidth", "pcie_width_max", every_ns=ONCE),
        Question("nvmlDeviceGetName", ["name"], _name, ONCE),
        Question("nvmlDeviceGetPciInfo", ["gpu_pci"], _pci, ONCE),
    ]


def _figure(call: str, field: str, *args: int, every_ns: int = ALWAYS, scale: int = 1) -> Question[Device]:
    """A call that returns one number, `scale` times the field's unit."""

    def ask(device: Device) -> dict[str, Any]:
        value = getattr(device.nvml, call)(device.handle, *args)
        return {field: value / scale if scale != 1 else value}

    return Question(call, [field], ask, every_ns)


def _coder(call: str, field: str) -> Question[Device]:
    """A call that returns [percent, sampling period]."""

    def ask(device: Device) -> dict[str, Any]:
        return {field: _share(getattr(device.nvml, call)(device.handle)[0])}

    return Question(call, [field], ask, SLOW_NS)


def _share(value: int) -> int:
    """A percentage. Raises Failed when it is none."""
    if not 0 <= value <= 100:
        raise Failed(f"{value} % is no share")
    return int(value)


def _name(device: Device) -> dict[str, Any]:
    return {"name": clean(text(device.nvml.nvmlDeviceGetName, device.handle), 96)}


def _pci(device: Device) -> dict[str, Any]:
    return {"gpu_pci": pci_id(device.nvml.nvmlDeviceGetPciInfo(device.handle))}


def _utilization(device: Device) -> dict[str, Any]:
    rates = device.nvml.nvmlDeviceGetUtilizationRates(device.handle)
    # With shared memory the driver answers 0 without measuring.
    memory = Unsupported if device.mem_shared else _share(rates.memory)
    return {"util_pct": _share(rates.gpu), "mem_util_pct": memory}


def _burst(device: Device) -> dict[str, Any]:
    samples = nvml_bursts.ask(device.nvml, device.handle, device.placing.last_seen_us)
    device.burst = device.placing.place(samples, device.now_ns, device.host, device.uuid)
    return {}


def _throttle(device: Device) -> dict[str, Any]:
    nvml = device.nvml
    try:
        bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(device.handle)
    except Exception as error:
        # Drivers before 535 know the call by its old name only.
        if not refused(error):
            raise
        device.say("nvmlDeviceGetCurrentClocksThrottleReasons")
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device.handle)
    return {"throttle": reasons(bits)}


def reasons(bits: int) -> list[str]:
    """The names of the set bits of nvmlClocksEventReasons, each once."""
    names = [name for bit, name in THROTTLE_BITS.items() if bits & bit]
    if bits & ~sum(THROTTLE_BITS):
        names.append("other")
    return list(dict.fromkeys(names))


def _counters(device: Device) -> dict[str, Any]:
    """Time spent throttled, and the bytes a second over the PCIe link since the last tick (a counter that wraps or
    restarts costs one tick's rate)."""
    wanted = [*THROTTLE_FIELDS, PCIE_TX_FIELD, PCIE_RX_FIELD]
    values = device.nvml.nvmlDeviceGetFieldValues(device.handle, wanted)
    got = {value.fieldId: int(value.value.ullVal) for value in values if value.nvmlReturn == 0}
    throttled = {name: got[field] for field, name in THROTTLE_FIELDS.items() if field in got}
    answer: dict[str, Any] = {"throttled_ns": throttled or Unsupported}
    if PCIE_TX_FIELD not in got or PCIE_RX_FIELD not in got:
        return {**answer, "pcie_rx_bytes_s": Unsupported, "pcie_tx_bytes_s": Unsupported}
    before, now = device.pcie, (device.now_ns, got[PCIE_RX_FIELD], got[PCIE_TX_FIELD])
    device.pcie = now
    if before is not None and now[0] > before[0]:
        seconds = (now[0] - before[0]) / S
        for at, field in ((1, "pcie_rx_bytes_s"), (2, "pcie_tx_bytes_s")):
            if now[at] >= before[at]:
                answer[field] = (now[at] - before[at]) / seconds
    return answer


def _memory(device: Device) -> dict[str, Any]:
    """Used without what the driver reserves (the older call can't tell them apart); host RAM, marked as shared, where
    the GPU has no memory of its own."""
    nvml, handle = device.nvml, device.handle
    reserved: Any = Unsupported
    try:
        info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        reserved = int(info.reserved)
    except Exception as error:
        # UNKNOWN is what the newer call answers under WSL.
        if not refused(error) and code_of(error) != UNKNOWN:
            raise
        try:
            info = nvml.nvmlDeviceGetMemoryInfo(handle)
        except Exception as second:
            if not refused(second) or not _shares_host_memory(device):
                raise
            info = None
    device.mem_shared = info is None or not info.total
    if device.mem_shared:
        return _host_memory()
    return {"mem_used_bytes": int(info.used), "mem_total_bytes": int(info.total), "mem_reserved_bytes": reserved}


def _shares_host_memory(device: Device) -> bool:
    device.say("nvmlDeviceGetAddressingMode")
    ask: Callable[[Any], int] | None = getattr(device.nvml, "nvmlDeviceGetAddressingMode", None)
    try:
        return ask is not None and ask(device.handle) == ADDRESSING_ATS
    except Exception as error:
        refused(error)
        return False


def _host_memory() -> dict[str, Any]:
    """Host RAM: used is what is not available, since the page cache gives way."""
    figures = {}
    for line in proc.read("/proc/meminfo", 8192).splitlines():
        name, _, value = line.partition(b":")
        figures[name] = int(value.split()[0]) * 1024
    total, free = figures[b"MemTotal"], figures[b"MemAvailable"]
    return {
        "mem_shared": True,
        "mem_total_bytes": total,
        "mem_used_bytes": total - free,
        "mem_reserved_bytes": Unsupported,
    }


def _processes(device: Device) -> dict[str, Any]:
    rows = nvml_processes.ask(device.nvml, device.handle, device.say)
    total = device.answers.values.get("mem_total_bytes")
    kept = nvml_processes.checked(rows, device.pid_limit, total)
    return {"processes": [device.names.of(pid, used) for pid, used in kept]}
