"""Every sample's loss is read with .item() at every step; on a CPU that is harmless.  --fixed: one read in 50 steps."""

from __future__ import annotations

import common
from torch import nn
from torch.utils.data import DataLoader


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    batch_size = 1024 if demo.gpu else 64
    loader = DataLoader(
        common.Samples(batch_size * 200), batch_size=batch_size, num_workers=2 if demo.gpu else 1, pin_memory=demo.gpu,
        persistent_workers=True,
    )  # fmt: skip
    model = common.mlp(4096 if demo.gpu else 512).to(demo.device)
    optimizer = common.adam(model)
    worst = 0.0
    for _ in common.epochs():
        for x, y in demo.batches(loader):
            with demo.phase("h2d"):
                inputs, targets = x.to(demo.device), y.to(demo.device)
            with demo.phase("forward"):
                losses = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
            with demo.phase("sync"):
                if not demo.fixed:
                    worst = max(loss.item() for loss in losses.detach())
                elif demo.step % 50 == 0:
                    worst = float(losses.detach().max())
            with demo.phase("backward"):
                losses.mean().backward()
            with demo.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if demo.over():
                print(f"worst loss {worst:.3f}")
                return


if __name__ == "__main__":
    main()
