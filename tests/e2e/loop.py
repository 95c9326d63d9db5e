"""A real PyTorch loop on the CPU with one thing planted: `python loop.py CASE --way watch|explicit|none`.

It is a user's script: it knows nothing of gputop unless told to use it, and runs until it is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CASES = ("plain", "work_after", "slow_loader", "evaluation", "checkpoint", "accumulation", "break")


class Noise(Dataset[Any]):
    """Samples made of noise; `slow` ones take a while, as decoding does."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.pause:
            time.sleep(self.pause)
        return torch.randn(64), index % 4


def spin(seconds: float) -> None:
    """Python work, as metrics and logging are."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def evaluate(model: nn.Module, loader: Iterable[Any]) -> None:
    """A validation pass of twenty batches."""
    with torch.no_grad():
        for index, (x, _) in enumerate(loader):
            model(x)
            spin(0.004)
            if index == 19:
                return


def main(case: str, way: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader: Any = DataLoader(Noise(0.001 if case == "slow_loader" else 0), batch_size=32)
    validation: Any = DataLoader(Noise(0), batch_size=32)
    phase: Any = lambda name: contextlib.nullcontext()  # noqa: E731
    batches: Any = loader
    if way != "none":
        import gputop

        if way == "watch":
            gputop.watch()
        else:
            phase, batches = gputop.phase, gputop.steps(loader)
    n = 0
    with tempfile.TemporaryFile() as file:
        while True:
            for x, y in batches:
                with phase("forward"):
                    loss = nn.functional.cross_entropy(model(x), y)
                with phase("backward"):
                    loss.backward()
                n += 1
                if case != "accumulation" or n % 8 == 0:
                    with phase("optimizer"):
                        optimizer.step()
                        optimizer.zero_grad()
                if case == "work_after":
                    spin(0.015)
                if case == "evaluation" and n % 20 == 0:
                    evaluate(model, validation)
                if case == "checkpoint" and n % 20 == 0:
                    for _ in range(60):
                        file.seek(0)
                        torch.save([model.state_dict(), optimizer.state_dict()], file)
                if case == "break" and n % 50 == 0:
                    break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--way", choices=("none", "watch", "explicit"), default="none")
    given = parser.parse_args()
    main(given.case, given.way)
