"""Who this run is: the `run` record, from the process and its environment alone."""

from __future__ import annotations

import getpass
import os
import platform
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

import gputop
from gputop.records import SCHEMA, Run
from gputop.wire.cards import process_start

MAX_ARGV = 64
MAX_ARG_BYTES = 512


def clock_offset_ns() -> int:
    """Epoch minus monotonic time, ns: fixed once for the life of the process."""
    before = time.monotonic_ns()
    epoch = time.time_ns()
    return epoch - (before + time.monotonic_ns()) // 2


def new_run_id() -> str:
    """A name that no other run has."""
    return f"{os.getpid():x}-{secrets.token_hex(4)}"


def describe(run_id: str, start_ns: int, offset_ns: int, more: Mapping[str, Any]) -> Run:
    """The run as this process knows it. `more` holds fields that the device or the hooks know, and wins."""
    fields: dict[str, Any] = {
        "run_id": run_id,
        "t": start_ns,
        "start_ns": start_ns,
        "pid": os.getpid(),
        "start_ticks": process_start(os.getpid()),
        "host": socket.gethostname(),
        "schema": SCHEMA,
        "offset_ns": offset_ns,
        "gputop_version": gputop.__version__,
        "script": script(),
        "argv": [arg[:MAX_ARG_BYTES] for arg in getattr(sys, "orig_argv", sys.argv)[:MAX_ARGV]],
        "user": _user(),
        "python": platform.python_version(),
        "rank": _number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"),
        "local_rank": _number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "world_size": _number("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
        "cores": os.cpu_count(),
        "cores_allowed": _cores_allowed(),
        "cuda_visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "hip_visible": os.environ.get("HIP_VISIBLE_DEVICES"),
        "rocr_visible": os.environ.get("ROCR_VISIBLE_DEVICES"),
        "in_job": "SLURM_JOB_ID" in os.environ or None,
        "cuda_order": os.environ.get("CUDA_DEVICE_ORDER"),
        "tracer_attached": sys.gettrace() is not None,
        **_framework(),
        **more,
    }
    return Run(**fields)


def script() -> str:
    """What is run, in a word: the file name of the script, or of the zip file or folder; the module's name."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    name = getattr(spec, "name", None)
    path = getattr(main, "__file__", None) or (sys.argv[0] if sys.argv else "")
    if name == "__main__":  # `python app.pyz`, `python folder`
        return os.path.basename(os.path.dirname(os.path.abspath(path))) or "python"
    if isinstance(name, str):
        return name.removesuffix(".__main__")
    return os.path.basename(path) or "python"


def _framework() -> dict[str, Any]:
    for name in ("torch", "tensorflow", "jax"):
        module = sys.modules.get(name)
        version = getattr(module, "__version__", None)
        if version is not None:
            return {"framework": name, "framework_version": str(version)}
    return {}


def _number(*names: str) -> int | None:
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def _cores_allowed() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None
