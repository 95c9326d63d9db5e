"""The time axis: orders take effect at once, what is live can be looked back at, and what is shown then was so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from gputop.axis import MOST_MARKS, thin
from gputop.causemap import CauseMap
from gputop.earlier import earlier
from gputop.feed import Feed
from gputop.lookback import LookBack
from gputop.recording.past import Past
from gputop.recording.reader import Recording
from gputop.recording.state import RecordingState
from gputop.records import AnyRecord, Event, Host, Loader, Record, Run, Step, Verdict
from gputop.sources.replay import ReplaySource
from gputop.view import Cursor, RunView, View, run_shown
from gputop.watching import Watch
from tests.sources.plain import Plain
from tests.sources.recordings import MS, T0, S, end_of, mark, merged, recording, run, said, step, training, write


class Live(Plain):
    """A live source under a clock of our own: `records` come when they are over."""

    name = "live"

    def __init__(self, records: Sequence[Record]) -> None:
        super().__init__()
        self.waiting_records = sorted(records, key=end_of)  # type: ignore[arg-type]
        self.now = T0

    def clock(self) -> int:
        return self.now

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        self.now += int(timeout_s * S)
        due = list(takewhile(lambda one: end_of(one) <= self.now, self.waiting_records))  # type: ignore[arg-type]
        del self.waiting_records[: len(due)]
        return due  # type: ignore[return-value]


class Driven:
    """A feed whose turns a test makes."""

    def __init__(self, source: Live | ReplaySource) -> None:
        self.source = source
        self.feed = Feed(source, monotonic=source.clock)

    def turn(self, times: int = 1) -> View:
        for _ in range(times):
            self.feed._show(self.feed._turn(False))
        return self.feed.view()

    def until(self, seconds: float) -> View:
        """Turn until the source's clock has come so far."""
        while self.source.clock() < T0 + int(seconds * S):
            self.turn()
        self.feed._show(True)
        return self.feed.view()

    def cursor(self) -> Cursor:
        cursor = self.feed.view().cursor
        assert cursor is not None
        return cursor

    def at(self) -> float:
        return (self.cursor().at_ns - T0) / S


def only(view: View) -> RunView:
    (found,) = view.runs
    return found


def live(seconds: float = 200, dur_ms: float = 200) -> Driven:
    return Driven(Live(training(seconds, dur_ms)))


class TestLookingBack:
    """A live view at an earlier moment."""

    def test_live_it_is_now(self) -> None:
        driven = live()
        driven.until(30)
        cursor = driven.cursor()
        assert cursor.live
        assert cursor.playing
        assert not cursor.replay
        assert cursor.at_ns == cursor.to_ns == driven.source.clock()

    def test_paused_the_view_stands_while_data_is_collected(self) -> None:
        driven = live()
        driven.until(30)
        driven.feed.pause()
        before = driven.turn()
        total = only(before).steps_total
        after = driven.until(60)
        assert only(after).steps_total == total
        assert after.now_ns == before.now_ns
        assert driven.cursor().to_ns > before.now_ns + 25 * S
        assert driven.feed.watch.timeline.runs["a"].train_steps > total + 100

    @pytest.mark.parametrize("back", ["play", "toggle", "to_end"])
    def test_back_to_now(self, back: str) -> None:
        driven = live()
        driven.until(30)
        driven.feed.seek_by(-10 * S)
        assert not driven.turn().cursor.live  # type: ignore[union-attr]
        driven.until(40)
        getattr(driven.feed, back)()
        view = driven.turn()
        assert driven.cursor().live
        assert only(view).steps_total == pytest.approx(200, abs=2)

    def test_within_two_minutes_everything_is_as_it_was(self) -> None:
        driven = live()
        then = driven.until(60)
        driven.until(150)
        driven.feed.seek(then.now_ns)
        back = driven.turn()
        for name in ("steps_total", "step_ms", "steps_per_s", "samples_per_s", "step_history", "state", "phase_history",
                     "first_ns", "last_ns", "gpu_uuid", "alive", "step_max_history"):  # fmt: skip
            assert getattr(only(back), name) == getattr(only(then), name), name
        for now, was in zip(only(back).ledger, only(then).ledger, strict=True):
            assert (now.phase, now.pct, now.ms) == (was.phase, pytest.approx(was.pct), pytest.approx(was.ms))
        assert only(back).verdict.cause == only(then).verdict.cause
        assert only(back).verdict.headline == only(then).verdict.headline
        assert only(back).verdict.since_ns == only(then).verdict.since_ns
        assert [gpu.gpu for gpu in back.gpus] == [gpu.gpu for gpu in then.gpus]
        assert [gpu.util_history for gpu in back.gpus] == [gpu.util_history for gpu in then.gpus]
        assert back.host == then.host
        assert back.last_column == then.last_column
        assert back.started_ns == then.started_ns

    def test_beyond_it_columns_tell_what_they_hold_and_no_more(self) -> None:
        driven = live(500, dur_ms=500)
        then = driven.until(100)
        driven.until(490)
        driven.feed.seek(then.now_ns)
        back = driven.turn()
        was, now = only(then), only(back)
        assert now.steps_total == was.steps_total
        assert now.step_ms is None
        assert now.steps_per_s == pytest.approx(was.steps_per_s, rel=0.05)
        assert now.samples_per_s == pytest.approx(was.samples_per_s, rel=0.05)
        assert {share.phase: round(share.pct) for share in now.ledger} == {
            share.phase: round(share.pct) for share in was.ledger
        }
        assert sum(share.pct for share in now.ledger) == pytest.approx(100)
        assert now.verdict.cause == was.verdict.cause
        assert now.verdict.since_ns == was.verdict.since_ns
        assert now.process is None
        assert now.alive is None
        assert now.step_history[:-1] == was.step_history[:-1]

    def test_a_gpu_whose_samples_are_gone_keeps_its_columns(self) -> None:
        driven = live(900, dur_ms=1000)
        then = driven.until(100)
        driven.until(890)
        driven.feed.seek(then.now_ns)
        (gpu,) = driven.turn().gpus
        assert gpu.gpu.power_w is None
        assert gpu.gpu.util_pct == then.gpus[0].util_history[-2]
        assert gpu.gpu.mem_total_bytes == 80
        assert gpu.util_history[:-1] == then.gpus[0].util_history[:-1]

    def test_the_past_has_a_beginning(self) -> None:
        driven = live(30)
        driven.until(30)
        driven.feed.seek(0)
        view = driven.turn()
        assert driven.at() == 0
        assert driven.cursor().from_ns == T0
        assert all(one.steps_total == 0 for one in view.runs)

    def test_a_run_that_began_later_was_not_there(self) -> None:
        late = [Run(t=T0 + 50 * S, run_id="b", pid=9, host="h", script="other.py")]
        late += [step(n, run_id="b", t=T0 + 50 * S + n * 200 * MS) for n in range(200)]  # type: ignore[misc]
        driven = Driven(Live(merged(training(100), late)))
        assert len(driven.until(90).runs) == 2
        driven.feed.seek(T0 + 40 * S)
        assert [one.run.run_id for one in driven.turn().runs] == ["a"]

    def test_a_run_that_ended_since_was_training(self) -> None:
        driven = Driven(Live(merged(training(60), [Event(t=T0 + 61 * S, kind="exit", run_id="a")])))
        assert only(driven.until(80)).state == "ended"
        driven.feed.seek(T0 + 50 * S)
        assert only(driven.turn()).state == "training"
        driven.feed.seek(T0 + 70 * S)
        assert only(driven.turn()).state == "ended"

    def test_a_very_fast_loop_is_exact_only_as_far_as_its_steps_are_held(self) -> None:
        driven = live(40, dur_ms=2)
        driven.until(39)
        driven.feed.seek(T0 + 20 * S)
        back = only(driven.turn())
        assert back.step_ms is None
        assert back.steps_total == pytest.approx(10_000, abs=2)
        driven.feed.seek(T0 + 38 * S)
        assert only(driven.turn()).step_ms is not None

    def test_stepping_through_what_is_held(self) -> None:
        driven = live()
        driven.until(60)
        seen = []
        for direction in (-1, -1, -1, 1):
            driven.feed.step(direction)
            driven.turn()
            seen.append(round(driven.at() * 1000))
        assert seen == [59_800, 59_600, 59_400, 59_600] or seen[0] - seen[1] == 200

    def test_there_is_no_speed_but_that_of_now(self) -> None:
        driven = live()
        driven.until(20)
        driven.feed.faster()
        driven.feed.slower()
        driven.feed.toggle_skip_idle()
        driven.turn()
        assert driven.cursor().speed == 1.0
        assert driven.cursor().live

    def test_a_moment_is_worked_out_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        driven = live()
        driven.until(60)
        calls = []
        monkeypatch.setattr("gputop.lookback.earlier", lambda watch, t: calls.append(t) or earlier(watch, t))
        driven.until(62)
        assert calls == []
        driven.feed.pause()
        driven.turn(20)
        assert len(calls) == 1


class TestReplaying:
    """A recording through the same feed."""

    @pytest.fixture
    def driven(self, tmp_path: Path) -> Driven:
        marks = [mark(T0 + 30 * S), mark(T0 + 90 * S)]
        verdicts = [said(T0 + 10 * S, "gpu-bound"), said(T0 + 70 * S, "gpu-bound")]
        return replayed(tmp_path / "r.gputop", merged(training(120), marks, verdicts))

    def test_it_starts_with_the_beginning(self, driven: Driven) -> None:
        view = driven.turn()
        cursor = driven.cursor()
        assert cursor.replay
        assert cursor.playing
        assert (cursor.from_ns, cursor.to_ns) == (T0, T0 + 120 * S)
        assert view.source == "r.gputop"
        assert view.started_ns == T0

    def test_playing_is_judged_as_it_was_live(self, driven: Driven) -> None:
        watched = Driven(Live(training(120)))
        then = only(watched.until(60))
        now = only(driven.until(60))
        assert now.verdict.cause == then.verdict.cause
        assert now.steps_total == pytest.approx(then.steps_total, abs=1)
        assert now.steps_per_s == pytest.approx(then.steps_per_s)

    def test_a_moment_is_there_with_all_its_histories(self, driven: Driven) -> None:
        watched = only(Driven(Live(training(120))).until(100))
        driven.turn()
        driven.feed.seek(T0 + 100 * S)
        view = driven.turn()
        run = only(view)
        assert run.steps_total == 500
        assert run.step_history[1:-1] == pytest.approx(watched.step_history[1:-1])
        assert run.verdict.cause == watched.verdict.cause
        assert not run.verdict.tentative
        assert run.state == "training"
        assert len([one for one in view.gpus[0].util_history if one is not None]) >= 50
        assert view.host is not None
        assert len([one for one in view.host.cpu_history if one is not None]) >= 50

    @pytest.mark.parametrize("at", [12, 30, 60, 119])
    def test_no_moment_calls_a_run_that_goes_on_young(self, driven: Driven, at: int) -> None:
        driven.turn()
        driven.feed.seek(T0 + at * S)
        assert only(driven.turn()).verdict.cause not in ("warmup", "unknown", "stalled")

    def test_what_was_said_stands_beside_what_is_said_now(self, driven: Driven) -> None:
        driven.turn()
        driven.feed.seek(T0 + 80 * S)
        run = only(driven.turn())
        assert run.said is not None
        assert run.said.cause == "gpu-bound"
        assert run.verdict.cause != "gpu-bound"
        driven.feed.seek(T0 + 5 * S)
        assert only(driven.turn()).said is None

    def test_what_agrees_is_not_said_twice_and_holds_since_then(self, tmp_path: Path) -> None:
        found = only(Driven(Live(training(60))).until(59)).verdict.cause
        driven = replayed(tmp_path / "s.gputop", merged(training(120), [said(T0 + 20 * S, found)]))
        driven.turn()
        driven.feed.seek(T0 + 100 * S)
        run = only(driven.turn())
        assert run.said is None
        assert run.verdict.since_ns == T0 + 20 * S
        driven.until(104)
        assert only(driven.feed.view()).verdict.since_ns == T0 + 20 * S

    def test_the_ribbon_shows_what_was_said_before(self, driven: Driven) -> None:
        driven.turn()
        driven.feed.seek(T0 + 100 * S)
        segments = only(driven.turn()).segments
        assert (segments[0].from_ns, segments[0].cause) == (T0 + 10 * S, "gpu-bound")
        assert all(a.to_ns <= b.from_ns for a, b in pairwise(segments))

    def test_orders_take_effect_in_one_turn(self, driven: Driven) -> None:
        driven.turn()
        for order, wanted in (
            (lambda: driven.feed.seek_pct(50), 60),
            (lambda: driven.feed.seek_by(-10 * S), 50),
            (lambda: driven.feed.seek_step(100), 20),
            (lambda: driven.feed.jump(1), 30),
            (lambda: driven.feed.jump(1), 90),
            (lambda: driven.feed.jump(1), 120),
            (lambda: driven.feed.jump(-1), 90),
            (lambda: driven.feed.jump(-1), 30),
            (lambda: driven.feed.jump(-1), 10),
            (driven.feed.to_end, 120),
        ):
            driven.feed.pause()
            order()
            driven.turn()
            assert driven.at() == wanted

    def test_a_step_that_there_is_not_is_told_and_nothing_moves(self, driven: Driven) -> None:
        told: list[int] = []
        driven.until(20)
        driven.feed.pause()
        driven.feed.seek_step(99_999, lambda: told.append(1))
        driven.turn()
        assert told == [1]
        assert driven.at() == 20
        driven.feed.seek_step(100, lambda: told.append(2))
        driven.turn()
        assert told == [1]

    def test_stepping_pauses(self, driven: Driven) -> None:
        driven.until(20)
        driven.feed.step(1)
        driven.turn()
        assert not driven.cursor().playing
        first = driven.at()
        driven.feed.step(1)
        driven.turn()
        assert driven.at() == pytest.approx(first + 0.2)

    def test_going_back_while_playing_leaves_the_mark_behind(self, driven: Driven) -> None:
        driven.turn()
        driven.feed.jump(1)
        driven.turn()
        driven.feed.jump(1)
        driven.turn(3)
        driven.feed.jump(-1)
        driven.turn()
        assert driven.at() == pytest.approx(10, abs=0.5)

    def test_paused_nothing_is_drawn_anew(self, driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
        driven.until(20)
        driven.feed.pause()
        before = driven.turn()
        monkeypatch.setattr(Watch, "view", lambda *args, **more: pytest.fail("drawn"))
        driven.feed._show(True)
        assert driven.feed.view().runs is before.runs

    def test_the_map_holds_the_whole_span(self, driven: Driven) -> None:
        driven.turn()
        (segment,) = driven.cursor().causes
        assert (segment.from_ns, segment.to_ns, segment.cause) == (T0 + 10 * S, T0 + 120 * S, "gpu-bound")
        assert driven.cursor().marks == ((T0 + 30 * S, "epoch"), (T0 + 90 * S, "epoch"))

    def test_a_run_of_choice(self, tmp_path: Path) -> None:
        both = merged(training(60, world=2), training(60, 500, run_id="b", rank=1, world=2))
        driven = replayed(tmp_path / "two.gputop", both)
        driven.turn()
        driven.feed.seek_step(40)
        driven.turn()
        assert driven.at() == 8
        driven.feed.select("b")
        driven.turn()
        driven.feed.seek_step(40)
        driven.turn()
        assert driven.at() == pytest.approx(20, abs=0.2)

    def test_recording_a_replay_is_refused(self, driven: Driven) -> None:
        taped = Tape()
        driven.feed.record(taped)  # type: ignore[arg-type]
        view = driven.turn()
        driven.feed._taping.close()
        assert view.recording is None
        assert taped.closed
        assert any("already" in warning for warning in driven.turn().warnings)


def replayed(path: Path, records: Sequence[Record]) -> Driven:
    """A feed over a recording of these records, under a clock that waiting moves on."""
    now = [0]
    source = ReplaySource(
        recording(path, records),
        monotonic=lambda: now[0],
        wait=lambda seconds: now.__setitem__(0, now[0] + int(seconds * S)),
    )
    driven = Driven(source)
    driven.feed._monotonic = lambda: now[0]
    return driven


class TestWithoutVerdicts:
    """A recording in which nothing was said is judged in slices."""

    def test_the_map_fills_while_it_plays(self, tmp_path: Path) -> None:
        driven = replayed(tmp_path / "r.gputop", training(120))
        driven.feed.pause()
        driven.turn(2)
        before = len(driven.cursor().causes)
        for _ in range(60):
            driven.turn()
            driven.feed._show(True)
        causes = driven.cursor().causes
        assert before <= 1
        assert causes[-1].to_ns == pytest.approx(T0 + 120 * S, abs=5 * S)
        assert causes[-1].cause.startswith("input")
        driven.feed.seek(T0 + 100 * S)
        run = only(driven.turn())
        assert run.verdict.since_ns is not None
        assert run.verdict.since_ns < T0 + 60 * S
        assert run.segments[0].from_ns < T0 + 20 * S

    def test_what_is_not_judged_yet_is_no_part_of_the_ribbon(self, tmp_path: Path) -> None:
        driven = replayed(tmp_path / "r.gputop", training(600))
        driven.until(2)
        driven.feed.pause()
        for _ in range(60):
            driven.turn()
            driven.feed._show(True)
            causes = driven.cursor().causes
            if causes:
                break
        judged = causes[-1].to_ns
        driven.feed.seek(T0 + 590 * S)
        run = only(driven.turn())
        before, after = run.segments
        assert before.cause == after.cause == run.verdict.cause
        assert before.to_ns <= judged + 10 * S
        assert judged + 60 * S < after.from_ns < after.to_ns == T0 + 590 * S
        assert run.verdict.since_ns is not None
        assert run.verdict.since_ns > judged + 60 * S
        gap = run.cause_history[-(590 - (judged - T0) // S) // 2 + 10 : -(590 - (after.from_ns - T0) // S) // 2 - 1]
        assert gap
        assert set(gap) == {None}

    def test_each_run_has_a_map_of_its_own(self, tmp_path: Path) -> None:
        both = merged(training(120, world=2), training(60, 500, run_id="b", rank=1, world=2))
        driven = replayed(tmp_path / "r.gputop", both)
        driven.feed.pause()
        for _ in range(60):
            driven.turn()
            driven.feed._show(True)
        first = driven.cursor().causes
        driven.feed.select("b")
        assert driven.turn().cursor.causes != first  # type: ignore[union-attr]
        for _ in range(60):
            driven.turn()
            driven.feed._show(True)
        second = driven.cursor().causes
        assert second
        assert second != first
        driven.feed.select("a")
        assert driven.turn().cursor.causes == first  # type: ignore[union-attr]
        driven.feed.seek(T0 + 50 * S)
        starts = {run.run.run_id: run.segments[0].from_ns for run in driven.turn().runs}
        assert starts == {"a": first[0].from_ns, "b": second[0].from_ns}

    def test_the_map_is_that_of_the_run_that_the_screen_shows(self, tmp_path: Path) -> None:
        early = Run(t=T0, run_id="0", pid=9, host="h", start_ns=T0, script="a.py")
        driven = replayed(tmp_path / "r.gputop", merged([early], training(120)))
        driven.until(30)
        view = driven.feed.view()
        assert [run.run.run_id for run in view.runs] == ["a", "0"], "what tells no steps comes last"
        shown = run_shown(view, None)
        assert shown is not None
        assert driven.feed._axis.run_id == shown.run.run_id == "a"

    def test_it_ends_where_the_file_can_not_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        driven = replayed(tmp_path / "r.gputop", training(120))
        driven.turn()
        monkeypatch.setattr(ReplaySource, "moment", broken)
        driven.turn(30)
        driven.feed._show(True)
        assert len(driven.cursor().causes) <= 1

    def test_a_short_one_is_judged_once(self, tmp_path: Path) -> None:
        source = ReplaySource(recording(tmp_path / "r.gputop", training(4)))
        causes = CauseMap(source, "a")
        causes.judge_one()
        assert causes.done()
        source.close()


def broken(*args: object) -> Past:
    from gputop.recording.errors import Unreadable

    raise Unreadable("damaged")


class Tape:
    """A recorder that only remembers."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.closed = False

    def start(self) -> Tape:
        return self

    def add(self, records: Sequence[Record]) -> None:
        self.records += records

    def state(self) -> RecordingState:
        return RecordingState(path="x.gputop", since_ns=T0, steps=len(self.records))

    def close(self, timeout_s: float = 2.0) -> None:
        self.closed = True


class TestRecording:
    """What a recorder is handed."""

    def test_what_is_known_comes_first_then_all_that_comes(self) -> None:
        loader = Loader(t=T0, run_id="a", loader_id=1, num_workers=4)
        driven = Driven(Live(merged(training(60), [loader])))
        driven.until(20)
        tape = Tape()
        driven.feed.record(tape)  # type: ignore[arg-type]
        driven.turn()
        assert isinstance(tape.records[0], Run)
        assert loader in tape.records
        assert any(isinstance(one, Verdict) for one in tape.records)
        driven.until(30)
        steps = [one.n for one in tape.records if isinstance(one, Step)]
        assert steps == list(range(steps[0], 150))
        view = driven.feed.view()
        assert view.recording is not None
        assert view.recording.path == "x.gputop"

    def test_verdicts_are_handed_on_when_they_change_and_once_a_minute(self) -> None:
        driven = live(200)
        tape = Tape()
        driven.feed.record(tape)  # type: ignore[arg-type]
        driven.until(190)
        verdicts = [one for one in tape.records if isinstance(one, Verdict)]
        assert verdicts[0].cause == "warmup"
        assert 4 <= len(verdicts) <= 8
        assert all(
            (a.cause, a.tentative) != (b.cause, b.tentative) or b.t - a.t >= 60 * S for a, b in pairwise(verdicts)
        )

    def test_it_ends_on_request_and_with_the_feed(self) -> None:
        driven = live()
        first, second = Tape(), Tape()
        driven.feed.record(first)  # type: ignore[arg-type]
        driven.until(5)
        driven.feed.stop_recording()
        assert driven.turn().recording is None
        driven.feed.record(second)  # type: ignore[arg-type]
        driven.until(10)
        driven.feed._taping.close()
        assert first.closed
        assert second.closed

    def test_looking_back_records_on(self) -> None:
        driven = live()
        driven.until(20)
        tape = Tape()
        driven.feed.record(tape)  # type: ignore[arg-type]
        driven.feed.seek_by(-5 * S)
        driven.until(30)
        assert max(one.n for one in tape.records if isinstance(one, Step)) == 149


def test_marks_of_frequent_kinds_give_way_to_rare_ones() -> None:
    marks = [*((t, "epoch") for t in range(0, 10_000, 2)), (3, "oom"), (9_001, "marker")]
    kept = thin(tuple(sorted(marks)))
    assert len(kept) <= MOST_MARKS
    assert {kind for _, kind in kept} == {"epoch", "oom", "marker"}
    assert thin(kept) == kept
    assert kept == tuple(sorted(kept))


def test_an_order_wakes_the_source_and_an_error_in_it_is_said() -> None:
    driven = live()
    driven.feed.seek_pct(float("nan"))
    assert driven.source.woken == 1  # type: ignore[union-attr]
    assert any("went wrong" in warning for warning in driven.turn().warnings)


def test_orders_to_a_feed_on_its_thread(tmp_path: Path) -> None:
    write(tmp_path / "r.gputop", training(120))
    feed = Feed(ReplaySource(Recording(tmp_path / "r.gputop"))).start()
    try:
        view = feed.wait(feed.view(), 60)
        while view.cursor is None:
            view = feed.wait(view, 60)
        feed.pause()
        feed.seek(T0 + 60 * S)
        deadline = time.monotonic() + 60
        while (cursor := feed.view().cursor) is None or cursor.at_ns != T0 + 60 * S:
            assert time.monotonic() < deadline
            feed.wait(feed.view(), 1)
        assert only(feed.view()).steps_total == 300
    finally:
        feed.close()
    assert feed.fault is None
    assert feed.ended()


def test_no_look_back_without_asking() -> None:
    watch = Watch()
    look = LookBack(watch, lambda: T0)
    assert look.then() is None
    assert look.position().from_ns == T0
    watch.add(run())
    watch.add(Host(t=T0 - 5 * S, host="h", cpu_pct=1.0))
    assert look.position().from_ns == T0 - 5 * S
