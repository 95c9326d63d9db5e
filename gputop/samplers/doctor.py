"""What works here of the samplers and what doesn't, each with its mend. Every check returns; none raises."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gputop.records import Gpu, Sampler
from gputop.samplers import backends, cgroup, nvml_library, nvml_sleep, proc
from gputop.samplers.attach import tool
from gputop.samplers.host_fields import Machine
from gputop.samplers.nvml import NvmlBackend
from gputop.samplers.nvml_library import Absent, code_of, text
from gputop.samplers.protocol import GpuBackend, S, unheard
from gputop.wire import cards

PATIENCE_S = 10.0
"""How long a driver may take to answer: without persistence mode it initialises for seconds a GPU."""

SLOW_ROUND_MS = 200.0
"""Time in the driver for one round of questions from which a second between two rounds is tight."""


class Check(msgspec.Struct, frozen=True):
    """One thing looked at. `state` is "ok", "warn" (something is lost), "fail" (a main thing is) or "info"."""

    name: str
    state: str
    finding: str
    mend: str | None = None


def checks() -> list[Check]:
    """Everything the samplers need, in the order to be read."""
    found = in_time(nvml, "NVML")
    if any(check.name == "NVML" and check.state == "ok" for check in found):
        found += in_time(gpu_figures, "GPU figures")
    found += in_time(other_vendors, "other GPUs")
    for ask in (psutil_works, proc_readable, pressure, cpu_limit, stack_sampling):
        found += asked(ask)
    return found


def nvml(load: Callable[[], Any] = nvml_library.binding, root: Path = Path("/")) -> list[Check]:
    """The binding, the library, the driver and each device. No NVIDIA GPU at all is no failure: the rest works. A GPU
    that sleeps, as the /sys of `root` tells, is not woken."""
    try:
        module = load()
    except Absent as absent:
        finding, _, mend = str(absent).partition(": ")
        return [Check("NVML binding", "fail", finding, mend or None)]
    found = [Check("NVML binding", "ok", f"nvidia-ml-py at {getattr(module, '__file__', '?')}")]
    if nvml_sleep.Sleep(root / "sys", root / "proc").asleep():
        return [*found, Check("NVML", "info", nvml_sleep.WHY, "`nvidia-smi` wakes it, to have it checked")]
    try:
        nvml_library.start(module)
    except Absent as absent:
        finding, _, mend = str(absent).partition(": ")
        state = "warn" if absent.code in nvml_library.NO_DEVICE_CODES else "fail"
        return [*found, Check("NVML", state, finding, mend or None)]
    try:
        found.append(Check("NVML", "ok", f"driver {_driver(module)}"))
        found += _devices(module)
    finally:
        with contextlib.suppress(Exception):
            module.nvmlShutdown()
    return found


VENDORS = {"amd": "AMD GPUs", "intel": "Intel GPUs", "apple": "Apple GPU"}


def other_vendors(names: list[str] | None = None) -> list[Check]:
    """GPUs of other vendors that the kernel shows (or those named): whether their backend, which is experimental, sees
    them."""
    found = []
    for name in backends.vendors() if names is None else names:
        if name not in VENDORS:
            continue
        backend = backends.here(host="", say=unheard, names=[name])
        backend.open()
        try:
            records = backend.sample(S)
        finally:
            backend.close()
        rows = [record for record in records if isinstance(record, Gpu)]
        lacking = sorted({field for row in rows for field in (*(row.unsupported or ()), *(row.failed or ()))})
        if rows:
            said = f"{len(rows)} found (experimental)" + (f"; without {', '.join(lacking)}" if lacking else "")
            found.append(Check(VENDORS[name], "ok", said))
        else:
            why = next((record.why for record in records if isinstance(record, Sampler) and record.why), "none answers")
            finding, _, mend = why.rpartition(": ")
            found.append(Check(VENDORS[name], "warn", finding or mend, mend if finding else None))
    return found


def _driver(module: Any) -> str:
    try:
        return str(module.nvmlSystemGetDriverVersion())
    except Exception as error:
        return f"of unknown version ({error})"


def _devices(module: Any) -> list[Check]:
    try:
        count = module.nvmlDeviceGetCount()
    except Exception as error:
        return [Check("GPUs", "fail", nvml_library.sentence(code_of(error) or 0, str(error)))]
    if not count:
        finding, _, mend = nvml_library.NO_DEVICES.partition(": ")
        return [Check("GPUs", "warn", finding, mend)]
    return [_device(module, index) for index in range(count)]


def _device(module: Any, index: int) -> Check:
    name = f"GPU {index}"
    try:
        handle = module.nvmlDeviceGetHandleByIndex(index)
        found = text(module.nvmlDeviceGetName, handle)
    except Exception as error:
        code = code_of(error)
        mend = {
            nvml_library.NO_PERMISSION: f"give this user access to /dev/nvidia{index}",
            nvml_library.RESET_REQUIRED: f"end what runs on it, then: sudo nvidia-smi --gpu-reset -i {index}",
            nvml_library.GPU_IS_LOST: "it fell off the bus: `dmesg | grep -i xid`, then reboot or reset it",
        }.get(code or 0)
        return Check(name, "fail", f"can't be opened: {error}", mend)
    return Check(name, "ok", f"{found}; {_metrics(module, handle)}")


def _metrics(module: Any, handle: Any) -> str:
    """Whether the device counts what its SMs do (GPM): utilization alone only says that some kernel was there."""
    try:
        supported = bool(module.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except Exception as error:
        return f"no SM activity counters ({error})"
    return "SM activity counters (GPM)" if supported else "no SM activity counters (GPM comes with Hopper)"


def psutil_works() -> list[Check]:
    """The host's figures, and which this system does not have."""
    import psutil

    machine = Machine()
    machine.now_ns = 1
    machine.answers.gather(machine, 1, lambda _call: None)
    version = f"psutil {psutil.__version__}"
    if machine.answers.failed:
        return [Check("host figures", "warn", f"{version}; failed: {', '.join(sorted(machine.answers.failed))}")]
    if machine.answers.unsupported:
        lacking = ", ".join(sorted(machine.answers.unsupported))
        return [Check("host figures", "info", f"{version}; this system has no {lacking}")]
    return [Check("host figures", "ok", f"{version}; all of them")]


def proc_readable() -> list[Check]:
    """Whether other users' processes are to be seen: with hidepid they are not. Whether it is this pid namespace's."""
    if cards.foreign_proc():
        mend = "mount it in the namespace (`unshare --mount-proc`, `bwrap --proc /proc`)"
        return [
            Check("/proc", "warn", "it is another pid namespace's: its numbers are other processes than here", mend)
        ]
    try:
        proc.of(1)
    except FileNotFoundError:
        return [Check("/proc", "warn", "other users' processes are hidden (hidepid), or there is no /proc",
                      "run gputop as the user who trains")]  # fmt: skip
    except OSError as error:
        return [
            Check("/proc", "warn", f"process 1 can't be read: {error.strerror}", "run gputop as the user who trains")
        ]
    try:
        proc.io(os.getpid())
    except (OSError, KeyError):
        return [Check("/proc", "warn", "no I/O accounting: bytes read by workers stay unknown")]
    return [Check("/proc", "ok", "processes can be read")]


def pressure() -> list[Check]:
    """Pressure stall information: says whether anything waited for a CPU or a disk, however busy these look."""
    try:
        proc.read("/proc/pressure/cpu", 64)
    except FileNotFoundError:
        return [Check("pressure (PSI)", "info", "this kernel does not tell it", "boot with psi=1")]
    except OSError as error:
        return [Check("pressure (PSI)", "info", f"not to be read here: {error.strerror}")]
    return [Check("pressure (PSI)", "ok", "available")]


def cpu_limit() -> list[Check]:
    """The cores that this process may use: fewer than the machine has is a frequent surprise in containers and jobs."""
    cores = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    try:
        limit = cgroup.of("self")
    except OSError:
        return [Check("CPU limit", "info", f"{allowed} of {cores} cores; no control groups here")]
    if limit.quota_cores is not None and limit.quota_cores < allowed:
        return [Check("CPU limit", "warn", f"this control group may use {limit.quota_cores:g} of {cores} cores",
                      "give the container or job more CPUs if its data loading is slow")]  # fmt: skip
    if allowed < cores:
        return [Check("CPU limit", "warn", f"this process may run on {allowed} of {cores} cores (affinity)",
                      "ask for more CPUs (Slurm: --cpus-per-task) if data loading is slow")]  # fmt: skip
    return [Check("CPU limit", "ok", f"all {cores} cores")]


def stack_sampling() -> list[Check]:
    """py-spy and the right to use it, for processes that have no publisher."""
    where = tool.find()
    if where is None:
        return [Check("stack sampling", "info", "py-spy is not installed: `gputop attach` can't read other processes",
                      tool.INSTALL)]  # fmt: skip
    if tool.ptrace_scope() in (None, 0) or tool.has_capability(tool.CAP_SYS_PTRACE):
        return [Check("stack sampling", "ok", f"py-spy at {where}")]
    refused = tool.not_allowed(os.getpid())
    return [Check("stack sampling", "warn", f"py-spy is there, but {refused.why}", refused.mend)]


def in_time(ask: Callable[[], list[Check]], name: str, patience_s: float = PATIENCE_S) -> list[Check]:
    """What a check finds; where it does not answer in time, that, and the thread that it hangs in is left behind."""
    found: list[Check] = []
    thread = threading.Thread(target=lambda: found.extend(asked(ask)), name="gputop-doctor", daemon=True)
    thread.start()
    thread.join(patience_s)
    if thread.is_alive():
        mend = "look into `dmesg` for NVRM and Xid messages; other tools (`nvidia-smi`) hang too: reboot"
        return [*found, Check(name, "fail", f"the driver has not answered for {patience_s:g} s", mend)]
    return found


def asked(ask: Callable[[], list[Check]]) -> list[Check]:
    """What a check finds; a fault of its own is a failed check."""
    try:
        return ask()
    except Exception as error:
        return [Check(ask.__name__.replace("_", " "), "fail", f"{type(error).__name__}: {error}")]


class Round(msgspec.Struct, frozen=True):
    """One round of the GPU sampler's questions: each GPU's row, the time that it took, and by uuid why some failed."""

    rows: list[Gpu]
    ms: float
    why: dict[str, str] = {}


def one_round(backend: GpuBackend | None = None, pause: Callable[[float], None] = time.sleep) -> Round:
    """Ask every GPU everything, twice, so that rates are known; the second time is what a tick costs."""
    backend = backend or NvmlBackend(host="")
    backend.open()
    try:
        backend.sample(S)
        pause(0.15)
        began = time.perf_counter()
        rows = [record for record in backend.sample(4 * S) if isinstance(record, Gpu)]
        took_ms = 1000 * (time.perf_counter() - began)
        return Round(rows, took_ms, backend.why_failed() if isinstance(backend, NvmlBackend) else {})
    finally:
        backend.close()


def gpu_figures() -> list[Check]:
    """Which figures a GPU does not give, and what asking for all of them costs."""
    found = one_round()
    checks = []
    for row in found.rows:
        name, lacking, failed = f"GPU {row.gpu_index} figures", row.unsupported or [], row.failed or []
        if row.lost:
            checks.append(Check(name, "fail", "it is lost", "`dmesg | grep -i xid`, then reboot"))
        elif failed:
            why = found.why.get(row.gpu_uuid)
            checks.append(Check(name, "warn", f"asking failed for {', '.join(failed)}" + (f" ({why})" if why else "")))
        else:
            checks.append(Check(name, "ok", f"without {', '.join(lacking)}" if lacking else "all of them"))
    if found.rows:
        slow = found.ms > SLOW_ROUND_MS
        said = f"{found.ms:.1f} ms for one round of questions to {len(found.rows)} GPUs"
        mend = "gputop asks less often by itself; persistence mode helps: sudo nvidia-smi -pm 1" if slow else None
        checks.append(Check("sampling cost", "warn" if slow else "ok", said, mend))
    return checks
