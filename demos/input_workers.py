"""The loop decodes its own batches: num_workers=0 while cores are free.  --fixed: workers decode ahead."""

from __future__ import annotations

import common
from torch.utils.data import DataLoader


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    workers = max(1, min(8, common.CORES - 1)) if demo.fixed else 0
    loader = DataLoader(
        common.Samples(64 * 200, decode_ms=0.2), batch_size=64, num_workers=workers, pin_memory=demo.gpu,
        persistent_workers=workers > 0,
    )  # fmt: skip
    demo.fit(loader)


if __name__ == "__main__":
    main()
