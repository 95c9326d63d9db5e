"""NVML as a library: loading the binding, what its error codes mean for us, and the sentence for what is missing."""

from __future__ import annotations

import importlib
from typing import Any

from gputop.samplers.asking import Failed, Unsupported

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999

UNSUPPORTED_CODES = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH})
FORBIDDEN_CODES = frozenset({NO_PERMISSION, OPERATING_SYSTEM})
"""Devices that are others' to use, as in a job that has been given some: looking again would find the same."""

GONE_CODES = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH, UNKNOWN})
"""What every call answers once the driver was reloaded or upgraded under us. UNKNOWN also comes from single fields
(memory under WSL), so only a round in which no device answered anything means that the driver is gone."""

_SENTENCES = {
    LIBRARY_NOT_FOUND: (
        "no NVIDIA driver library here (libnvidia-ml.so.1): with an NVIDIA GPU, install its driver, "
        "or start the container with --gpus all; under WSL put /usr/lib/wsl/lib on LD_LIBRARY_PATH"
    ),
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: try `sudo modprobe nvidia`, or reboot after installing it",
    VERSION_MISMATCH: (
        "the NVIDIA library and the loaded kernel driver have different versions (the driver was upgraded): reboot, "
        "or reload the nvidia kernel modules"
    ),
    NO_PERMISSION: "not allowed to talk to the NVIDIA driver: check the permissions of /dev/nvidiactl and /dev/nvidia*",
    OPERATING_SYSTEM: (
        "the system blocks the NVIDIA driver (a cgroup's device list, usually): give the container or job access to "
        "/dev/nvidia*"
    ),
    FUNCTION_NOT_FOUND: "the NVIDIA driver is too old for its own binding (no nvmlInitWithFlags): upgrade the driver",
    GPU_IS_LOST: "a GPU has fallen off the bus and the driver does not start: `dmesg | grep -i xid`, then reboot",
    UNKNOWN: "the NVIDIA driver answers with an unknown error: `nvidia-smi` should too; reload the driver or reboot",
}

NO_DEVICES = "the NVIDIA driver is there, but it shows no GPU: check `nvidia-smi -L` and NVIDIA_VISIBLE_DEVICES"

MARKER = "nvmlDeviceGetFieldValues"
"""A function that NVIDIA's own binding has and the unofficial packages that take its module name do not."""


NO_DEVICE_CODES = frozenset({LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED})
"""What a machine without a usable NVIDIA GPU answers; the others say nothing about whether there is one."""


class Lost(Exception):  # noqa: N818
    """The device has fallen off the bus: its handle must never be used again (a later call has crashed monitors)."""


class Absent(Exception):  # noqa: N818
    """NVML can't be used; the text is the sentence for the user. `code` is NVML's, None for the binding itself."""

    def __init__(self, why: str, code: int | None = None) -> None:
        super().__init__(why)
        self.code = code


def binding() -> Any:
    """NVIDIA's Python binding. Raises Absent when it is missing or shadowed by another module of that name."""
    try:
        module = importlib.import_module("pynvml")
    except (Exception, SystemExit) as error:
        raise Absent(f"NVIDIA's binding can't be imported ({error}): pip install nvidia-ml-py") from None
    if not hasattr(module, MARKER):
        where = str(getattr(module, "__file__", "?"))
        installed = "site-packages" in where or "dist-packages" in where
        mend = (
            "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py"
            if installed
            else "give that file another name, or take its folder off PYTHONPATH"
        )
        raise Absent(f"another module has taken the name pynvml ({where}): {mend}")
    return module


def code_of(error: Exception) -> int | None:
    """NVML's code of an error, None when it is no error of NVML's."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def sentence(code: int, text: str = "") -> str:
    """What an error at the start means, and its mend."""
    return _SENTENCES.get(code) or f"the NVIDIA driver does not start: {text or 'error'} (NVML code {code})"


def start(nvml: Any) -> None:
    """Initialise NVML. Raises Absent."""
    try:
        nvml.nvmlInit()
    except Exception as error:
        code = code_of(error)
        if code is None:
            raise Absent(f"the NVIDIA library can't be used: {error}") from None
        raise Absent(sentence(code, str(error)), code) from None


def refused(error: Exception) -> bool:
    """Whether a question's error means "not supported" (True) or "failed" (False). Raises Lost for a lost device."""
    code = code_of(error)
    if code == GPU_IS_LOST:
        raise Lost
    if code is None:
        return isinstance(error, Unsupported | AttributeError) and not isinstance(error, Failed)
    return code in UNSUPPORTED_CODES


def text(function: Any, handle: Any) -> str:
    """What a function of the binding returns as text. The binding decodes strictly and would raise on a driver that
    sends bytes which are no UTF-8, so the undecorated function is called where there is one."""
    raw = getattr(function, "__wrapped__", function)(handle)
    return (raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)).replace("\0", "")
