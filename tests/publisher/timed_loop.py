"""A training loop with a stopwatch of its own, gone through in each of the ways in."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import gputop

BATCHES = 12
PHASES = ("data", "forward", "backward", "optimizer")


class Data(Dataset[torch.Tensor]):
    """Samples that take their time."""

    def __len__(self) -> int:
        return BATCHES * 4

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0015)
        return torch.full((8,), index / 80)


class Slow(torch.autograd.Function):
    """An operator that takes its time on both ways."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.006)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        time.sleep(0.009)
        return grad


class SlowSGD(torch.optim.SGD):
    """An optimizer that takes its time."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        time.sleep(0.005)
        return super().step(closure)


def train(*, explicit: bool) -> dict[str, Any]:
    """The losses, random numbers and, by the stopwatch, ms in each phase of all steps but the first."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = SlowSGD(model.parameters(), 0.01)
    loader = DataLoader(Data(), batch_size=4)
    losses: list[float] = []
    took = dict.fromkeys(PHASES, 0.0)
    clock = time.perf_counter
    ended = clock()
    for batch in gputop.steps(loader) if explicit else loader:
        arrived = clock()
        if explicit:
            with gputop.phase("forward"):
                loss = Slow.apply(model(batch)).square().mean()
            forwarded = clock()
            with gputop.phase("backward"):
                loss.backward()
            backed = clock()
            with gputop.phase("optimizer"):
                optimizer.step()
        else:
            loss = Slow.apply(model(batch)).square().mean()
            forwarded = clock()
            loss.backward()
            backed = clock()
            optimizer.step()
        stepped = clock()
        if losses:
            for phase, ms in zip(
                PHASES, (arrived - ended, forwarded - arrived, backed - forwarded, stepped - backed), strict=True
            ):
                took[phase] += ms * 1000
        optimizer.zero_grad()
        losses.append(loss.item())
        ended = clock()
    return {"losses": losses, "random": torch.get_rng_state().sum().item(), "took": took}
