"""The line of the user's own code that a thread is in: past torch, the standard library and installed packages."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from types import FrameType

MAX_DEPTH = 200
"""Frames looked through: frameworks call deep before they call the script again."""

MAX_STACK = 12

_own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_library = tuple(
    {
        os.path.join(spelt, "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
        if (path := sysconfig.get_paths().get(name))
        for spelt in (path, os.path.realpath(path))
    }
)
FRAMEWORKS = frozenset({
    "accelerate", "deepspeed", "jax", "keras", "lightning", "lightning_fabric", "pytorch_lightning", "tensorflow",
    "torch", "torchvision", "transformers",
})  # fmt: skip
"""Packages that are no one's own code, also where they are run from a checkout."""

TORCH = f"{os.sep}torch{os.sep}"
"""What the paths of torch's own code hold."""

GENERATED = ("torchinductor_", "__autograph_generated_file", f"{os.sep}.triton{os.sep}")
"""What the paths of code hold that a compiler has written."""

_demo_loop = os.path.join("gputop", "simulation", "loop.py")
"""The demo's training loop stands for a user's script: the rest of gputop is never named."""

TERMINAL_CELL = re.compile(r"<ipython-input-(\d+)-")
KERNEL_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\][^/\\]+\.py$")
"""File names of code from a cell: IPython's in a terminal, and a Jupyter kernel's."""

_is_user: dict[str, str | None] = {}
"""By the file's name, not by code: two functions are equal where only their files differ."""


def user_site(frame: FrameType | None) -> str | None:
    """file:line of the innermost frame of the user's code, e.g. "train.py:88"; None when there is none."""
    for _ in range(MAX_DEPTH):
        if frame is None:
            return None
        code = frame.f_code
        path = code.co_filename
        name = _is_user.get(path, "")
        if name == "":
            name = _cell(path)
            if name is None:  # a cell that is run again has another number
                name = _is_user[path] = _user_file(path, frame.f_globals.get("__name__"))
        if name is not None:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def in_torch(frame: FrameType | None) -> bool:
    """Whether a call into torch's own Python code is open: a module's, a loss's. Work beside the model has none."""
    for _ in range(MAX_DEPTH):
        if frame is None:
            return False
        if TORCH in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def caller_site(depth: int = 2) -> str:
    """Where the user's code called from; "?" when no frame of it is near."""
    try:
        return user_site(sys._getframe(depth)) or "?"
    except ValueError:
        return "?"


def stack_of(thread: int) -> list[str] | None:
    """A thread's frames, innermost first, as "function (file:line)"."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return None
    out: list[str] = []
    while frame is not None and len(out) < MAX_STACK:
        code = frame.f_code
        out.append(f"{code.co_name} ({os.path.basename(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    return out


def _cell(path: str) -> str | None:
    """The notebook cell that a code's file name stands for, as it is numbered: "In[3]"; None for anything else."""
    terminal = TERMINAL_CELL.match(path)
    if terminal is not None:
        return f"In[{terminal[1]}]"
    if KERNEL_CELL.search(path) is None:
        return None
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if callable(get) else None
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(path)
    return f"In[{number}]" if isinstance(number, int) else "In[?]"


def _user_file(path: str, module: object = None) -> str | None:
    """The short name of a file of the user's; None for libraries, generated code, frozen modules and gputop itself."""
    if path.startswith("<"):
        return None
    full = os.path.abspath(path)
    if full.startswith(_own_folder) and not full.endswith(_demo_loop):
        return None
    if f"{os.sep}site-packages{os.sep}" in full or f"{os.sep}dist-packages{os.sep}" in full:
        return None
    if full.startswith(_library) or any(part in full for part in GENERATED):
        return None
    if isinstance(module, str) and module.partition(".")[0] in FRAMEWORKS:
        return None
    return os.path.basename(path)
