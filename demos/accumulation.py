"""Healthy: gradients of 8 micro-batches before each optimizer step. Nothing is planted; --fixed changes nothing."""

from __future__ import annotations

import common
from torch import nn
from torch.utils.data import DataLoader

MICRO_BATCHES = 8


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    loader = DataLoader(
        common.Samples(64 * 200), batch_size=64, num_workers=1, pin_memory=demo.gpu, persistent_workers=True
    )
    model = common.mlp().to(demo.device)
    optimizer = common.adam(model)
    for _ in common.epochs():
        for x, y in demo.batches(loader):
            with demo.phase("h2d"):
                inputs, targets = x.to(demo.device), y.to(demo.device)
            with demo.phase("forward"):
                loss = nn.functional.cross_entropy(model(inputs), targets) / MICRO_BATCHES
            with demo.phase("backward"):
                loss.backward()
            if demo.step % MICRO_BATCHES == MICRO_BATCHES - 1:
                with demo.phase("optimizer"):
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
            if demo.over():
                return


if __name__ == "__main__":
    main()
