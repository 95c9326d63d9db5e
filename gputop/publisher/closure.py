"""A closure that an optimizer's step was called with: forward and backward come inside of the step."""

from __future__ import annotations

from types import CodeType, FrameType
from typing import NamedTuple


class Closure(NamedTuple):
    """A closure that an optimizer's step was called with."""

    optimizer: int
    """Its id."""
    step: CodeType
    """The function of torch's that every optimizer's step runs in."""

    def running(self, frame: FrameType | None) -> bool:
        """Whether that step still runs: nobody tells when one raises. `frame`: where to look, and upwards.

        Each step forgets the closure of the one before, so that any step that runs is the one.
        """
        while frame is not None:
            if frame.f_code is self.step:
                return True
            frame = frame.f_back
        return False
