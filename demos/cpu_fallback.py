"""The model is never moved to the GPU; needs a machine that has one to mean anything.  --fixed: model.to(device)."""

from __future__ import annotations

import common
import torch
from torch.utils.data import DataLoader


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    if not demo.fixed:
        demo.device = torch.device("cpu")
    loader = DataLoader(
        common.Samples(64 * 200), batch_size=64, num_workers=1, pin_memory=demo.fixed and demo.gpu,
        persistent_workers=True,
    )  # fmt: skip
    model = common.mlp(2048).to(demo.device)
    optimizer = common.adam(model)
    for _ in common.epochs():
        for batch in demo.batches(loader):
            demo.train(model, optimizer, batch)
            if demo.over():
                return


if __name__ == "__main__":
    main()
