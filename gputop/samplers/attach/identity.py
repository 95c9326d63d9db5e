"""Who a process is, from the outside: its `run` record, by what /proc tells of it."""

from __future__ import annotations

import contextlib
import os
import re

from gputop import visible
from gputop.records import SCHEMA, Run, clean
from gputop.samplers import proc

MAX_ARGV = 64
MAX_ARG = 512

FRAMEWORKS = ((b"libtorch_python", "torch"), (b"_pywrap_tensorflow", "tensorflow"), (b"jaxlib", "jax"))
"""A library that a process has loaded, and the framework that it shows."""

AMD = b"libamdhip64"
"""The library by which a process uses AMD's GPUs."""

RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")


def run_id(pid: int, start: int) -> str:
    """The same for every viewer, and no other process's: its pid and when it started."""
    return f"{pid:x}-{start:x}-attached"


def describe(pid: int, *, t: int, host: str, cmdline: bool = True) -> Run:
    """The run as /proc shows it. Raises OSError or ValueError when the process is gone."""
    stat = proc.of(pid)
    argv = proc.arguments(pid)
    env = environment(pid)
    shown = visible.in_force(env, amd=_loads(pid, AMD))
    named = visible.entries(shown) if shown is not None else None
    ours, numbered = _same_devices(pid, env), bool(named and named[0].isdigit())
    return Run(
        t=t, run_id=run_id(pid, stat.start), pid=pid, host=host, schema=SCHEMA, start_ns=t,
        start_ticks=stat.start,
        script=clean(script(argv) or stat.name, 200),
        argv=[clean(word, MAX_ARG) for word in argv[:MAX_ARGV]] if cmdline else None,
        user=proc.user(pid) if cmdline else None, python=python(pid), framework=framework(pid),
        cuda_visible=clean(shown, MAX_ARG) if shown is not None and (ours or not numbered) else None,
        cuda_order=clean(env["CUDA_DEVICE_ORDER"], 40) if ours and "CUDA_DEVICE_ORDER" in env else None,
        gpu_visible=len(named) if named is not None else None, cores=os.cpu_count(), cores_allowed=_allowed(pid),
        rank=_number(env, RANK), local_rank=_number(env, LOCAL_RANK), world_size=_number(env, WORLD_SIZE), sampled=True,
    )  # fmt: skip


def _same_devices(pid: int, env: dict[str, str]) -> bool:
    """Whether a process counts the GPUs as this one does: no container and no job of its own has been given some."""
    try:
        same = os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return False
    return same and env.get("SLURM_JOB_ID") == os.environ.get("SLURM_JOB_ID")


def script(argv: list[str]) -> str | None:
    """What is run, in a word: the script's file name, or the module's."""
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, None)
        if word == "-c":
            return None
        if word in ("-X", "-W"):
            next(words, None)
        elif not word.startswith("-"):
            return os.path.basename(word)
    return None


def environment(pid: int) -> dict[str, str]:
    """The environment that it was started with; {} where that is not ours to read."""
    found = {}
    with contextlib.suppress(OSError):
        for part in proc.read(f"/proc/{pid}/environ", 1 << 17).split(b"\0"):
            name, _, value = part.decode("utf-8", "replace").partition("=")
            found[name] = value
    return found


def framework(pid: int) -> str | None:
    """The framework whose library is loaded; None where none is, or that can't be seen."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            maps = file.read()
    except OSError:
        return None
    return next((name for mark, name in FRAMEWORKS if mark in maps), None)


def _loads(pid: int, mark: bytes) -> bool:
    """Whether a library is loaded; False where that can't be seen."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return mark in file.read()
    except OSError:
        return False


def python(pid: int) -> str | None:
    """Its Python's version, as its program or library is called; None where the name doesn't tell."""
    names = [proc.executable(pid) or ""]
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as file:
        names += [line.decode("utf-8", "replace") for line in file if b"libpython" in line]
    return next((found[1] for name in names if (found := re.search(r"python(3\.\d+)", name)) is not None), None)


def _number(env: dict[str, str], names: tuple[str, ...]) -> int | None:
    return next((int(env[name]) for name in names if env.get(name, "").isdigit()), None)


def _allowed(pid: int) -> int | None:
    try:
        return len(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        return None
