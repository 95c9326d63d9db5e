"""JPEG files of a camera's size, decoded and scaled down by a worker for every core.

--fixed: the files were scaled down beforehand, to the size that the model takes. Needs Pillow.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
from pathlib import Path

import common
import torch
from torch.utils.data import DataLoader, Dataset

FILES, SIDE = 48, 16
CAMERA, SMALL = (800, 600), (32, 24)


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Files on disk: each is read, decoded, scaled, cropped at random and made a tensor, as torchvision's would be."""

    def __init__(self, files: list[Path], count: int) -> None:
        self._files = files
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        if index >= self._count:
            raise IndexError(index)
        with Image.open(io.BytesIO(self._files[index % len(self._files)].read_bytes())) as file:
            image = file.convert("RGB").resize(SMALL, Image.Resampling.BILINEAR)
        left, top = random.randrange(32 - SIDE), random.randrange(24 - SIDE)
        pixels = image.crop((left, top, left + SIDE, top + SIDE)).convert("L").tobytes()
        values = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).float() / 255
        return values.repeat(common.FEATURES // len(values)), index % common.CLASSES


def photographs(folder: Path, size: tuple[int, int]) -> list[Path]:
    """Made-up photographs: coarse and fine noise, which compress about as a picture does."""
    from PIL import Image

    files = []
    for number in range(FILES):
        rng = random.Random(number)
        coarse = Image.frombytes("RGB", (16, 12), rng.randbytes(16 * 12 * 3)).resize(size)
        fine = Image.frombytes("RGB", (160, 120), rng.randbytes(160 * 120 * 3)).resize(size)
        files.append(folder / f"{number:04}.jpg")
        Image.blend(coarse, fine, 0.2).save(files[-1], quality=90)
    return files


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    try:
        import PIL  # noqa: F401
    except ImportError:
        sys.exit("input_images.py decodes real JPEG files, which needs Pillow: pip install pillow")
    with tempfile.TemporaryDirectory() as folder:
        files = photographs(Path(folder), SMALL if demo.fixed else CAMERA)
        loader = DataLoader(
            Images(files, 64 * 200), batch_size=64, num_workers=common.CORES, pin_memory=demo.gpu,
            persistent_workers=True,
        )  # fmt: skip
        demo.fit(loader)


if __name__ == "__main__":
    main()
