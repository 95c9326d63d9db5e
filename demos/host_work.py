"""15 ms of Python metrics after every step, in no phase at all.  --fixed: once every 50 steps."""

from __future__ import annotations

import common
from torch.utils.data import DataLoader


def metrics() -> int:
    """What a careless logger does: pure Python on the training thread."""
    return common.cpu_work(15.0)


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    every = 50 if demo.fixed else 1
    loader = DataLoader(
        common.Samples(64 * 200), batch_size=64, num_workers=1, pin_memory=demo.gpu, persistent_workers=True
    )
    model = common.mlp().to(demo.device)
    optimizer = common.adam(model)
    for _ in common.epochs():
        for batch in demo.batches(loader):
            demo.train(model, optimizer, batch)
            if demo.step % every == 0:
                metrics()
            if demo.over():
                return


if __name__ == "__main__":
    main()
