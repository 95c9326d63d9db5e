"""A checkpoint of some 300 MB between steps, every 20 of them.  --fixed: every 1,000."""

from __future__ import annotations

import tempfile
from pathlib import Path

import common
import torch
from torch.utils.data import DataLoader


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    every = 1000 if demo.fixed else 20
    loader = DataLoader(
        common.Samples(64 * 200), batch_size=64, num_workers=1, pin_memory=demo.gpu, persistent_workers=True
    )
    model = common.mlp().to(demo.device)
    optimizer = common.adam(model)
    averages = torch.zeros(75_000_000, device=demo.device)
    with tempfile.TemporaryDirectory() as folder:
        for _ in common.epochs():
            for batch in demo.batches(loader):
                demo.train(model, optimizer, batch)
                if demo.step % every == every - 1:
                    torch.save({"model": model.state_dict(), "averages": averages}, Path(folder) / "last.pt")
                if demo.over():
                    return


if __name__ == "__main__":
    main()
