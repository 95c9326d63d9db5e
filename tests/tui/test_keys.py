"""Keys that move in time and record: what they ask of the picture, what is said where they can't."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual import events
from textual.binding import Binding
from textual.pilot import Pilot

from gputop.recording import recorder
from gputop.recording.errors import Busy
from gputop.records import GpuProcess, Process, Site, SiteSample
from gputop.samplers import proc
from gputop.tui import keys, offering
from gputop.tui.app import GputopApp
from gputop.tui.draw import transport
from gputop.tui.pane import Pane
from gputop.tui.running import _tell
from gputop.tui.travel import MOVES
from tests.tui import views
from tests.tui.test_app import drive, text_of

S = views.SECOND
MAY_TRACE = offering.may_trace


def asked(shown: Any, pressed: list[str], **options: Any) -> tuple[list[tuple[Any, ...]], str]:
    """What the keys ask of the picture, and the screen after them."""
    out: list[Any] = []

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press(*pressed)
        out.append((list(picture.asked), text_of(app)))

    drive(shown, act, **options)
    return out[0]


MOVED: dict[str, tuple[Any, ...]] = {
    "space": ("toggle",),
    "left": ("seek_by", -2 * S),
    "right": ("seek_by", 2 * S),
    "pageup": ("seek_by", -2 * S * 56),
    "pagedown": ("seek_by", 2 * S * 56),
    "left_square_bracket": ("jump", -1),
    "right_square_bracket": ("jump", 1),
    "comma": ("step", -1),
    "full_stop": ("step", 1),
    "plus": ("faster",),
    "equals_sign": ("faster",),
    "minus": ("slower",),
    "0": ("seek", views.NOW - 872 * S),
    "home": ("seek", views.NOW - 872 * S),
    "end": ("to_end",),
    "G": ("to_end",),
    "dollar_sign": ("to_end",),
    "S": ("toggle_skip_idle",),
}
"""What each key asks of a replay in a terminal of 120 columns, whose histories hold 56."""


def test_each_key_asks_for_one_move() -> None:
    assert asked(views.replay(), list(MOVED))[0] == list(MOVED.values())


def test_on_a_page_the_keys_in_time_still_work_and_the_others_scroll() -> None:
    calls, shown = asked(views.replay(), ["w", "left", "space", "end", "home", "pageup", "dollar_sign"])
    assert calls == [("seek_by", -2 * S), ("toggle",), ("to_end",)]
    assert "0:14:32 / 1:12:03" in shown
    assert "speaks for it" in shown


REFUSED = {
    "plus": "+ and - are for a replay",
    "minus": "+ and - are for a replay",
    "S": "in a replay only",
    "right": "this is now; ← goes back in time",
    "end": "this is now",
}


def test_what_a_live_view_cannot_do_is_said() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        for key, says in REFUSED.items():
            await pilot.press(key)
            assert says in text_of(app)
        assert picture.asked == []

    drive(views.live(), act)


def test_a_picture_without_time_says_so() -> None:
    calls, shown = asked(views.view(), ["space", "left", "colon"])
    assert calls == []
    assert "no past to go to yet" in shown


def test_a_key_is_answered_without_waiting_for_the_next_look() -> None:
    """Looks are an hour apart here; the picture moves only after the key."""

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        moved = threading.Event()
        await pilot.press("space")
        picture.shown = views.replay(playing=False)
        app.call_later(moved.set)
        while "‖ paused" not in text_of(app):
            await asyncio.sleep(0)
        assert moved.is_set()

    drive(views.replay(), act)


def test_it_is_not_looked_for_ever() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("left")
        for _ in range(100):
            app.peek()
        picture.shown = views.replay(playing=False)
        await pilot.pause()
        assert "► x1" in text_of(app)

    drive(views.replay(), act)


def typed(text: str) -> list[str]:
    names = {":": "colon", "+": "plus", "-": "minus", "%": "percent_sign", " ": "space", "#": "number_sign"}
    return [names.get(char, char) for char in text]


GONE: dict[str, tuple[Any, ...]] = {
    "50%": ("seek", views.NOW - 872 * S + views.LONG // 2),
    "+30s": ("seek", views.NOW + 30 * S),
    "step 1200": ("seek_step", 1200),
    "0:01:00": ("seek", views.NOW - 812 * S),
    "14:20": ("seek", views.NOW + 400 * S),
}


def test_go_to_takes_what_it_promises() -> None:
    pressed = [key for text in GONE for key in ("colon", *typed(text), "enter")]
    calls, shown = asked(views.replay(), pressed)
    assert [call[:2] for call in calls] == list(GONE.values())
    assert "q quit" in shown


def test_a_step_that_there_is_not_is_answered() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("colon", *typed("step 99999"), "enter")
        ((_, n, absent),) = picture.asked
        assert n == 99999
        assert "no step" not in text_of(app)
        thread = threading.Thread(target=absent)
        thread.start()
        thread.join()
        await pilot.pause()
        assert "there is no step 99999 here" in text_of(app)

    drive(views.replay(), act)


def test_leaving_out_idle_stretches_is_answered() -> None:
    assert "stretches without training are left out" in asked(views.replay(), ["S"])[1]
    calls, shown = asked(views.replay(skip_idle=True), ["S"])
    assert calls == [("toggle_skip_idle",)]
    assert "stretches without training are shown again" in shown


def test_a_recording_that_nobody_writes_any_more_says_so() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        app.tick()
        assert "nobody writes" not in text_of(app)
        picture.shown = views.replay(playing=False, at_end=True)
        app.tick()
        assert "nobody writes into this recording any more" in text_of(app)

    drive(views.replay(live=True, at_end=True), act)


def test_go_to_says_what_is_wrong_and_lets_mend_it() -> None:
    calls, shown = asked(views.replay(), ["t", *typed("9:00"), "enter"])
    assert calls == []
    assert "9:00 lies outside of what there is: 1:12:03 long, 13:58:48 to 15:10:51" in shown
    calls, shown = asked(views.replay(), ["t", *typed("x"), "enter", "backspace", *typed("50%"), "enter"])
    assert len(calls) == 1
    calls, shown = asked(views.replay(), ["t", *typed("50%"), "escape"])
    assert calls == []
    assert "q quit" in shown


def test_while_a_place_is_typed_keys_do_nothing_else() -> None:
    calls, shown = asked(views.replay(), ["colon", "w", "S", "space", "left", "tab", "s", "h"])
    assert calls == []
    assert "go to wS sh" in shown


def test_what_is_typed_ahead_finds_its_question() -> None:
    """Keys that come before the first of them was dealt with, as over a slow connection."""

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        for key, character in (("colon", ":"), ("5", "5"), ("0", "0"), ("percent_sign", "%"), ("enter", "\r")):
            app.post_message(events.Key(key, character))
        await pilot.pause()
        await pilot.pause()
        assert picture.asked == [GONE["50%"]]

    drive(views.replay(), act)


def test_q_quits_even_then() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("colon", "1", "q")
        assert app.return_value == 0

    drive(views.replay(), act)


@pytest.mark.parametrize("size", [(1, 1), (20, 2), (40, 8), (60, 12)])
def test_go_to_works_at_every_size(size: tuple[int, int]) -> None:
    calls, _ = asked(views.replay(), ["colon", *typed("50%"), "enter"], size=size)
    assert len(calls) == 1


def test_a_click_on_the_map_goes_there() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        pane = app.screen.query_one("#map", Pane)
        await pilot.click("#map", offset=(20, 1))
        cursor = picture.shown.cursor
        assert cursor is not None
        assert picture.asked == [("seek", transport.moment(20, cursor, pane.size.width))]
        await pilot.click("#verdict", offset=(20, 1))
        assert len(picture.asked) == 1

    drive(views.replay(), act)


class Fake:
    """Stands for the recorder."""

    fault: Exception | None = None
    made: list[tuple[Path, bool]]

    def __init__(self, path: Path, *, cmdlines: bool = True) -> None:
        if type(self).fault is not None:
            raise type(self).fault
        type(self).made.append((path, cmdlines))

    def start(self) -> Fake:
        return self


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Fake]:
    kind = type("Own", (Fake,), {"made": [], "fault": None})
    monkeypatch.setattr(recorder, "Recorder", kind)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return kind


def record(shown: Any, **options: Any) -> tuple[list[tuple[Any, ...]], str]:
    """Presses R and waits for the answer, which comes from another thread."""
    out: list[Any] = []

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("R")
        while "record" not in app.note():
            await asyncio.sleep(0)
        out.append((picture.asked, app.note()))

    drive(shown, act, **options)
    return out[0]


def test_recording_begins_in_the_current_folder_and_says_where(fake: type[Fake], tmp_path: Path) -> None:
    calls, says = record(views.live(), no_cmdline=True)
    ((path, cmdlines),) = fake.made
    assert [call[0] for call in calls] == ["record"]
    assert path.parent == tmp_path
    assert path.name.startswith("gputop-")
    assert path.suffix == ".gputop"
    assert not cmdlines
    assert path.name in says
    assert "R ends it" in says


def test_a_folder_that_cannot_be_written_gives_way_to_the_state_folder(
    fake: type[Fake], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", gone)
    record(views.live())
    assert fake.made[0][0].parent == tmp_path / "state" / "gputop"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Busy("another gputop records into it"), "no recording: another gputop records into it"),
        (OSError(28, "No space left on device"), "no recording: no space left on device"),
        (RuntimeError("odd"), "no recording: RuntimeError: odd"),
    ],
)
def test_a_recording_that_cannot_begin_says_why(fake: type[Fake], fault: Exception, says: str) -> None:
    fake.fault = fault
    calls, answer = record(views.live())
    assert calls == []
    assert says in answer


def test_the_same_key_ends_it(fake: type[Fake]) -> None:
    calls, says = record(views.recording())
    assert calls == [("stop_recording",)]
    assert "gputop-20260921-141000.gputop; see gputop report" in says
    ended = msgspec.structs.replace(views.recording(state="ended"))
    calls, _ = record(ended)
    assert [call[0] for call in calls] == ["record"]


def test_where_it_was_recorded_is_told_when_the_screen_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "a run.gputop"
    there.write_bytes(b"x")
    recorded: dict[str, None] = {}

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        app.tick()
        picture.shown = views.recording(path=str(tmp_path / "deleted.gputop"))
        app.tick()
        picture.shown = views.live()
        app.tick()
        recorded.update(app.recorded)

    drive(views.recording(path=str(there)), act)
    assert len(recorded) == 2
    _tell(recorded)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"gputop: recorded into {there}; see gputop report '{there}'"
    assert said[1].startswith(f"gputop: no recording is left at {tmp_path / 'deleted.gputop'}: ")


def test_a_replay_is_not_recorded(fake: type[Fake]) -> None:
    calls, says = record(views.replay())
    assert calls == []
    assert "a recording already" in says


def bindings() -> list[Binding]:
    every = (*keys.GENERAL, *keys.IN_TIME, *keys.OVERVIEW, *keys.PAGE)
    return [binding for binding in every if isinstance(binding, Binding)]


def test_every_binding_has_an_id_of_its_own_a_description_and_if_shown_a_tooltip() -> None:
    ids = [binding.id for binding in bindings()]
    assert None not in ids
    assert len(set(ids)) == len(ids)
    for binding in bindings():
        assert binding.description
        assert binding.tooltip or not binding.show


def test_no_key_means_two_things_on_one_screen() -> None:
    for own in (keys.OVERVIEW, keys.PAGE):
        every = [
            key for binding in (*keys.GENERAL, *keys.IN_TIME, *own) if isinstance(binding, Binding)
            for key in binding.key.split(",")
        ]  # fmt: skip
        assert len(every) == len(set(every))


def test_every_move_has_a_key_and_every_key_a_move() -> None:
    named = {name for binding in bindings() for name in MOVES if f"travel('{name}')" in binding.action}
    assert named == set(MOVES)
    assert all(
        "travel" not in binding.action or any(f"'{n}'" in binding.action for n in MOVES) for binding in bindings()
    )


def test_a_profile_is_asked_for_and_its_answer_is_on_the_why_page() -> None:
    calls, shown = asked(views.live(), ["P"])
    assert calls == [("select", "r0"), ("profile", 10)]
    assert "asked pid 4242 to profile its next 10 steps" in shown
    _, shown = asked(views.live(), ["w"], size=(120, 60))
    assert "P asks the training" in shown
    _, shown = asked(views.profiled(), ["w", "end"], size=(120, 60))
    for part in ("of 10 steps, 40 s ago", "38 % of the time", "412 kernels a step of 61 µs each",
                 "2 waits for the device a step", "train.py:88", "aten::convolution_backward", "14 ms", "HtoD pageable",
                 "5.7 ms"):  # fmt: skip
        assert part in shown, part


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (views.replay(), "a recording can't be asked for a profile"),
        (views.no_run(), "no training to profile yet"),
        (views.view(runs=(views.run_view(state="ended"),)), "this training is ended"),
    ],
)
def test_where_there_can_be_no_profile_it_is_said(shown: Any, says: str) -> None:
    calls, screen = asked(shown, ["P"])
    assert calls == []
    assert says in screen


def test_a_training_without_a_publisher_is_attached_to_by_a_key() -> None:
    calls, shown = asked(views.no_run(), ["A"])
    assert [call[:2] for call in calls] == [("attach", 4242)]
    assert "watching process 4242 by samples" in shown


def test_a_process_whose_number_was_a_watched_runs_is_offered_all_the_same() -> None:
    gpu = GpuProcess(pid=4242, name="python", start_ticks=900)
    watched = views.run_view("r1")

    def offered(start: int | None) -> offering.Found | None:
        run = msgspec.structs.replace(watched.run, pid=4242, start_ticks=start)
        row = views.gpu_view()
        row = msgspec.structs.replace(row, gpu=msgspec.structs.replace(row.gpu, processes=[gpu]))
        return offering.attachable(views.view(runs=(msgspec.structs.replace(watched, run=run),), gpus=(row,)))

    found = offered(100)
    assert found is not None
    assert found.pid == 4242
    assert offered(900) is None
    assert offered(None) is None


def test_a_training_on_the_cpu_that_nobody_watches_is_attached_to_by_the_same_key() -> None:
    busy = Process(t=views.NOW, host="box", pid=77, name="python3", start_ticks=5, framework="torch")
    none = msgspec.structs.replace(views.no_run(), gpus=())
    calls, shown = asked(msgspec.structs.replace(none, unwatched=(busy,)), ["A"])
    assert [call[:2] for call in calls] == [("attach", 77)]
    assert "python3 computes with torch" in shown
    run = msgspec.structs.replace(views.run_view().run, pid=77, start_ticks=5)
    watched = msgspec.structs.replace(none, unwatched=(busy,), runs=(views.run_view(run=run),))
    assert offering.attachable(watched) is None


def test_why_it_can_not_be_attached_to_is_a_sentence_in_the_last_line() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("A")
        await asyncio.to_thread(picture.asked[0][2], "reading another process is not allowed here: run it with sudo")
        await pilot.pause()
        assert "not allowed here: run it with sudo" in text_of(app)

    drive(views.no_run(), act)


@pytest.mark.parametrize(
    ("shown", "says"), [(views.view(), "no Python process of yours"), (views.replay(), "a recording can't be attached")]
)
def test_where_there_is_nothing_to_attach_to_it_is_said(shown: Any, says: str) -> None:
    calls, screen = asked(shown, ["A"])
    assert calls == []
    assert says in screen


def test_others_processes_are_offered_to_root_alone() -> None:
    mine = proc.name_of(os.getuid())
    for owner, uid, may in [("ada", 0, True), ("ada", 4_000_000_000, False), (None, 4_000_000_000, True),
                            (mine, os.getuid(), True)]:  # fmt: skip
        assert MAY_TRACE(owner, uid) is may


def test_the_lines_of_a_worker_that_was_looked_into_are_on_the_why_page() -> None:
    seen = [("worker", "data.py:14", 20), ("data", "t.py:1", 9), ("worker", "data.py:9", 60)]
    sites = [SiteSample(phase=phase, site=site, samples=n) for phase, site, n in seen]
    found = Site(t=views.NOW - 40 * S, run_id="r0", sites=sites)
    _, shown = asked(views.view(runs=(views.run_view(worker=found),)), ["w", "end"], size=(120, 60))
    table = shown[shown.index("inside a loader worker") :].splitlines()
    assert "40 s ago" in table[0]
    assert [row.split()[:2] for row in table[2:4]] == [["data.py:9", "75"], ["data.py:14", "25"]]


def test_a_run_that_only_the_driver_tells_of_is_offered_to_be_attached_to() -> None:
    run = views.run_view("unannounced-77-1-GPU-0")
    run = msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, pid=77))
    calls, shown = asked(views.view(runs=(views.run_view("r1"), run)), ["tab", "A"])
    assert [call[:2] for call in calls] == [("select", run.run.run_id), ("attach", 77)]
    assert "A samples its stacks" in shown
    assert "A samples its stacks" not in asked(views.view(), [])[1]
    ended = msgspec.structs.replace(run, state="ended")
    assert "A samples its stacks" not in asked(views.view(runs=(ended,)), [])[1]
