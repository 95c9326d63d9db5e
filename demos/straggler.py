"""Two ranks of DistributedDataParallel over gloo; rank 1 alone computes 60 ms of metrics a step.  --fixed: none."""

from __future__ import annotations

import common
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def convolutions(channels: int = 24) -> nn.Module:
    """A small convolutional network: much to compute, and few gradients to exchange."""
    layers: list[nn.Module] = [nn.Unflatten(1, (1, 16, common.FEATURES // 16))]
    for inputs in (1, channels, channels):
        layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, common.CLASSES))


def train(rank: int) -> None:
    """Train until it is over for both."""
    demo = common.Demo(__doc__)
    torch.set_num_threads(1)
    loader = DataLoader(common.Samples(64 * 200), batch_size=64)
    model = DistributedDataParallel(convolutions().to(demo.device))
    optimizer = common.adam(model)
    for _ in common.epochs():
        for batch in demo.batches(loader):
            if rank == 1 and not demo.fixed:
                common.cpu_work(60.0)
            demo.train(model, optimizer, batch)
            if common.over_for_all(demo):
                return


def main() -> None:
    """Train as two ranks."""
    with common.ranks(2) as rank:
        train(rank)


if __name__ == "__main__":
    main()
