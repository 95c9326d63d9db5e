"""The board: a page shared by a sampler's child and its parent, on which the child names the call it is about to make.

A child that hangs in a driver can't say so any more; the parent then reads here which call it is and since when. Both
use CLOCK_MONOTONIC, which the processes of one boot share.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable

_HEAD = struct.Struct("=qB")
_SIZE = 256
_ROOM = _SIZE - _HEAD.size


class Board:
    """One page. The parent makes it, the child opens it by the descriptor that it has inherited."""

    def __init__(self, fd: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.fd = fd
        self._clock = clock
        self._page = mmap.mmap(fd, _SIZE)

    @classmethod
    def create(cls) -> Board:
        """A fresh board in anonymous memory (or an unlinked file where the system has no memfd)."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("gputop-board")
        else:
            fd, path = tempfile.mkstemp(prefix="gputop-board")
            os.unlink(path)
        os.ftruncate(fd, _SIZE)
        return cls(fd)

    def say(self, call: str) -> None:
        """Write the call about to be made; "" when none is."""
        data = call.encode("utf-8", "replace")[:_ROOM]
        self._page[: _HEAD.size + len(data)] = _HEAD.pack(self._clock() if data else 0, len(data)) + data

    def read(self) -> tuple[str, int] | None:
        """The call being made and its age in ns, or None when none is. A line torn by a write is harmless."""
        since, length = _HEAD.unpack_from(self._page)
        if not since or not length:
            return None
        call = self._page[_HEAD.size : _HEAD.size + length].decode("utf-8", "replace")
        return call, max(self._clock() - since, 0)

    def close(self) -> None:
        """Unmap the page and close the descriptor."""
        self._page.close()
        os.close(self.fd)
