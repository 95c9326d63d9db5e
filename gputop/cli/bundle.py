"""All that a bug report needs, as Markdown to be pasted: without user names, host names, paths and command lines."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import pwd
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gputop.recording.pseudonyms import Pseudonyms
from gputop.records import clean
from gputop.samplers import doctor, namespaces, proc
from gputop.samplers.doctor import Check
from gputop.version import __version__
from gputop.wire import places

PACKAGES = (
    "gputop-live", "msgspec", "pyzmq", "nvidia-ml-py", "psutil", "textual", "click", "py-spy", "torch", "lightning",
    "transformers", "accelerate", "tensorflow", "keras", "jax", "numpy", "amdsmi",
)  # fmt: skip

VARIABLES = (
    "TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "GPUTOP", "GPUTOP_NO_HOOKS", "TMUX", "STY",
    "GPUTOP_DIR", "GPUTOP_DIR_ONLY", "XDG_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST", "WSL_DISTRO_NAME",
)  # fmt: skip
SHOWN = frozenset(VARIABLES[:8]) | {"GPUTOP_DIR_ONLY", "CUDA_DEVICE_ORDER"}
"""Of these the value is told; of the others only that they are set, since it may name a person, a place or a device."""

PRIVATE_FIELDS = ("processes", "mig", "host", "t", "gpu_pci", "gpu_uuid")

PUBLIC = ("/dev/", "/proc/", "/sys/", "/usr/lib/wsl", "/opt/rocm")
"""Paths that are the same for everybody and belong to what a mend says."""

TELLING = frozenset({"pynvml.py", "__init__.py", "py-spy", "libnvidia-ml.so.1", "libamd_smi.so"})
"""Files whose names say what was found."""

_PATH = re.compile(r"""(["'])((?:~[\w.-]*)?/[^"'\n]*)\1|(?<![\w.~])((?:~[\w.-]*)?/[^\s"'<>|,;()\[\]{}]+(?<!:))""")
_AT = re.compile(r"[^\s@()<>\"']+@[^\s@()<>\"']+")
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|COOKIE")
_SLASH = "\0"
"""Stands for the slashes of a path that is kept, while the others are looked for."""

_LEAST = 6
"""Characters from which a value of the environment is looked for in what is told: shorter ones are in every text."""


class Bundle:
    """The report. `private`: nothing is replaced in it."""

    def __init__(self, checks: list[Check], *, private: bool) -> None:
        self._checks = checks
        self._private = private
        self._names = Pseudonyms()
        self._known = _known()
        for name in _owner():
            if name:
                self._names.user(name)
        for host in {socket.gethostname(), os.uname().nodename, os.environ.get("HOSTNAME", "")}:
            self._names.host(host)

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
        if self._private:
            return line
        for value in self._known:
            line = line.replace(value, "/P" if "/" in value else "(private)")
        line = _PATH.sub(_path, _AT.sub("(a user and host)", line))
        return self._names.text(line).replace(_SLASH, "/")

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
    """What this user is called: by the system, by the environment, by the home, in full."""
    for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME"):
        yield os.environ.get(name, "")
    yield proc.user(os.getpid()) or ""
    yield os.path.basename(os.path.expanduser("~"))
    with contextlib.suppress(KeyError, OSError):
        yield pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0].strip()


def _known() -> list[str]:
    """Paths that findings may hold, blanks and all, and what the environment keeps private; the longest first."""
    texts = {sys.prefix, sys.base_prefix, sys.executable, os.path.expanduser("~"), *sys.path, *map(str, _folders())}
    with contextlib.suppress(OSError):
        texts.add(os.getcwd())
    for name, value in os.environ.items():
        if "/" in value:
            texts |= {value, *value.split(":")}
        elif _SECRET.search(name) and len(value) >= _LEAST:
            texts.add(value)
    kept = {text.rstrip("/") for text in texts if text.count("/") != 1 or len(text) >= _LEAST}
    return sorted((text for text in kept if text and not text.startswith(PUBLIC)), key=len, reverse=True)


def _folders() -> list[Path]:
    return [path for path, _ in places.candidates()]


def _path(match: re.Match[str]) -> str:
    """What a path is replaced by."""
    path = match[2] or match[3]
    quote = match[1] or ""
    if path.startswith(PUBLIC) or path == "/proc":
        return f"{quote}{path}{quote}".replace("/", _SLASH)
    last = path.rstrip("/").rpartition("/")[2]
    return f"{quote}{last if last in TELLING else '(a path)'}{quote}"


def _packages() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _machine() -> Iterator[str]:
    yield f"Python {sys.version.split()[0]} ({platform.python_implementation()}), {platform.platform()}"
    yield f"{platform.machine()}, {os.cpu_count()} cores" + (f", {model}" if (model := _cpu()) else "")
    yield "pid namespace: " + ("that of a container" if namespaces.contained() else "that of the machine")
    for name, file in (("container", "/.dockerenv"), ("container", "/run/.containerenv"), ("NVIDIA driver", NVIDIA)):
        if os.path.exists(file):
            yield f"{name}: {(_first(file) if file == NVIDIA else None) or os.path.basename(file)}"


NVIDIA = "/proc/driver/nvidia/version"


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
