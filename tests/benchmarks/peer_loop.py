"""The tiny training loop that monitors are measured on: prints nothing, writes its median step to the file it is given.

Run by bench_publisher's `peers` under each monitor in turn, so it imports nothing of the tests.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = 1500
SETTLE = 300
"""Steps that are left out: a monitor starts, and imports what it needs, in the first ones."""


def workload() -> tuple[Any, Any, Callable[[Any, Any], None]]:
    """Loader, model and step of a 16-wide two-layer MLP, batch 32, SGD, no workers, one thread."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    loader = DataLoader(TensorDataset(torch.randn(32 * STEPS, 16), torch.randn(32 * STEPS, 1)), batch_size=32)

    def step(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return loader, model, step


def timed(loader: Any, step: Callable[[Any, Any], None]) -> list[int]:
    """Step times, ns, of one pass over the loader."""
    times = []
    last = time.perf_counter_ns()
    for x, y in loader:
        step(x, y)
        now = time.perf_counter_ns()
        times.append(now - last)
        last = now
    return times[SETTLE:]


def loop(tool: str) -> list[int]:
    """Step times in ns under a monitor."""
    loader, model, step = workload()
    return timed(loader, _told_to_traceml(model, step) if tool == "TraceML" else step)


def _told_to_traceml(model: Any, step: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """A step as TraceML has to be told of it in a loop of one's own: without that it sees none and costs nothing."""
    traceml = importlib.import_module("traceml_ai")
    traceml.init(mode="auto")
    trace_step = traceml.trace_step

    def traced(x: Any, y: Any) -> None:
        with trace_step(model):
            step(x, y)

    return traced


def within(tool: str) -> Any:
    """What the loop stands in, for a monitor that is not a command before the script."""
    if tool == "gpuprof":
        return importlib.import_module("gpuprof").profile("peers")
    return contextlib.nullcontext()


if __name__ == "__main__":
    with within(sys.argv[2]):
        ns = loop(sys.argv[2])
    Path(sys.argv[1]).write_text(str(statistics.median(ns) / 1000))
