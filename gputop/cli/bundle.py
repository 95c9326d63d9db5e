"""All that a bug report needs, as Markdown to be pasted: without user names, host names, paths and command lines."""

from __future__ import annotations

import getpass
import importlib.metadata
import json
import os
import platform
import socket
import sys
from collections.abc import Iterator

import msgspec

from gputop.recording.pseudonyms import Pseudonyms
from gputop.records import clean
from gputop.samplers import doctor, proc
from gputop.samplers.doctor import Check
from gputop.version import __version__

PACKAGES = (
    "gputop-live", "msgspec", "pyzmq", "nvidia-ml-py", "psutil", "textual", "click", "py-spy", "torch", "lightning",
    "transformers", "accelerate", "tensorflow", "keras", "jax", "numpy", "amdsmi",
)  # fmt: skip

VARIABLES = (
    "TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TMUX", "STY", "GPUTOP", "GPUTOP_NO_HOOKS",
    "GPUTOP_DIR", "GPUTOP_DIR_ONLY", "XDG_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST", "WSL_DISTRO_NAME",
)  # fmt: skip
SHOWN = frozenset(VARIABLES[:8]) | {"GPUTOP", "GPUTOP_NO_HOOKS", "GPUTOP_DIR_ONLY", "CUDA_DEVICE_ORDER"}
"""Of these the value is told; of the others only that they are set, since it may name a person, a place or a device."""

PRIVATE_FIELDS = ("processes", "mig", "host", "t", "gpu_pci")


class Bundle:
    """The report. `private`: nothing is replaced in it."""

    def __init__(self, checks: list[Check], *, private: bool) -> None:
        self._checks = checks
        self._private = private
        self._names = Pseudonyms()
        for name in {getpass.getuser() if "USER" in os.environ else "", *_owner()}:
            if name:
                self._names.user(name)
        self._names.host(socket.gethostname())

    def text(self) -> str:
        """The whole of it."""
        parts = [("checks", self._lines()), ("machine", _machine()), ("environment", self._environment()),
                 ("packages", _packages()), ("GPUs", self._gpus())]  # fmt: skip
        out = [f"## gputop {__version__} doctor\n"]
        for title, lines in parts:
            out += [f"\n### {title}\n\n```", *(f"\n{self._clean(line)}" for line in lines), "\n```\n"]
        return "".join(out)

    def _clean(self, line: str) -> str:
        line = clean(line, 2000).replace("```", "'''")
        return line if self._private else self._names.text(line)

    def _lines(self) -> Iterator[str]:
        for check in self._checks:
            finding = check.finding
            if check.name == "training" and not self._private:
                finding = "one with a publisher"  # not what is trained
            yield f"{check.state:4}  {check.name}: {finding}" + (f" -> {check.mend}" if check.mend else "")

    def _environment(self) -> Iterator[str]:
        for name in VARIABLES:
            if (value := os.environ.get(name)) is not None:
                yield f"{name}={value}" if self._private or name in SHOWN else f"{name} is set{_shape(name, value)}"

    def _gpus(self) -> Iterator[str]:
        """Each GPU's row as the sampler has it, without its processes."""
        if not any(check.name == "sampling cost" for check in self._checks):
            yield "none that answers"
            return
        for row in doctor.one_round().rows:
            figures = {name: value for name, value in msgspec.to_builtins(row).items() if name not in PRIVATE_FIELDS}
            yield json.dumps(figures)


def _shape(name: str, value: str) -> str:
    """How a list of devices is written, without naming one."""
    if not name.endswith("VISIBLE_DEVICES"):
        return ""
    parts = [part.strip() for part in value.split(",")]
    kinds = {"a number" if one.isdecimal() else one[:3] if one[:4] in ("GPU-", "MIG-") else "a word" for one in parts}
    return f" ({len(parts)}: {', '.join(sorted(kinds))})" if value.strip() else " and empty"


def _owner() -> Iterator[str]:
    yield proc.user(os.getpid()) or ""
    yield os.path.basename(os.path.expanduser("~"))


def _packages() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _machine() -> Iterator[str]:
    yield f"Python {sys.version.split()[0]} ({platform.python_implementation()}), {platform.platform()}"
    yield f"{platform.machine()}, {os.cpu_count()} cores" + (f", {model}" if (model := _cpu()) else "")
    yield "pid namespace: " + ("that of the machine" if _initial_namespace() else "that of a container")
    for name, file in (("container", "/.dockerenv"), ("container", "/run/.containerenv"), ("NVIDIA driver", NVIDIA)):
        if os.path.exists(file):
            yield f"{name}: {_first(file) or os.path.basename(file)}"


NVIDIA = "/proc/driver/nvidia/version"
INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""Its inode on every machine (the kernel's proc_ns.h, PROC_PID_INIT_INO)."""


def _initial_namespace() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino == INITIAL_PID_NAMESPACE
    except OSError:
        return True


def _cpu() -> str | None:
    try:
        lines = proc.read("/proc/cpuinfo", 4096).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _first(path: str) -> str | None:
    try:
        return proc.read(path, 512).decode("utf-8", "replace").splitlines()[0]
    except (OSError, IndexError):
        return None
