"""Every sample is a megabyte of a file that is never left in the page cache.  --fixed: the same bytes, cached.

The file lies in the working folder's file system where the temporary one is in memory.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import common
import torch
from torch.utils.data import DataLoader, Dataset

SAMPLES, BYTES, PART = 256, 1 << 20, 1 << 18


class Reads(Dataset[tuple[torch.Tensor, int]]):
    """One large file, a sample after the other in it; `cold`: what the cache has of a sample is dropped before."""

    def __init__(self, file: Path, count: int, *, cold: bool) -> None:
        self._file = file
        self._count = count
        self._cold = cold

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= self._count:
            raise IndexError(index)
        start = index % SAMPLES * BYTES
        handle = os.open(self._file, os.O_RDONLY)
        try:
            if self._cold and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(handle, start, BYTES, os.POSIX_FADV_DONTNEED)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
            parts = [os.pread(handle, PART, offset) for offset in range(start, start + BYTES, PART)]
        finally:
            os.close(handle)
        values = torch.frombuffer(bytearray(parts[0][: common.FEATURES]), dtype=torch.uint8)
        return values.float() / 255, index % common.CLASSES


def disk_folder() -> str | None:
    """Where a file lies on a disk: None for the usual place, unless that is in memory."""
    usual = Path(tempfile.gettempdir()).resolve()
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return None
    holding = [(Path(place), kind) for place, kind in mounts if usual.is_relative_to(place)]
    return "." if holding and max(holding, key=lambda one: len(one[0].parts))[1] == "tmpfs" else None


def main() -> None:
    """Train until it is over."""
    demo = common.Demo(__doc__)
    with tempfile.TemporaryDirectory(dir=disk_folder()) as folder:
        file = Path(folder) / "samples.bin"
        with file.open("wb") as out:
            for _ in range(SAMPLES):
                out.write(os.urandom(BYTES))
            os.fsync(out.fileno())
        loader = DataLoader(
            Reads(file, 64 * 200, cold=not demo.fixed), batch_size=64, num_workers=2, pin_memory=demo.gpu,
            persistent_workers=True,
        )  # fmt: skip
        demo.fit(loader)


if __name__ == "__main__":
    main()
