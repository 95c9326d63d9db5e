"""The feed: views come, faults are kept, the end is seen, closing is prompt."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import pytest

from gputop.diagnosis.steady import AWAITED
from gputop.feed import Feed
from gputop.records import AnyRecord, Run, Step
from gputop.samplers.attach.tool import Refused
from gputop.tracks import S
from tests.sources.plain import Plain


class Fake(Plain):
    """A source that gives what it was given, one batch a poll."""

    def __init__(self, *batches: list[AnyRecord], fail: bool = False, endless: bool = False) -> None:
        super().__init__()
        self.batches = list(batches)
        self.fail = fail
        self.endless = endless
        self.closed = threading.Event()
        self.now = 30 * S

    def clock(self) -> int:
        return self.now

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        if self.batches:
            return self.batches.pop(0)
        if self.fail:
            raise RuntimeError("the source broke")
        self.closed.wait(min(timeout_s, 0.02))
        self.now += S // 10
        return []

    def warnings(self) -> list[str]:
        return ["a warning"]

    def waiting(self) -> str | None:
        return "waiting for something"

    def done(self) -> bool:
        return not self.batches and not self.fail and not self.endless

    def close(self) -> None:
        self.closed.set()


def training() -> list[AnyRecord]:
    steps = [Step(t=i * S, run_id="a", n=i, dur_ns=S, phases_ns={"data": S // 2}) for i in range(30)]
    return [Run(t=0, run_id="a", pid=1, host="h"), *steps]


def test_what_is_said_of_a_run_that_is_met_before_its_processes_are_sampled_is_tentative() -> None:
    feed = Feed(Fake(training(), endless=True)).start()
    view = feed.view()
    while not view.runs:
        view = feed.wait(view, 60)
    feed.close()
    assert view.runs[0].verdict.tentative
    assert AWAITED in view.runs[0].verdict.notices


class Asked(Fake):
    """A source that can be asked for profiles."""

    def __init__(self, *batches: list[AnyRecord], endless: bool = False) -> None:
        super().__init__(*batches, endless=endless)
        self.profiles: list[tuple[str, int]] = []

    def profile(self, run_id: str, steps: int) -> None:
        self.profiles.append((run_id, steps))
        self.closed.set()


@pytest.mark.parametrize("selected", ["b", None])
def test_a_profile_is_asked_of_the_run_that_is_meant(selected: str | None) -> None:
    source = Asked(training(), endless=True)
    feed = Feed(source).start()
    view = feed.view()
    while not view.runs:
        view = feed.wait(view, 60)
    feed.select(selected)
    feed.profile(10)
    assert source.closed.wait(60)
    feed.close()
    assert source.profiles == [(selected or "a", 10)]


def test_a_source_that_can_not_be_asked_makes_no_profile() -> None:
    feed = Feed(Fake(training())).start()
    feed.profile(10)
    feed._thread.join(60)
    assert feed.fault is None
    assert feed.view().runs


class Attached(Fake):
    """A source that watches a process from outside, or is not allowed to."""

    def __init__(self, why: str | None = None) -> None:
        super().__init__(training(), endless=True)
        self.why = why
        self.pids: list[int] = []

    def attach(self, pid: int, refused: Callable[[str], object] = print) -> None:
        if self.why is not None:
            raise Refused(self.why, "allow it")
        self.pids.append(pid)
        self.closed.set()


def test_a_process_is_attached_to_on_request() -> None:
    source = Attached()
    feed = Feed(source).start()
    feed.attach(4711)
    assert source.closed.wait(60)
    feed.close()
    assert source.pids == [4711]


@pytest.mark.parametrize(
    ("source", "said"),
    [(Attached("not allowed here"), "not allowed here: allow it"), (Fake(endless=True), "only what is live")],
)
def test_why_a_process_can_not_be_attached_to_is_told_and_the_feed_goes_on(source: Fake, said: str) -> None:
    told: queue.Queue[str] = queue.Queue()
    feed = Feed(source).start()
    feed.attach(4711, told.put)
    assert said in told.get(timeout=150)
    assert feed.fault is None
    assert not feed.view().warnings or feed.view().warnings == ("a warning",)
    feed.close()


def test_there_is_a_view_before_any_record() -> None:
    feed = Feed(Fake(endless=True))
    assert feed.view().runs == ()


def test_what_the_source_gave_is_in_the_last_view() -> None:
    feed = Feed(Fake(training())).start()
    feed._thread.join(60)
    view = feed.view()
    assert feed.ended()
    assert view.runs[0].steps_total == 30
    assert view.warnings == ("a warning",)
    assert view.waiting is None


def test_waiting_is_said_while_there_is_no_run() -> None:
    feed = Feed(Fake(endless=True)).start()
    assert feed.wait(feed.view(), 60).waiting == "waiting for something"
    feed.close()


def test_a_broken_source_ends_the_feed_and_keeps_the_last_view() -> None:
    feed = Feed(Fake(training(), fail=True)).start()
    feed._thread.join(60)
    assert isinstance(feed.fault, RuntimeError)
    assert feed.source.closed.is_set()  # type: ignore[attr-defined]


def test_closing_is_prompt_and_lets_go_of_the_source() -> None:
    source = Fake(endless=True)
    feed = Feed(source).start()
    feed.wait(feed.view(), 60)
    started = time.monotonic()
    feed.close()
    assert time.monotonic() - started < 5
    assert source.closed.is_set()


def test_one_bad_moment_is_survived_and_said() -> None:
    class Stumbling(Fake):
        stumbled = False

        def poll(self, timeout_s: float) -> list[AnyRecord]:
            if not self.stumbled:
                self.stumbled = True
                raise ValueError("a bad record")
            return super().poll(timeout_s)

    feed = Feed(Stumbling(training())).start()
    feed._thread.join(60)
    assert feed.fault is None
    assert feed.view().runs[0].steps_total == 30
    assert any("a bad record" in warning for warning in feed.view().warnings)


def test_a_feed_that_gave_up_does_not_call_itself_live() -> None:
    feed = Feed(Fake(training(), fail=True)).start()
    feed._thread.join(10)
    assert feed.view().source == "stopped"
