"""The one way for a command to end with a sentence and a code."""

from __future__ import annotations


class Failure(Exception):  # noqa: N818
    """What is wrong and what to do, in a sentence; `code` is the exit code."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code
