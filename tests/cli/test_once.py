"""When `gputop once` answers: with views and a clock of the test's own."""

from __future__ import annotations

import msgspec
import pytest

from gputop.cli import once
from gputop.view import RunView, View
from tests.tui.views import NOW, run_view, view

MET = run_view(process=None)
SAMPLED = run_view()


class Looking:
    """Stands for source, feed and clock: each wait takes half a second and shows the next view, at last the same."""

    fault = None

    def __init__(self, *views: View) -> None:
        self.views, self.waits = views, 0

    def start(self) -> Looking:
        return self

    def close(self) -> None:
        """Nothing to close."""

    def view(self) -> View:
        return self.views[min(self.waits, len(self.views)) - 1]

    def wait(self, _last: View | None, _seconds: float) -> View:
        self.waits += 1
        return self.view()

    def monotonic(self) -> float:
        return self.waits / 2


def waited(monkeypatch: pytest.MonkeyPatch, *runs: RunView, seconds: float = 30) -> float:
    """Seconds until the answer, one view of each of these every half second."""
    looking = Looking(*(view(runs=(run,)) for run in runs))
    monkeypatch.setattr(once, "open_live", lambda _flags: looking)
    monkeypatch.setattr(once, "Feed", lambda _source, **_more: looking)
    monkeypatch.setattr(once, "time", looking)
    assert once.look(seconds=seconds, as_json=False, fail_on=(), cmdlines=True) == 0
    return looking.monotonic()


def sampled(run: RunView, tree_pct: float | None) -> RunView:
    assert run.process is not None
    return msgspec.structs.replace(
        run, last_ns=NOW, process=msgspec.structs.replace(run.process, tree_cpu_pct=tree_pct)
    )


def test_a_sure_verdict_is_told_once_it_was_judged_with_what_the_runs_processes_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = sampled(SAMPLED, None), sampled(SAMPLED, 190.0)
    judged = msgspec.structs.replace(second, verdict=msgspec.structs.replace(second.verdict, t=NOW + 1))
    assert waited(monkeypatch, second, *[judged] * 20) == 3.0
    assert waited(monkeypatch, *[MET] * 4, first, *[second] * 3, judged) == 4.5


def test_a_run_whose_processes_cannot_be_seen_from_here_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, MET) == 5.5
    assert waited(monkeypatch, MET, seconds=3) == 3.0
