"""Two ranks of DistributedDataParallel over gloo; rank 1 alone computes 60 ms of metrics a step.  --fixed: none."""

from __future__ import annotations

import common
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def train(rank: int) -> None:
    """Train until it is over for both."""
    demo = common.Demo(__doc__)
    torch.set_num_threads(1)
    loader = DataLoader(common.Samples(64 * 200), batch_size=64)
    model = DistributedDataParallel(common.mlp(256).to(demo.device))
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
