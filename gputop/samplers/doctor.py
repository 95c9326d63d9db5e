"""What works here of the samplers and what doesn't, each with its mend. Every check returns; none raises."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from typing import Any

import msgspec

from gputop.samplers import cgroup, nvml_library, proc
from gputop.samplers.host_fields import Machine
from gputop.samplers.nvml_library import Absent, code_of, text

CAP_SYS_PTRACE = 19
"""The capability's bit (linux/capability.h): with it any process of ours to see may be traced."""

PTRACE_SCOPES = {
    0: "any process of the same user may be traced",
    1: "only children may be traced",
    2: "only an administrator may trace",
    3: "nobody may trace until the next boot",
}
"""Yama's ptrace_scope (source: the kernel's admin-guide/LSM/Yama)."""


class Check(msgspec.Struct, frozen=True):
    """One thing looked at. `state` is "ok", "warn" (something is lost), "fail" (a main thing is) or "info"."""

    name: str
    state: str
    finding: str
    mend: str | None = None


def checks() -> list[Check]:
    """Everything the samplers need, in the order to be read."""
    found: list[Check] = []
    for ask in (nvml, psutil_works, proc_readable, pressure, cpu_limit, stack_sampling):
        try:
            found += ask()
        except Exception as error:
            found.append(Check(ask.__name__.replace("_", " "), "fail", f"{type(error).__name__}: {error}"))
    return found


def nvml(load: Callable[[], Any] = nvml_library.binding) -> list[Check]:
    """The binding, the library, the driver and each device. No NVIDIA GPU at all is no failure: the rest works."""
    try:
        module = load()
    except Absent as absent:
        finding, _, mend = str(absent).partition(": ")
        return [Check("NVML binding", "fail", finding, mend or None)]
    found = [Check("NVML binding", "ok", f"nvidia-ml-py at {getattr(module, '__file__', '?')}")]
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
        module.nvmlShutdown()
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
    """Whether other users' processes are to be seen: with hidepid they are not."""
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
    where = shutil.which("py-spy")
    if where is None and importlib.util.find_spec("py_spy") is None:
        return [Check("stack sampling", "info", "py-spy is not installed: stacks of other processes can't be sampled",
                      "pip install 'gputop-live[attach]'")]  # fmt: skip
    scope = _ptrace_scope()
    if scope in (None, 0) or _has_capability(CAP_SYS_PTRACE):
        return [Check("stack sampling", "ok", f"py-spy at {where}")]
    return [Check("stack sampling", "warn", f"py-spy is there, but {PTRACE_SCOPES.get(scope, 'tracing is restricted')}",
                  "sudo sysctl kernel.yama.ptrace_scope=0, or in a container --cap-add=SYS_PTRACE")]  # fmt: skip


def _ptrace_scope() -> int | None:
    try:
        return int(proc.read("/proc/sys/kernel/yama/ptrace_scope", 8))
    except (OSError, ValueError):
        return None


def _has_capability(bit: int) -> bool:
    try:
        for line in proc.read("/proc/self/status", 4096).splitlines():
            if line.startswith(b"CapEff:"):
                return bool(int(line.split()[1], 16) >> bit & 1)
    except (OSError, ValueError):
        pass
    return False
