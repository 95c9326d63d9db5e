"""A process with the real pynvml over the simulated library, which samples when told: a test's hands on a backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gputop.codec import from_json
from gputop.records import AnyRecord, Burst, Gpu, Sampler
from tests.nvml_stub import StubState, env

_SCRIPT = """
import json, os, pathlib, sys
from gputop.codec import to_json
from gputop.samplers.nvml import NvmlBackend
from gputop.samplers.protocol import Targets
backend = None
for line in sys.stdin:
    word, _, value = line.strip().partition(" ")
    if word == "open":
        if backend is not None:
            backend.close()
        backend = NvmlBackend(host="box", root=pathlib.Path(os.environ["ROOT"]))
        backend.follow(Targets(hung=json.loads(value or "{}")))
        backend.open()
    else:
        for record in backend.sample(int(value)):
            sys.stdout.write(to_json(record).decode() + "\\n")
    sys.stdout.write("end\\n")
    sys.stdout.flush()
"""

S = 1_000_000_000


class NvmlProcess:
    """`open()` makes a fresh backend, `sample()` ticks it a second later than the last time (or `after_s` later)."""

    def __init__(self, folder: Path, state: StubState, calls: Path | None = None, root: Path = Path("/")) -> None:
        self.state = state
        self.now_ns = 1_700_000_000 * S
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**env(folder, state, calls), "ROOT": str(root)},
        )  # fmt: skip

    def open(self, **hung: int) -> NvmlProcess:
        """`hung`: calls on the first GPU that are left out, and for how long (ns)."""
        self._ask("open " + json.dumps({f"{call} gpu 0": wait for call, wait in hung.items()}))
        return self

    def sample(self, after_s: float = 1.0) -> list[AnyRecord]:
        self.now_ns += int(after_s * S)
        return [from_json(line) for line in self._ask(f"sample {self.now_ns}")]

    def gpus(self, after_s: float = 1.0) -> list[Gpu]:
        return [record for record in self.sample(after_s) if isinstance(record, Gpu)]

    def bursts(self, after_s: float = 1.0) -> list[Burst]:
        return [record for record in self.sample(after_s) if isinstance(record, Burst)]

    def sampler(self, after_s: float = 1.0) -> Sampler:
        (record,) = self.sample(after_s)
        assert isinstance(record, Sampler)
        return record

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(5)
        self._process.stdout.close()

    def _ask(self, line: str) -> list[str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        lines = []
        while (got := stdout.readline()) not in ("end\n", ""):
            lines.append(got)
        assert got, "the sampling process has died"
        return lines


def fields(gpu: Gpu) -> dict[str, Any]:
    """What is present in a row, without what differs by time and place."""
    apart = {"t", "host", "gpu_uuid", "gpu_index", "gpu_pci", "unsupported", "failed"}
    return {
        name: value for name in gpu.__struct_fields__ if name not in apart and (value := getattr(gpu, name)) is not None
    }
