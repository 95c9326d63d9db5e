"""Two ranks that sum 60 MB of gradients over gloo after every small batch.  --fixed: after every sixteenth."""

from __future__ import annotations

import common
import torch
from torch import distributed, nn
from torch.utils.data import DataLoader


def train() -> None:
    """Train until it is over for both."""
    demo = common.Demo(__doc__)
    torch.set_num_threads(1)
    loader = DataLoader(common.Samples(8 * 400), batch_size=8)
    model = common.mlp(2048, 5).to(demo.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    every = 16 if demo.fixed else 1
    for _ in common.epochs():
        for number, batch in enumerate(demo.batches(loader), 1):
            x, y = (part.to(demo.device) for part in batch)
            with demo.phase("forward"):
                loss = nn.functional.cross_entropy(model(x), y)
            with demo.phase("backward"):
                loss.backward()
            if number % every == 0:
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    distributed.all_reduce(parameter.grad)
                with demo.phase("optimizer"):
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
            if common.over_for_all(demo):
                return


def main() -> None:
    """Train as two ranks."""
    with common.ranks(2):
        train()


if __name__ == "__main__":
    main()
