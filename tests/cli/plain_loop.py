"""A training of plain Python, without a framework: `python plain_loop.py SECONDS [EXIT_CODE]`. It prints "trained"."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

import gputop


def batches(seconds: float) -> Iterator[int]:
    """Numbers, until the time is over."""
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        yield n
        n += 1


def main() -> int:
    with contextlib.suppress(KeyboardInterrupt):
        for _ in gputop.steps(batches(float(sys.argv[1]))):
            with gputop.phase("forward"):
                time.sleep(0.005)
        print("trained", flush=True)
        return int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print("interrupted", flush=True)
    return 9


if __name__ == "__main__":
    sys.exit(main())
