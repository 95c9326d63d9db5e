"""Poor surroundings: clocks that are set or jump, directories that are full."""

from __future__ import annotations

import contextlib
import time
from itertools import pairwise
from pathlib import Path

import pytest

import gputop
from gputop.publisher import core
from gputop.publisher.post import Post
from gputop.publisher.ring import FOLDS_NS, Ring, S
from gputop.publisher.segment import Segment, Source, to_record
from gputop.records import Event
from gputop.wire import cards
from gputop.wire.clocks import ClockWatch
from tests.publisher.driver import MS, Acted
from tests.publisher.processes import finish, start

HOUR = 3600 * S


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_is_a_moment_and_moves_no_step(emitted: list[Segment], step: int) -> None:
    wall = [0]
    begun = time.monotonic_ns()
    for n in gputop.steps(range(9)):
        publisher = core.current
        assert publisher is not None
        assert publisher.sender is not None
        if n == 0:
            publisher.sender._clocks = ClockWatch(publisher.offset_ns, wall=lambda: time.time_ns() + wall[0])
        if n == 4:
            wall[0] = step
        if n > 4:
            publisher.sender._watch_clock(time.monotonic_ns())
    publisher.stop()
    told = [one for one in (*publisher.ring.inbox, *publisher.ring.held) if isinstance(one, Event)]
    assert [one.label for one in told if one.kind == "clock"] == [f"the wall clock was set by {step / S:+.1f} s"]
    records = [to_record(seg, "r", publisher.offset_ns, knows_backward=False) for seg in emitted]
    assert len(records) == 9
    for one, following in pairwise(records):
        assert one.t + one.dur_ns == following.t, "one after the other"
    assert 0 <= records[0].t - (begun + publisher.offset_ns) < 10 * S


def test_a_process_that_was_stopped_for_an_hour_has_one_long_step() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for n in range(9):
        acted.batch(source, 1)
        acted.work(2)
        if n == 4:
            acted.now += HOUR
        acted.backward(3)
        acted.optimizer(1)
    steps = acted.finish()
    assert [round(ms) for _, ms, _ in steps] == [7] * 4 + [7 + HOUR // MS] + [7] * 4
    assert steps[4][2]["forward"] == 2 + HOUR / MS


@pytest.mark.parametrize("place", ["data", "forward", "backward", "between"])
def test_a_clock_that_runs_backwards_costs_one_step(place: str) -> None:
    acted = Acted()
    acted.now = HOUR
    source = acted.construct(Source(0))
    for n in range(9):
        back = HOUR // 2 if n == 4 else 0
        acted.ledger.request(source, acted.now)
        acted.work(1)
        acted.now -= back if place == "data" else 0
        acted.ledger.arrive(acted.now, 4)
        acted.work(2)
        acted.now -= back if place == "forward" else 0
        token = acted.ledger.backward(acted.now)
        acted.work(3)
        acted.now -= back if place == "backward" else 0
        acted.ledger.done(token, "backward", acted.now)
        acted.optimizer(1)
        acted.now -= back if place == "between" else 0
    acted.ledger.finish(acted.now)
    records = [to_record(seg, "r", 0, knows_backward=True) for seg in acted.steps]
    assert len(records) == 9
    assert all(one.dur_ns >= 0 for one in records)
    assert all(ns >= 0 for one in records for ns in one.phases_ns.values())
    assert sum(one.dur_ns == 7 * MS for one in records) == 8
    for one in records:
        assert sum(one.phases_ns.values()) <= one.dur_ns


def test_who_comes_after_ten_minutes_hears_of_the_last_two_without_a_hole() -> None:
    """Steps too fast for all to be held one by one."""
    acted, ring = Acted(), Ring()
    source = acted.construct(Source(0))
    every = 25
    for _ in range(10 * 60 * 1000 // every):
        acted.batch(source, 5)
        acted.backward(every - 5)
        for seg in acted.steps:
            ring.put(seg)
        acted.steps.clear()
        ring.collect(40)
    folds = ring.folds("r", lambda ns: ns)
    held = [seg for seg in ring.held if isinstance(seg, Segment)]
    assert len(held) < 100_000 / every < sum(fold.steps for fold in folds) + len(held)
    first = min(fold.t for fold in folds)
    assert acted.now - first >= FOLDS_NS
    assert sum(fold.dur_ns for fold in folds) + sum(seg.end - seg.start for seg in held) == (
        acted.now - every * MS - first
    )


def fill(folder: Path) -> None:
    """Leave no byte free."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def test_a_full_directory_costs_the_card_until_there_is_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    meeting = small_disk / "d"
    monkeypatch.setenv("GPUTOP_DIR", str(meeting))
    meeting.mkdir(mode=0o700)
    fill(small_disk)
    post = Post("r", "train.py")
    for _ in range(3):
        post.look()
    assert not cards.find("run", [meeting])
    assert not list(meeting.iterdir()), "no half of a card is left"
    said = [record.getMessage() for record in caplog.records if record.name == "gputop"]
    assert said == ["gputop: no directory to meet viewers in can be written to; set GPUTOP_DIR to a short private one"]
    (small_disk / "ballast").unlink()
    post.look()
    assert [found.card.id for found in cards.find("run", [meeting])] == ["r"]
    post.leave()
    assert not list(meeting.iterdir())


def test_a_training_beside_a_full_directory_trains_on(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_DIR", str(small_disk / "d"))
    script = small_disk / "script"
    script.mkdir()
    code = """
    import gputop, time
    for n in gputop.steps(range(60)):
        time.sleep(0.005)
    print(n)
    """
    process = start(script, code)
    fill(small_disk)
    assert int(finish(process)) == 59
