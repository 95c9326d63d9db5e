"""400 tiny layers at a batch of 8: the host launches slower than a GPU computes.  --fixed: batch 4096, wide layers."""

from __future__ import annotations

import common
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    large = demo.fixed and demo.gpu
    batch_size = 4096 if large else 64 if demo.fixed else 8
    data = TensorDataset(torch.randn(batch_size, common.FEATURES), torch.zeros(batch_size, dtype=torch.long))
    loader = DataLoader(data, batch_size=None, sampler=[slice(None)] * 200, pin_memory=demo.gpu)
    model = common.mlp(8192 if large else 512, 5) if demo.fixed else common.mlp(64, 400)
    model = model.to(demo.device)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=demo.fixed)
    for _ in common.epochs():
        for x, y in demo.batches(loader):
            with demo.phase("h2d"):
                inputs, targets = x.to(demo.device), y.to(demo.device)
            with demo.phase("forward"):
                loss = nn.functional.cross_entropy(model(inputs), targets)
            with demo.phase("backward"):
                loss.backward()
            with demo.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if demo.over():
                return


if __name__ == "__main__":
    main()
