"""Healthy: each epoch is left by `break` after 50 batches. Nothing is planted; --fixed changes nothing."""

from __future__ import annotations

import common
from torch.utils.data import DataLoader

BATCHES = 50


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    loader = DataLoader(
        common.Samples(64 * 200), batch_size=64, num_workers=1, pin_memory=demo.gpu, persistent_workers=True
    )
    model = common.mlp().to(demo.device)
    optimizer = common.adam(model)
    for _ in common.epochs():
        for i, batch in enumerate(demo.batches(loader)):
            demo.train(model, optimizer, batch)
            if demo.over():
                return
            if i == BATCHES - 1:
                break


if __name__ == "__main__":
    main()
