"""A validation pass of 20 batches after every 20 training steps.  --fixed: after every 400."""

from __future__ import annotations

from typing import Any

import common
import torch
from torch import nn
from torch.utils.data import DataLoader


def validate(demo: common.Demo, model: nn.Module, loader: DataLoader[Any]) -> float:
    """The mean loss over the validation set."""
    total = 0.0
    model.eval()
    with torch.no_grad(), demo.phase("eval"):
        for inputs, targets in loader:
            output = model(inputs.to(demo.device))
            total += float(nn.functional.cross_entropy(output, targets.to(demo.device)))
    model.train()
    return total / len(loader)


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    every = 400 if demo.fixed else 20
    loader = DataLoader(
        common.Samples(64 * 400), batch_size=64, num_workers=1, pin_memory=demo.gpu, persistent_workers=True
    )
    validation = DataLoader(common.Samples(128 * 20, decode_ms=0.05), batch_size=128)
    model = common.mlp().to(demo.device)
    optimizer = common.adam(model)
    for _ in common.epochs():
        for batch in demo.batches(loader):
            demo.train(model, optimizer, batch)
            if demo.step % every == every - 1:
                validate(demo, model, validation)
            if demo.over():
                return


if __name__ == "__main__":
    main()
