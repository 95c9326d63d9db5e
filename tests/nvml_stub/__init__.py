"""A simulated libnvidia-ml.so.1, compiled from nvml_stub.c and driven by a text file that a test rewrites at will.

    folder = build(tmp_path)
    state = StubState(tmp_path / "gpus")
    state.set(devices=2, **{"0.util": 37, "error.nvmlDeviceGetPowerUsage 1": 3})
    subprocess.run([...], env=env(folder, state))

The real pynvml then loads it. The keys are listed at the head of nvml_stub.c.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")
LIBRARY = "libnvidia-ml.so.1"


class Unbuildable(RuntimeError):  # noqa: N818
    """No C compiler or no NVML header here; the message says which and how to get it."""


def header_dir() -> Path:
    """The folder of nvml.h as the package nvidia-nvml-dev-cu12 installs it. Raises Unbuildable."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for header in sorted(Path(root).glob("*/include/nvml.h")):
            return header.parent
    raise Unbuildable("nvml.h not found: pip install nvidia-nvml-dev-cu12")


def compiler() -> str:
    """The C compiler to use. Raises Unbuildable."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise Unbuildable("no C compiler found (cc, gcc or clang): the simulated NVML library can't be built")


@functools.cache
def _library() -> bytes:
    """The compiled library; kept in the temporary folder between test runs, by the digest of what it is made from."""
    header = header_dir()
    digest = hashlib.sha256(SOURCE.read_bytes() + (header / "nvml.h").read_bytes()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"gputop-nvml-stub-{os.getuid()}-{digest}.so"
    if kept.is_file() and kept.stat().st_uid == os.getuid():
        return kept.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / LIBRARY
        command = [compiler(), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden",
                   f"-I{header}", "-o", str(out), str(SOURCE), "-lpthread"]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Unbuildable(f"the simulated NVML library does not compile:\n{result.stderr}")
        data = out.read_bytes()
        staged = kept.with_suffix(f".{os.getpid()}")
        staged.write_bytes(data)
        staged.replace(kept)
    return data


def build(folder: Path) -> Path:
    """A folder below `folder` that holds the library, to be put first on the loader's path. Raises Unbuildable."""
    home = folder / "nvml"
    home.mkdir(exist_ok=True)
    (home / LIBRARY).write_bytes(_library())
    return home


class StubState:
    """The state file. `set` replaces keys, `drop` removes them, `clear` removes all; each writes the file anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values: dict[str, str] = {}
        self._write()

    def set(self, values: dict[str, object] | None = None, /, **more: object) -> StubState:
        """Set keys, as a dict where names have dots: `set({"0.util": 37, "error.nvmlDeviceGetName 1": 15})`."""
        for key, value in {**(values or {}), **more}.items():
            self._values[key] = str(value)
        self._write()
        return self

    def drop(self, *keys: str) -> StubState:
        """Remove keys."""
        for key in keys:
            self._values.pop(key, None)
        self._write()
        return self

    def clear(self) -> StubState:
        """Remove all keys: one GPU with the default figures."""
        self._values.clear()
        self._write()
        return self

    def _write(self) -> None:
        staged = self.path.with_suffix(".new")
        staged.write_text("".join(f"{key} {value}\n" for key, value in self._values.items()), encoding="utf-8")
        staged.replace(self.path)


def env(folder: Path, state: StubState, calls: Path | None = None) -> dict[str, str]:
    """This process's environment with the library first on the loader's path; `calls`: a file that logs every call."""
    path = os.pathsep.join(part for part in (str(folder), os.environ.get("LD_LIBRARY_PATH", "")) if part)
    variables = {**os.environ, "LD_LIBRARY_PATH": path, "GPUTOP_NVML_STUB": str(state.path)}
    if calls is not None:
        variables["GPUTOP_NVML_STUB_CALLS"] = str(calls)
    return variables
