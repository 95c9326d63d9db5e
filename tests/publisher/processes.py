"""Scripts in processes of their own, and a viewer that listens to them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from gputop.records import AnyRecord, Event, Step
from gputop.sources.subscriber import Subscriber

PATIENCE_S = 120.0

TORCH = """
import sys, time, os
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
def train(loader, steps=10**9, pause=0.005):
    done = 0
    while done < steps:
        for (x,) in loader:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            time.sleep(pause)
            done += 1
            if done >= steps:
                break
    return loss.item()
def loader(**more):
    return DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4, **more)
"""


_running: list[subprocess.Popen[str]] = []


def start(
    tmp: Path,
    code: str,
    *,
    torch: bool = False,
    name: str = "script.py",
    before: tuple[str, ...] = (),
    cwd: Path | None = None,
) -> subprocess.Popen[str]:
    """Run a script; its stdout and stderr can be read. `end_all` ends it at the latest."""
    path = tmp / name
    path.write_text((TORCH if torch else "") + textwrap.dedent(code))
    process = subprocess.Popen(
        [*before, sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    )
    _running.append(process)
    return process


def end_all() -> None:
    """End what a test has left running."""
    while _running:
        process = _running.pop()
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(ValueError):
            process.communicate()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def finish(process: subprocess.Popen[str]) -> str:
    """Its output, once it has ended well."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    return out


class Listener:
    """A viewer in this process; `records` is all it has heard."""

    def __init__(self) -> None:
        self.subscriber = Subscriber(clock=time.time_ns, env=os.environ)
        self.records: list[AnyRecord] = []

    def until(self, enough: Callable[[list[AnyRecord]], bool], seconds: float = PATIENCE_S) -> list[AnyRecord]:
        """Listen until there is enough; fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while not enough(self.records):
            assert time.monotonic() < deadline, f"heard only {summary(self.records)}"
            self.subscriber.socket.poll(50)
            self.records += self.subscriber.receive()
            self.records += self.subscriber.tick()
        return self.records

    def close(self) -> None:
        self.subscriber.close()


def of(kind: type, records: list[AnyRecord]) -> list[AnyRecord]:
    """The records of one type."""
    return [record for record in records if isinstance(record, kind)]


def steps(n: int) -> Callable[[list[AnyRecord]], bool]:
    """At least n steps have been heard."""
    return lambda records: len(of(Step, records)) >= n


def event(kind: str) -> Callable[[list[AnyRecord]], bool]:
    """An event of this kind has been heard."""
    return lambda records: any(isinstance(one, Event) and one.kind == kind for one in records)


def summary(records: list[AnyRecord]) -> dict[str, int]:
    """How many of each type."""
    out: dict[str, int] = {}
    for record in records:
        out[type(record).__name__] = out.get(type(record).__name__, 0) + 1
    return out
