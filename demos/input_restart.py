"""Short epochs whose workers are started anew each time.  --fixed: persistent_workers=True."""

from __future__ import annotations

import common
from torch.utils.data import DataLoader

STEPS, WORKERS = 8, 4


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    loader = DataLoader(
        common.Samples(64 * STEPS), batch_size=64, num_workers=WORKERS, pin_memory=demo.gpu,
        persistent_workers=demo.fixed,
    )  # fmt: skip
    demo.fit(loader)


if __name__ == "__main__":
    main()
