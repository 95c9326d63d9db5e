"""The player's line, the state corner, what was said then, and the recording: wording, places, degradation."""

from __future__ import annotations

import msgspec
import pytest

from gputop.tui.draw import recorded, transport
from gputop.tui.draw.header import state
from gputop.tui.draw.overview import compose
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import plain
from gputop.tui.pages import info, why
from gputop.view import Segment, View
from tests.tui import views
from tests.tui.grid import flatten


def text(view: View, width: int = 80, height: int = 24) -> str:
    return "\n".join(flatten(compose(Sight(view=view, slow=view), width, height), width, height))


def corner(view: View, width: int = 24) -> str:
    return plain(state(Sight(view=view, slow=view), width)).strip()


@pytest.mark.parametrize(
    ("changes", "wide", "narrow"),
    [
        ({"speed": 4.0}, "REPLAY  ► x4", "REPLAY  ► x4"),
        ({"speed": 0.25}, "REPLAY  ► x0.25", "REPLAY  ► x0.25"),
        ({"playing": False}, "REPLAY  ‖ paused", "REPLAY  ‖ paused"),
        ({"playing": False, "at_end": True}, "REPLAY  ■ end", "REPLAY  ■ end"),
        ({"live": True, "at_end": True}, "REPLAY  ● newest", "REPLAY  ● newest"),
        ({"replay": False, "playing": False, "long_ns": 884 * views.SECOND}, "‖ paused · 10 s behind", "‖ 10 s behind"),
        ({"replay": False, "playing": False, "long_ns": 872 * views.SECOND}, "‖ paused", "‖ paused"),
        ({"replay": False, "long_ns": 884 * views.SECOND}, "► past · 10 s behind", "► 10 s behind"),
    ],
)
def test_the_corner_says_where_the_picture_stands(changes: dict[str, object], wide: str, narrow: str) -> None:
    view = views.replay(**changes)
    assert corner(view) == wide
    assert corner(view, 18) == narrow
    assert corner(views.live()) == corner(views.live(), 18) == "● live · 14 min"


def test_the_corner_of_a_replay_still_says_that_a_run_ended() -> None:
    view = views.replay()
    ended = msgspec.structs.replace(view, runs=(views.run_view(state="ended"),))
    assert corner(ended) == "REPLAY  ► x1 · ended"


def test_a_live_picture_has_no_transport() -> None:
    assert transport.height_of(views.live(), 120, 40) == 0
    assert text(views.live()) == text(views.view())


def test_the_transport_shows_position_length_map_marks_and_speed() -> None:
    *_, marks, line, keys = text(views.replay(speed=4.0, skip_idle=True)).splitlines()
    assert line.startswith(" ► 0:14:32 / 1:12:03 ")
    assert line.endswith(" x4 ")
    assert transport.HERE in line
    assert marks.strip().startswith("21 Sep 14:13:20")
    assert marks.rstrip().endswith("skips idle")
    assert {"E", "+", "R"} <= set(marks)
    assert "go to" in keys


def test_80x24_loses_nothing_that_matters_to_the_transport() -> None:
    shown = text(views.replay_paused())
    for part in ("INPUT-WORKERS", "num_workers 4 → 10", "2.3x", "said then: gpu-bound", "data 57 %", "p50", "p95",
                 "GPU 0", "peak", "mem", "CPU", "why", "here", "K checkpoint", "REPLAY", "0:14:32 / 1:12:03",
                 "q quit"):  # fmt: skip
        assert part in shown, part


def test_the_transport_gives_way_at_small_sizes() -> None:
    view = views.replay()
    assert transport.height_of(view, 80, 24) == 2
    assert transport.height_of(view, 80, 21) == transport.height_of(view, 24, 7) == 1
    assert transport.height_of(view, 80, 6) == transport.height_of(view, 23, 24) == 0
    assert set(transport.blocks(view, 0, 30, 1)) == {"position"}


def test_the_map_holds_the_longest_verdict_of_each_cell() -> None:
    spans = (Segment(1000, 1020, "sync"), Segment(1020, 1100, "gpu-bound"), Segment(1140, 1200, "sync"))
    cursor = msgspec.structs.replace(views.cursor(), from_ns=1000, to_ns=1200, at_ns=1000, causes=spans)
    assert transport.causes(cursor, 4) == ["gpu-bound", "gpu-bound", "sync", "sync"]
    assert transport.causes(cursor, 2) == ["gpu-bound", "sync"]
    assert transport.causes(cursor, 10) == ["sync"] + ["gpu-bound"] * 4 + [None, None] + ["sync"] * 3


def test_cell_and_moment_belong_together() -> None:
    cursor = views.cursor()
    for cells in (1, 8, 53, 300):
        for cell in range(cells):
            assert transport.cell_of(transport.moment(cell, cursor, cells), cursor, cells) == cell
        assert transport.cell_of(cursor.from_ns, cursor, cells) == 0
        assert transport.cell_of(cursor.to_ns, cursor, cells) == cells - 1


def test_a_moment_without_training_is_not_told_how_to_start_one() -> None:
    shown = text(views.replay_gap())
    assert "nothing trained at this moment" in shown
    assert "gputop run" not in shown
    waiting = msgspec.structs.replace(views.replay_gap(), waiting="training begins at 14:20:05")
    assert "training begins at 14:20:05" in text(waiting)


def test_a_simulated_replay_is_called_so_at_every_usual_size() -> None:
    for width, height in ((60, 12), (80, 24), (120, 40), (200, 60)):
        shown = text(views.replay_simulated(), width, height)
        assert "simulated GPU" in shown
        assert "REPLAY" in shown


def test_what_was_said_then_has_its_place_on_the_page_of_reasons() -> None:
    view = views.replay_paused()
    shown = "\n".join(map(plain, why.draw(Sight(view=view, slow=view), 100)))
    assert "what was said at the time" in shown
    assert "gpu-bound, confidence 61 %, tentative" in shown
    assert "the GPU is the limit: it idles 4 % of a step" in shown
    assert "said at the time" not in "\n".join(map(plain, why.draw(Sight(view=views.view(), slow=views.view()), 100)))


def test_a_recording_shows_for_how_long_and_how_large() -> None:
    assert "● REC 1.3 MB" in text(views.recording()).splitlines()[0]
    assert "● REC 10 s · 1.3 MB" in text(views.recording(), 120, 40).splitlines()[0]
    assert "● REC 0 B" in text(views.recording(bytes=0)).splitlines()[0]
    assert "REC" not in text(views.live(), 120, 40)


def test_a_recording_in_trouble_says_so_and_why() -> None:
    lines = text(views.recording_waits(), 120, 40).splitlines()
    assert "! REC waiting" in lines[0]
    assert "recording waits: the disk is full" in lines[-1]
    assert "! REC waiting" in text(views.recording_waits(), 40, 8).splitlines()[0]
    ended = views.recording(state="ended", why="200 MB, the size asked for, are reached")
    assert "○ REC ended" in text(ended).splitlines()[0]
    assert "recording ended: 200 MB" in text(ended).splitlines()[-1]
    assert recorded.trouble(None) == ""


def test_the_page_of_sources_tells_of_time_and_recording() -> None:
    view = views.recording(dropped=3, said=("the disk was full for 12 s",))
    shown = "\n".join(map(plain, info.draw(Sight(view=view, slow=view), 120)))
    for part in ("what was collected so far, 0:15:00 long", "gputop-20260921-141000.gputop", "65 steps",
                 "for 12 s, 1.3 MB on disk",
                 "3 records lost", "the disk was full for 12 s"):  # fmt: skip
        assert part in shown, part
    replay = views.replay(skip_idle=True)
    assert "a recording, 1:12:03 long" in "\n".join(map(plain, info.draw(Sight(view=replay, slow=replay), 120)))
