"""The replay: the same records at the moments they were over, at any speed, from anywhere; nothing of it blocks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.recording.errors import Unreadable
from gputop.recording.reader import Recording
from gputop.records import AnyRecord, Event, Record, Run, Step, Verdict, end_of
from gputop.sources.reel import Reel
from gputop.sources.replay import ReplaySource
from gputop.sources.tempo import SPEEDS
from tests.sources.recordings import MS, T0, S, key, mark, merged, recording, said, step, training, write

POLL_S = 0.1


class Hands:
    """A replay under a clock of our own: waiting is what makes time pass."""

    def __init__(self, source_of: Recording, **options: object) -> None:
        self.now = 0
        self.waits: list[float] = []
        self.source = ReplaySource(source_of, monotonic=lambda: self.now, wait=self._wait, **options)  # type: ignore[arg-type]

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += int(seconds * S)

    def poll(self) -> list[AnyRecord]:
        records = self.source.poll(POLL_S)
        past = self.source.jumped(2 * S)
        return [*(past.records if past is not None else ()), *records]

    def play(self, seconds: float) -> list[AnyRecord]:
        """Everything that comes in so many seconds of real time."""
        out: list[AnyRecord] = []
        until = self.now + int(seconds * S)
        while self.now < until:
            out += self.poll()
        return out

    def at(self) -> float:
        return (self.source.clock() - T0) / S


@pytest.fixture(scope="module")
def minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of steady training with three epochs and three verdicts."""
    path = tmp_path_factory.mktemp("rec") / "two-minutes.gputop"
    marks = [mark(T0 + 30 * S), mark(T0 + 60 * S), mark(T0 + 90 * S)]
    verdicts = [said(T0 + 10 * S, "input-cpu"), said(T0 + 50 * S, "input-cpu"), said(T0 + 70 * S, "gpu-bound")]
    write(path, merged(training(120), marks, verdicts))
    return path


@pytest.fixture
def hands(minute: Path) -> Iterator[Hands]:
    made = Hands(Recording(minute))
    yield made
    made.source.close()


class TestPlaying:
    """Time passes as it did, or faster, or not at all."""

    def test_records_come_when_they_were_over(self, hands: Hands) -> None:
        hands.poll()
        for _ in range(100):
            before = hands.source.clock()
            for record in hands.source.poll(POLL_S):
                assert before < end_of(record) <= hands.source.clock()
        assert hands.at() == pytest.approx(10, abs=0.2)

    def test_everything_comes_once(self, hands: Hands, minute: Path) -> None:
        got = hands.play(121)
        wanted = [key(record) for record in Recording(minute).records()]
        assert sorted(map(key, got)) == sorted(wanted)

    @pytest.mark.parametrize("speed", SPEEDS)
    def test_each_speed_is_kept(self, minute: Path, speed: float) -> None:
        hands = Hands(Recording(minute), speed=speed)
        hands.play(1.0)
        assert hands.at() == pytest.approx(min(120, speed), rel=0.2)
        hands.source.close()

    def test_no_more_than_a_second_comes_at_once_while_it_keeps_up(self, minute: Path) -> None:
        hands = Hands(Recording(minute), speed=60.0)
        hands.poll()
        for _ in range(100):
            before = hands.source.clock()
            hands.source.poll(POLL_S)
            assert hands.source.clock() - before <= S
        hands.source.close()

    def test_a_slow_machine_still_keeps_up_at_the_highest_speed(self, minute: Path) -> None:
        hands = Hands(Recording(minute), speed=120.0)
        hands.poll()
        for _ in range(5):
            hands.now += int(0.2 * S)
            hands.poll()
        assert hands.at() > 80
        hands.source.close()

    def test_a_replay_that_slept_goes_on_where_it_was(self, hands: Hands) -> None:
        hands.play(5)
        hands.now += 3600 * S
        hands.poll()
        assert hands.at() < 7

    def test_paused_it_stands_and_still_waits(self, hands: Hands) -> None:
        hands.play(5)
        hands.source.pause()
        before = hands.at()
        hands.waits.clear()
        assert hands.play(3) == []
        assert hands.at() == before
        assert hands.waits
        assert not hands.source.position().playing

    def test_it_never_spins(self, hands: Hands) -> None:
        hands.play(10)
        assert len(hands.waits) <= 10 / POLL_S + 2

    def test_speeds_go_up_and_down_and_end_somewhere(self, hands: Hands) -> None:
        for _ in SPEEDS:
            hands.source.faster()
        assert hands.source.position().speed == SPEEDS[-1]
        for _ in SPEEDS:
            hands.source.slower()
        assert hands.source.position().speed == SPEEDS[0]


class TestEnd:
    """What happens where there is no more."""

    def test_it_stops_at_the_end_and_can_be_gone_back(self, hands: Hands) -> None:
        hands.play(130)
        where = hands.source.position()
        assert where.at_end
        assert not where.playing
        assert not where.live
        assert not hands.source.done()
        hands.source.seek(T0 + 60 * S)
        hands.play(2)
        assert hands.at() == pytest.approx(62, abs=0.3)

    def test_play_at_the_end_begins_anew(self, hands: Hands) -> None:
        hands.source.to_end()
        hands.play(1)
        hands.source.play()
        hands.play(1)
        assert hands.at() < 3

    def test_where_nobody_comes_back_the_end_is_the_end(self, minute: Path) -> None:
        hands = Hands(Recording(minute), speed=120.0, done_at_end=True)
        assert not hands.source.done()
        hands.play(2)
        assert hands.source.done()
        hands.source.close()

    def test_it_can_begin_at_the_end(self, minute: Path) -> None:
        hands = Hands(Recording(minute), at_end=True)
        hands.poll()
        assert hands.at() == pytest.approx(120, abs=1)
        hands.source.close()

    def test_a_file_that_is_being_written_is_followed(self, tmp_path: Path) -> None:
        records = training(60)
        half = next(index for index, one in enumerate(records) if end_of(one) > T0 + 30 * S)
        writer = write(tmp_path / "r.gputop", records[:half], close=False)
        hands = Hands(Recording(tmp_path / "r.gputop"), at_end=True)
        hands.play(1)
        assert hands.source.position().live
        assert hands.source.position().playing
        for record in records[half:]:
            writer.add(record)
        writer.commit(T0 + 60 * S)
        steps = [one for one in hands.play(32) if isinstance(one, Step)]
        assert steps[-1].n == 299
        assert hands.source.position().to_ns >= T0 + 59 * S
        writer.close(T0 + 60 * S)
        hands.play(8)
        assert not hands.source.position().live
        assert hands.source.position().at_end
        hands.source.close()


class TestSeeking:
    """Anywhere at once, with all that is known there."""

    def test_a_moment_outside_is_the_nearest_there_is(self, hands: Hands) -> None:
        hands.source.seek(0)
        assert hands.source.position().at_ns == hands.source.position().from_ns
        hands.source.seek(2**62)
        assert hands.source.position().at_ns == hands.source.position().to_ns

    def test_the_totals_before_are_known(self, hands: Hands) -> None:
        hands.source.seek(T0 + 100 * S)
        assert hands.source.poll(POLL_S) == []
        past = hands.source.jumped(2 * S)
        assert past is not None
        exact = sum(isinstance(one, Step) for one in past.records)
        assert past.runs["a"].train_steps + exact == 500

    def test_marks_of_the_histories_come_along(self, hands: Hands) -> None:
        hands.source.seek(T0 + 100 * S)
        got = hands.poll()
        assert [(one.t - T0) // S for one in got if isinstance(one, Event)] == [30, 60, 90]

    def test_a_step_is_found_by_its_number(self, hands: Hands) -> None:
        assert hands.source.step_start(123, "a") == step(123).t
        assert hands.source.step_start(0, None) == step(0).t
        assert hands.source.step_start(10_000, "a") is None
        assert hands.source.step_start(1, "nobody") is None

    def test_stepping_goes_from_end_to_end(self, hands: Hands) -> None:
        hands.source.pause()
        hands.source.seek(T0 + 60 * S + 50 * MS)
        hands.poll()
        ends = []
        for direction in (1, 1, -1, -1, -1):
            end = hands.source.step_end(direction, "a")
            assert end is not None
            hands.source.seek(end)
            hands.poll()
            ends.append((end - T0) // MS)
        assert ends == [60_200, 60_400, 60_200, 60_000, 59_800]

    def test_there_is_no_step_beyond_the_last(self, hands: Hands) -> None:
        hands.source.to_end()
        hands.poll()
        assert hands.source.step_end(1, "a") is None
        hands.source.seek(0)
        hands.poll()
        assert hands.source.step_end(-1, "a") is None

    def test_an_evaluation_step_is_no_train_step(self, tmp_path: Path) -> None:
        records: list[Record] = list(training(20))
        quiet = [
            Step(t=T0 + 20 * S + i * 100 * MS, run_id="a", n=1000 + i, dur_ns=100 * MS, phases_ns={}, loader_id=2,
                 had_backward=False)
            for i in range(10)
        ]  # fmt: skip
        after = [step(200 + i, t=T0 + 21 * S + i * 200 * MS) for i in range(20)]
        hands = Hands(recording(tmp_path / "r.gputop", merged(records, quiet, after)), start_ns=T0 + 20 * S)
        hands.poll()
        assert hands.source.step_end(1, "a") == T0 + 21 * S + 200 * MS
        hands.source.close()

    def test_changes_and_marks_are_those_of_the_whole_span(self, hands: Hands) -> None:
        assert hands.source.changes("a") == ((T0 + 10 * S, "input-cpu"), (T0 + 70 * S, "gpu-bound"))
        assert [t for t, _ in hands.source.marks()] == [T0 + 30 * S, T0 + 60 * S, T0 + 90 * S]

    def test_before_the_first_recorded_verdict_nothing_is_known_though_it_trained(self, tmp_path: Path) -> None:
        met = [*training(60), said(T0 + 40 * S, "input-cpu")]
        hands = Hands(recording(tmp_path / "late.gputop", merged(met)))
        assert hands.source.changes("a") == ((T0, "unknown"), (T0 + 40 * S, "input-cpu"))
        hands.source.close()

    def test_it_knows_which_run_the_recording_was_made_for(self, hands: Hands, tmp_path: Path) -> None:
        assert hands.source.meant() == frozenset()
        own = Event(t=T0 + S, kind="recorded", run_id="b")
        beside = Hands(recording(tmp_path / "own.gputop", merged(training(20), training(20, run_id="b"), [own])))
        assert beside.source.meant() == {"b"}
        beside.source.close()


class TestIdle:
    """Stretches in which nothing trains."""

    @pytest.fixture
    def pauses(self, tmp_path: Path) -> Iterator[Hands]:
        first, later = training(20), [step(100 + i, t=T0 + 300 * S + i * 200 * MS) for i in range(100)]
        quiet = [one for one in training(320)[1:] if not isinstance(one, Step) and one.t > T0 + 20 * S]
        hands = Hands(recording(tmp_path / "r.gputop", merged(first, quiet, later)))
        yield hands
        hands.source.close()

    def test_they_pass_as_they_did_unless_asked(self, pauses: Hands) -> None:
        pauses.play(40)
        assert pauses.at() == pytest.approx(40, abs=0.5)

    def test_they_are_skipped_on_request(self, pauses: Hands) -> None:
        pauses.source.toggle_skip_idle()
        got = pauses.play(25)
        assert pauses.at() == pytest.approx(302, abs=4)
        assert max(one.n for one in got if isinstance(one, Step)) >= 100
        assert pauses.source.position().skip_idle

    def test_a_long_step_is_not_idle(self, tmp_path: Path) -> None:
        first, long = training(20), [step(0, 60_000, t=T0 + 20 * S)]
        hands = Hands(recording(tmp_path / "r.gputop", merged(first, long)))
        hands.source.toggle_skip_idle()
        hands.play(40)
        assert hands.at() == pytest.approx(40, abs=0.5)
        hands.source.close()

    def test_nothing_but_idle_is_the_end(self, tmp_path: Path) -> None:
        quiet = [one for one in training(200)[1:] if not isinstance(one, Step) and one.t > T0 + 20 * S]
        hands = Hands(recording(tmp_path / "r.gputop", merged(training(20), quiet)))
        hands.source.toggle_skip_idle()
        hands.play(30)
        assert hands.source.position().at_end
        hands.source.close()


class TestDamage:
    """A file that can't be read on is a warning and the end."""

    def test_an_error_in_the_middle_is_the_end(self, hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
        hands.play(20)

        def broken(*args: object, **more: object) -> None:
            raise Unreadable("r.gputop is damaged (database disk image is malformed)")

        monkeypatch.setattr(hands.source.recording, "numbered", broken)
        hands.play(101)
        assert hands.at() < 119
        assert hands.source.position().at_end
        assert hands.source.warnings() == ["r.gputop is damaged (database disk image is malformed)"]

    def test_a_moment_that_can_not_be_read_is_not_gone_to(self, hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
        hands.play(20)

        def broken(*args: object, **more: object) -> None:
            raise sqlite3.DatabaseError("database disk image is malformed")

        monkeypatch.setattr(hands.source.recording, "at", broken)
        before = hands.at()
        hands.source.seek(T0 + 100 * S)
        hands.poll()
        assert hands.at() == before
        assert hands.source.warnings()

    def test_pages_overwritten_in_the_middle(self, tmp_path: Path) -> None:
        path = tmp_path / "r.gputop"
        write(path, training(300))
        data = bytearray(path.read_bytes())
        data[len(data) // 3 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 3)
        path.write_bytes(data)
        try:
            hands = Hands(Recording(path), speed=120.0)
        except Unreadable:
            return
        hands.play(5)
        assert hands.source.warnings()
        assert hands.source.position().at_end
        hands.source.close()

    def test_a_time_that_nobody_believes_stops_nothing(self, tmp_path: Path) -> None:
        records: list[Record] = list(training(60))
        records.insert(100, Event(t=T0 + 10**6 * S, kind="marker", run_id="a"))
        hands = Hands(recording(tmp_path / "r.gputop", records))
        steps = [one for one in hands.play(60) if isinstance(one, Step)]
        assert len(steps) >= 295
        hands.source.close()


@pytest.fixture(scope="module")
def unordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute of two ranks whose steps come in batches up to four seconds late, long and short ones."""
    path = tmp_path_factory.mktemp("rec") / "unordered.gputop"
    steps = [step(n, 150, run_id=run) for n in range(400) for run in ("a", "b")]
    rest = [one for one in training(60, run_id="a") if not isinstance(one, Step)]
    long = [step(400, 9_000, t=T0 + 40 * S), step(401, 200, t=T0 + 52 * S)]
    late = {id(one): (end_of(one) // (4 * S) + 1) * 4 * S for one in steps if one.run_id == "b"}
    both = [*rest, *(one for one in training(60, run_id="b") if isinstance(one, Run)), *steps, *long]
    ordered = sorted(both, key=lambda one: (not isinstance(one, Run), late.get(id(one), end_of(one))))
    write(path, ordered)
    return path


@settings(max_examples=12, deadline=None)
@given(at=st.floats(0, 61), played=st.floats(0.1, 8))
def test_seek_and_play_give_what_playing_from_the_beginning_gives(unordered: Path, at: float, played: float) -> None:
    recorded = Recording(unordered)
    here, there = T0 + int(at * S), T0 + int((at + played) * S)
    whole, sought = Reel(recorded), Reel(recorded)
    whole.wind(recorded.at(recorded.info().from_ns))
    before = whole.upto(here)
    past = recorded.at(here)
    sought.wind(past)
    assert [key(one) for one in whole.upto(there)] == [key(one) for one in sought.upto(there)]
    known = {key(one) for one in past.records}
    assert all(key(one) in known for one in before if isinstance(one, Step) and end_of(one) > here - 10 * S)
    recorded.close()


ORDERS = ("play", "pause", "to_end", "faster", "slower", "toggle_skip_idle", "seek", "next", "back", "wait")


@settings(max_examples=20, deadline=None)
@given(orders=st.lists(st.tuples(st.sampled_from(ORDERS), st.floats(-20, 140)), max_size=25))
def test_any_orders_leave_a_position_that_makes_sense(unordered: Path, orders: list[tuple[str, float]]) -> None:
    hands = Hands(Recording(unordered))
    for order, number in orders:
        if order == "seek":
            hands.source.seek(T0 + int(number * S))
        elif order in ("next", "back"):
            end = hands.source.step_end(1 if order == "next" else -1, "a")
            hands.source.seek(end if end is not None else 0)
        elif order == "wait":
            hands.now += int(abs(number) * S)
        else:
            getattr(hands.source, order)()
        hands.poll()
        where = hands.source.position()
        assert where.from_ns <= where.at_ns <= where.to_ns
        assert where.speed in SPEEDS
        assert not where.live
        assert not (where.at_end and where.playing)
        assert where.at_end == (where.at_ns == where.to_ns)
    hands.source.close()


def test_verdicts_are_told_as_they_were_said(hands: Hands) -> None:
    assert [one.cause for one in hands.play(121) if isinstance(one, Verdict)] == ["input-cpu", "input-cpu", "gpu-bound"]
