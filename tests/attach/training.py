"""A user's script that knows nothing of gputop: a loop whose data take most of the time, made by `workers` workers."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset[Any]):
    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.decode(index), index % 4

    def decode(self, index: int) -> torch.Tensor:
        end = time.thread_time() + 0.005  # of its own CPU, so that a crowded machine changes no share
        while time.thread_time() < end:
            index += 1
        return torch.randn(64)


def main() -> None:
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 1500), nn.ReLU(), nn.Linear(1500, 1500), nn.ReLU(), nn.Linear(1500, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    loss_of = nn.CrossEntropyLoss()
    loader = DataLoader(Images(), batch_size=32, num_workers=int(sys.argv[1]))
    print("ready", flush=True)
    for x, y in loader:
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
