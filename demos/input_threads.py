"""A worker for each core, each with eight threads of a numeric library: they crowd each other.  --fixed: one each."""

from __future__ import annotations

import common
import torch
from torch.utils.data import DataLoader

THREADS, SIZE, PASSES = 8, 1 << 16, 20


class Filtered(common.Samples):
    """Samples that pass a numeric library's own thread pool, as OpenCV, NumPy and torch have one, many times for little
    work each."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sample, label = super().__getitem__(index)
        image = sample.repeat(SIZE // common.FEATURES)
        for _ in range(PASSES):
            image = image * 0.999 + 0.001
        return image[: common.FEATURES], label


def crowd(_worker: int) -> None:
    """What libraries do by themselves on a machine of many cores."""
    torch.set_num_threads(THREADS)


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    loader = DataLoader(
        Filtered(64 * 200), batch_size=64, num_workers=common.CORES, pin_memory=demo.gpu,
        persistent_workers=True, worker_init_fn=None if demo.fixed else crowd,
    )  # fmt: skip
    demo.fit(loader)


if __name__ == "__main__":
    main()
