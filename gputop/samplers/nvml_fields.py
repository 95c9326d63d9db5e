"""Every field that is asked of a device: the call, how often it is made, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.records import clean
from gputop.samplers import nvml_bursts, nvml_gpm, nvml_processes, proc
from gputop.samplers.asking import ALWAYS, ONCE, RARE_NS, SLOW_NS, Failed, Question, Unsupported
from gputop.samplers.nvml_device import Device, pci_id
from gputop.samplers.nvml_library import FUNCTION_NOT_FOUND, UNKNOWN, code_of, refused, text
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

SLOWDOWN, SLOWDOWN_WHY = 0x8, 0xC0
"""The hardware slowdown, and the bits that say why there is one (heat, the power brake). Without these it may flash
when a device changes its performance state, so alone it counts from the second look in a row on."""

THROTTLE_FIELDS = {74: "power_cap", 75: "thermal_sw", 76: "sync_boost"}
"""Cumulative counters in ns by field id. Only ids that mean the same in every header: those of the hardware reasons
are 251 to 253 in CUDA 12's, 269 to 271 in CUDA 13's, and each of these means something else in the other."""

ALL_LINKS = 0xFFFFFFFF
"""The scope that sums a field over all NVLinks of a device (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)."""

RATE_FIELDS = {
    "pcie_tx_bytes_s": (197, 0, 1),
    "pcie_rx_bytes_s": (198, 0, 1),
    "nvlink_tx_bytes_s": (138, ALL_LINKS, 1024),
    "nvlink_rx_bytes_s": (139, ALL_LINKS, 1024),
}
"""Cumulative counters as (field, scope, bytes in its unit): PCIE_COUNT_TX/RX_BYTES, NVLINK_THROUGHPUT_DATA_TX/RX. Not
as nvmlDeviceGetPcieThroughput, which blocks 20 ms a direction, they cost nothing to read. NVLink 5's own ones are of
single links: there GPM tells."""

POWER_INSTANT_FIELD, MEMORY_TEMP_FIELD = 186, 82
"""Power now in mW (nvmlDeviceGetPowerUsage is a mean over a second on most devices from Ampere on); degrees."""

WANTED: list[Any] = [
    *THROTTLE_FIELDS, POWER_INSTANT_FIELD, MEMORY_TEMP_FIELD,
    *((field, scope) for field, scope, _ in RATE_FIELDS.values()),
]  # fmt: skip

NVML_TEMPERATURE_GPU = 0
NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
NVML_CLOCK_SM = 1

ADDRESSING_ATS = 2
"""nvmlDeviceAddressingModeType: CPU and GPU share page tables, so the GPU may have no memory of its own to report."""

MOST_W, MOST_C, MOST_MHZ, MOST_LINK = 20_000.0, 250.0, 20_000.0, 256.0
"""No device draws, is as hot, runs at or has (lanes, generations) more: a driver that says so tells garbage."""

MOST_BYTES_S = 1e14
"""More bytes a second than this go over no link: a counter that has jumped."""

MOST_BYTES = 1 << 50

MEMORY = ("mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes", "mem_shared")
COUNTERS = (
    "throttled_ns", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s", "power_instant_w",
    "mem_temp_c",
)  # fmt: skip


def questions() -> list[Question[Device]]:
    """Everything asked of a device: gauges at each tick, what moves slowly every few seconds, what is fixed once."""
    return [
        Question("nvmlDeviceGetMemoryInfo", MEMORY, _memory),  # tells what utilization of memory means
        Question("nvmlDeviceGetUtilizationRates", ["util_pct", "mem_util_pct"], _utilization),
        Question("nvmlDeviceGetSamples", ["burst"], _burst),
        _figure("nvmlDeviceGetPowerUsage", "power_w", MOST_W, scale=1000),
        _figure("nvmlDeviceGetTemperature", "temp_c", MOST_C, NVML_TEMPERATURE_GPU),
        _figure("nvmlDeviceGetClockInfo", "sm_clock_mhz", MOST_MHZ, NVML_CLOCK_SM),
        Question("nvmlDeviceGetCurrentClocksEventReasons", ["throttle"], _throttle),
        Question("nvmlGpmSampleGet", tuple(nvml_gpm.SHARES), _gpm),
        Question("nvmlDeviceGetFieldValues", COUNTERS, _counters),
        _figure("nvmlDeviceGetTotalEnergyConsumption", "energy_j", float("inf"), scale=1000),
        _coder("nvmlDeviceGetEncoderUtilization", "enc_pct"),
        _coder("nvmlDeviceGetDecoderUtilization", "dec_pct"),
        Question("nvmlDeviceGetRunningProcesses", ["processes"], _processes, SLOW_NS),
        Question("nvmlEventSetWait", ["xid", "xid_ns"], _xid, SLOW_NS),
        Question("nvmlDeviceGetMigMode", ["mig"], _mig, RARE_NS),
        _figure("nvmlDeviceGetCurrPcieLinkGeneration", "pcie_gen", MOST_LINK, every_ns=SLOW_NS),
        _figure("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width", MOST_LINK, every_ns=SLOW_NS),
        _figure("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w", MOST_W, every_ns=RARE_NS, scale=1000),
        _figure("nvmlDeviceGetPowerManagementDefaultLimit", "power_limit_default_w", MOST_W, every_ns=ONCE, scale=1000),
        _figure(
            "nvmlDeviceGetTemperatureThreshold", "temp_slowdown_c", MOST_C, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
            every_ns=ONCE,
        ),
        _figure("nvmlDeviceGetMaxClockInfo", "sm_clock_max_mhz", MOST_MHZ, NVML_CLOCK_SM, every_ns=ONCE),
        _figure("nvmlDeviceGetMaxPcieLinkGeneration", "pcie_gen_max", MOST_LINK, every_ns=ONCE),
        _figure("nvmlDeviceGetMaxPcieLinkWidth", "pcie_width_max", MOST_LINK, every_ns=ONCE),
        Question("nvmlDeviceGetName", ["name"], _name, ONCE),
        Question("nvmlDeviceGetPciInfo", ["gpu_pci"], _pci, ONCE),
    ]  # fmt: skip


def _figure(call: str, field: str, most: float, *args: int, every_ns: int = ALWAYS, scale: int = 1) -> Question[Device]:
    """A call that returns one number, `scale` times the field's unit; more than `most` is not believed."""

    def ask(device: Device) -> dict[str, Any]:
        value = getattr(device.nvml, call)(device.handle, *args)
        return {field: _believed(value / scale if scale != 1 else value, most)}

    return Question(call, [field], ask, every_ns)


def _coder(call: str, field: str) -> Question[Device]:
    """A call that returns [percent, sampling period]."""

    def ask(device: Device) -> dict[str, Any]:
        return {field: _share(getattr(device.nvml, call)(device.handle)[0])}

    return Question(call, [field], ask, SLOW_NS)


def _believed(value: float, most: float) -> Any:
    """A figure; Failed where it can't be true."""
    return value if 0 <= value <= most else Failed


def _share(value: int) -> Any:
    """A percentage; Failed where it is none."""
    return _believed(int(value), 100)


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
    flash = bits & SLOWDOWN and not bits & SLOWDOWN_WHY and not device.slowed
    device.slowed = bool(bits & SLOWDOWN)
    return {"throttle": reasons(bits & ~SLOWDOWN if flash else bits)}


def reasons(bits: int) -> list[str]:
    """The names of the set bits of nvmlClocksEventReasons, each once."""
    names = [name for bit, name in THROTTLE_BITS.items() if bits & bit]
    if bits & ~sum(THROTTLE_BITS):
        names.append("other")
    return list(dict.fromkeys(names))


def _counters(device: Device) -> dict[str, Any]:
    """Time spent throttled, power now, and the bytes a second over the links since the last tick (a counter that wraps
    or restarts costs one tick's rate); the rates that GPM gives where there are no counters."""
    values = device.nvml.nvmlDeviceGetFieldValues(device.handle, WANTED)
    got = {value.fieldId: _number(device.nvml, value) for value in values if value.nvmlReturn == 0}
    throttled = {name: got[field] for field, name in THROTTLE_FIELDS.items() if field in got}
    power, temperature = got.get(POWER_INSTANT_FIELD), got.get(MEMORY_TEMP_FIELD)
    answer: dict[str, Any] = {
        "throttled_ns": throttled or Unsupported,
        "power_instant_w": Unsupported if power is None else _believed(power / 1000, MOST_W),
        # without a sensor some devices answer 0
        "mem_temp_c": _believed(temperature, MOST_C) if temperature else Unsupported,
    }
    for name, (field, _, unit) in RATE_FIELDS.items():
        if field in got:
            answer[name] = _rate(device, name, got[field] * unit)
        else:
            answer[name] = device.gpm_rates.get(name, Unsupported)
    return answer


def _rate(device: Device, name: str, count: int) -> float | None:
    before = device.counters.get(name)
    device.counters[name] = (device.now_ns, count)
    if before is None or device.now_ns <= before[0] or count < before[1]:
        return None
    rate = (count - before[1]) * S / (device.now_ns - before[0])
    return rate if rate <= MOST_BYTES_S else None


def _number(nvml: Any, value: Any) -> int:
    """A field's value by the type that it says it has: a smaller one leaves the rest of the union as it was."""
    member = "uiVal" if value.valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_INT else "ullVal"
    return int(getattr(value.value, member))


def _gpm(device: Device) -> dict[str, Any]:
    device.gpm_rates = {}
    found = device.gpm.ask(device.handle, device.now_ns)
    device.gpm_rates = {name: found[name] for name in nvml_gpm.RATES if isinstance(found.get(name), float)}
    return {name: found[name] for name in nvml_gpm.SHARES if name in found}


def _mig(device: Device) -> dict[str, Any]:
    return {"mig": device.instances.ask(device.handle, device.now_ns, device.say, device.pid_limit) or None}


def _xid(device: Device) -> dict[str, Any]:
    device.notice(device.events.ask(device.handle, device.say))
    return {"xid": device.xid, "xid_ns": device.xid_ns}


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
    if not info.used <= info.total <= MOST_BYTES or (reserved is not Unsupported and reserved > info.total):
        raise Failed("more memory in use than there is")
    return {"mem_used_bytes": int(info.used), "mem_total_bytes": int(info.total), "mem_reserved_bytes": reserved}


def _shares_host_memory(device: Device) -> bool:
    """Whether a GPU that has no memory of its own to tell of uses the host's: the driver says so, or is one that can't
    say (a Jetson's); every card with memory of its own tells it."""
    device.say("nvmlDeviceGetAddressingMode")
    ask: Callable[[Any], int] | None = getattr(device.nvml, "nvmlDeviceGetAddressingMode", None)
    try:
        return ask is None or ask(device.handle) == ADDRESSING_ATS
    except Exception as error:
        refused(error)
        return code_of(error) == FUNCTION_NOT_FOUND


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
    try:
        used = device.usage.ask(device.nvml, device.handle, device.say, {pid for pid, _ in kept}) if kept else {}
    except Exception as error:
        refused(error)  # who is there is known all the same
        used = None
    return {"processes": [device.names.of(pid, size, (used or {}).get(pid)) for pid, size in kept]}
