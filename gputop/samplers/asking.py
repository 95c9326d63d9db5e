"""Questions and their answers: each field asked on its own, at its own pace, with its own memory of what can't be had.

One refused question costs its own fields and nothing else. What is not supported is asked again once a minute only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from gputop.samplers.protocol import S, Say

RETRY_NS = 60 * S
"""A driver may be upgraded or a mode switched off while gputop runs: what was refused is tried again this rarely."""

ALWAYS = 0
SLOW_NS = 2 * S
RARE_NS = 5 * S
ONCE = -1

T = TypeVar("T")


class Unsupported(Exception):  # noqa: N818
    """This device, driver or system does not have it."""


class Failed(Exception):  # noqa: N818
    """It exists but could not be had this time."""


class Question(Generic[T]):
    """What is asked of a `T`: the name of the call, the record's fields it fills, and how often to ask.

    `ask` returns the fields; one given as `Unsupported` or `Failed` (the class) is noted as such, one left out or None
    is absent.
    """

    __slots__ = ("ask", "call", "every_ns", "fields")

    def __init__(
        self, call: str, fields: Sequence[str], ask: Callable[[T], Mapping[str, Any]], every_ns: int = ALWAYS
    ) -> None:
        self.call = call
        self.fields = tuple(fields)
        self.ask = ask
        self.every_ns = every_ns


class Answers(Generic[T]):
    """The latest answers of one device or host, and the reasons of calls that failed. `refused` tells an error apart;
    what it raises ends the round."""

    def __init__(self, questions: Sequence[Question[T]], refused: Callable[[Exception], bool], label: str = "") -> None:
        """`refused(error)` is True when the error means "not supported", False when it means "failed"."""
        self.values: dict[str, Any] = {}
        self.unsupported: set[str] = set()
        self.failed: set[str] = set()
        self.answered = 0
        self.errors: list[Exception] = []
        self.reasons: dict[str, str] = {}
        self._refused = refused
        self._asked = [(question, f"{question.call}{label}") for question in questions]
        self._due = [0] * len(questions)

    def gather(self, subject: T, now_ns: int, say: Say) -> None:
        """Ask what is due."""
        self.answered = 0
        self.errors = []
        for at, (question, call) in enumerate(self._asked):
            if now_ns < self._due[at]:
                continue
            try:
                say(call)
                got = question.ask(subject)
            except Exception as error:
                self.errors.append(error)
                self._due[at] = now_ns + self._refuse(question, error)
            else:
                self.answered += 1
                self._accept(question, got)
                self._due[at] = _NEVER if question.every_ns == ONCE else now_ns + question.every_ns
        say("")

    def _accept(self, question: Question[T], got: Mapping[str, Any]) -> None:
        self.reasons.pop(question.call, None)
        for field in question.fields:
            value = got.get(field)
            self.failed.discard(field)
            if value is Unsupported or value is Failed:
                self.values.pop(field, None)
                self.unsupported.discard(field)
                (self.unsupported if value is Unsupported else self.failed).add(field)
                continue
            self.unsupported.discard(field)
            if value is None:
                self.values.pop(field, None)
            else:
                self.values[field] = value

    def _refuse(self, question: Question[T], error: Exception) -> int:
        """Note why the fields are absent; after how long to ask again."""
        unsupported = self._refused(error)
        self.reasons.pop(question.call, None)
        if not unsupported:
            self.reasons[question.call] = str(error) or type(error).__name__
        for field in question.fields:
            self.values.pop(field, None)
            (self.unsupported if unsupported else self.failed).add(field)
            (self.failed if unsupported else self.unsupported).discard(field)
        return RETRY_NS if unsupported else max(question.every_ns, RARE_NS if question.every_ns == ONCE else 0)

    def fields(self) -> dict[str, Any]:
        """The record's fields, with `unsupported` and `failed` where there are any."""
        fields = dict(self.values)
        if self.unsupported:
            fields["unsupported"] = sorted(self.unsupported)
        if self.failed:
            fields["failed"] = sorted(self.failed)
        return fields


_NEVER = 1 << 62
