"""The tiny training loop that monitors are measured on: prints nothing, writes its median step to the file it is given.

Run by bench_publisher's `peers` under each monitor in turn, so it imports nothing of the tests.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

STEPS = 1500
SETTLE = 300


def loop() -> list[int]:
    """Step times in ns of a 16-wide two-layer MLP, batch 32, SGD, no workers, one thread."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    loader = DataLoader(TensorDataset(torch.randn(32 * STEPS, 16), torch.randn(32 * STEPS, 1)), batch_size=32)
    times = []
    last = time.perf_counter_ns()
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        now = time.perf_counter_ns()
        times.append(now - last)
        last = now
    return times[SETTLE:]


def within(tool: str) -> Any:
    """What the loop stands in, for a monitor that is not a command before the script."""
    if tool == "gpuprof":
        return importlib.import_module("gpuprof").profile("peers")
    return contextlib.nullcontext()


if __name__ == "__main__":
    with within(sys.argv[2]):
        ns = loop()
    Path(sys.argv[1]).write_text(str(statistics.median(ns) / 1000))
