"""One sample in some hundreds takes half a second: it holds up the queue.  --fixed: batches come as they are ready."""

from __future__ import annotations

import time

import common
import torch
from torch.utils.data import DataLoader

RARE, SLOW_S, WORKERS = 1280, 0.5, 4


class Uneven(common.Samples):
    """Samples of which a few take long, as a broken file or a huge image does. They wait, so they need no core."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index % RARE == RARE // 2:
            time.sleep(SLOW_S)
        return super().__getitem__(index)


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    order = {"in_order": False, "prefetch_factor": 16} if demo.fixed else {}
    loader = DataLoader(
        Uneven(64 * 400), batch_size=64, num_workers=WORKERS, pin_memory=demo.gpu, persistent_workers=True, **order
    )  # type: ignore[arg-type]
    demo.fit(loader)


if __name__ == "__main__":
    main()
