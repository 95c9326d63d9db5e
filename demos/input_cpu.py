"""A worker for every core, and decoding takes them all.  --fixed: the samples were decoded before."""

from __future__ import annotations

import common
from torch.utils.data import DataLoader


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    decode_ms = 0.05 if demo.fixed else 2.0
    loader = DataLoader(
        common.Samples(64 * 200, decode_ms), batch_size=64, num_workers=common.CORES, pin_memory=demo.gpu,
        persistent_workers=True,
    )  # fmt: skip
    demo.fit(loader)


if __name__ == "__main__":
    main()
