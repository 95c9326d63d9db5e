"""What goes to a real terminal: a verdict that can be read, in its colours and characters, in few bytes."""

from __future__ import annotations

import base64
import re
import time

import pytest

from tests.tui.ptys import Terminal

READY = b"confidence"
COLOR = re.compile(rb"\x1b\[([0-9;]*;)?(3[0-9]|4[0-9]|9[0-7]|10[0-7])(;[0-9;]*)?m")


def test_the_verdict_can_be_read_off_the_screen() -> None:
    with Terminal("view") as terminal:
        text = terminal.shows(lambda lines: any(re.search(r"GPU 0 +37 %", line) for line in lines))
    assert "INPUT-WORKERS  workers can't keep up: 104 of 184 ms per step waits for data" in text
    assert "→ num_workers 4 → 10" in text
    assert "up to 2.3x faster · confidence 93 %" in text
    assert "data 57 %" in text


@pytest.mark.parametrize(
    ("state", "move", "ticks", "budget", "word"),
    [
        ("view", 1.0, 15, 1500, "theme=auto"),
        ("view", 0.25, 24, 4000, "theme=auto"),
        ("many_gpus", 1.0, 15, 3000, "theme=auto"),
        ("view", 5.0, 12, 400, "slow_link=1"),
    ],
)
def test_bytes_a_second_at_120x40(state: str, move: float, ticks: int, budget: int, word: str) -> None:
    """The clock of the picture runs faster than the wall's, the bytes of a second stay those of a second."""
    with Terminal(state, "refresh=0.1", f"move={move}", word, size=(120, 40)) as terminal:
        terminal.wait_for(READY)
        terminal.read(0.5)
        wrote = len(terminal.read(ticks * 0.1))
    seconds = ticks * move
    print(f"{state}, {word}, at {1 / move:g} Hz: {wrote / seconds:.0f} bytes a second")
    assert 0 < wrote / seconds < budget


def test_a_picture_that_stands_still_writes_nothing() -> None:
    with Terminal("view", "refresh=0.1", size=(120, 40)) as terminal:
        terminal.wait_for(READY)
        terminal.settle(0.7)
        assert terminal.read(1.0) == b""


def test_a_paused_picture_writes_only_how_far_it_lies_behind() -> None:
    with Terminal("view", "refresh=0.1", "move=1") as terminal:
        terminal.wait_for(READY)
        terminal.press(b" ")
        terminal.shows("behind")
        assert len(terminal.read(1.0)) < 200
        terminal.press(b" ")
        terminal.shows("● live")
        assert terminal.read(1.0)


@pytest.mark.parametrize(("words", "env"), [((), {"NO_COLOR": "1"}), (("no_color=1",), {})])
def test_without_color_no_escape_speaks_of_color(words: tuple[str, ...], env: dict[str, str]) -> None:
    with Terminal("view", *words, env=env) as terminal:
        terminal.wait_for(READY)
        terminal.press(b"w")
        terminal.wait_for(b"speaks for it")
        terminal.press(b"q")
        terminal.ended()
        assert COLOR.search(terminal.seen) is None
        assert "INPUT-WORKERS" in terminal.seen.decode()


def test_with_color_there_is_color() -> None:
    with Terminal("view") as terminal:
        terminal.wait_for(READY)
        assert COLOR.search(terminal.seen) is not None
        assert b"\x1b[38;2;" in terminal.seen


def test_sixteen_colors_are_the_terminals_own() -> None:
    with Terminal("view", env={"TERM": "xterm", "COLORTERM": ""}) as terminal:
        terminal.wait_for(READY)
        assert b"38;2;" not in terminal.seen
        assert b"38;5;" not in terminal.seen
        assert COLOR.search(terminal.seen) is not None


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("ascii=1",), {}),
        ((), {"TERM": "linux", "COLORTERM": ""}),
        ((), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    ],
)
def test_ascii_where_nothing_else_can_be_shown(words: tuple[str, ...], env: dict[str, str]) -> None:
    with Terminal("view", *words, env=env) as terminal:
        terminal.wait_for(READY)
        terminal.press(b"?\x1b[6~")
        terminal.wait_for(b"waiting for the next batch")
        terminal.press(b"q")
        terminal.ended()
        terminal.seen.decode("ascii")
        assert b"\\u2" not in terminal.seen
        assert b"num_workers 4 ->10" in terminal.seen


def test_a_terminal_of_no_size_is_taken_for_80x24() -> None:
    with Terminal("view", size=(0, 0)) as terminal:
        terminal.wait_for(READY)
        terminal.size = (80, 24)
        terminal.shows("INPUT-WORKERS")


def test_copying_goes_through_the_terminal_and_says_when_there_is_no_file() -> None:
    with Terminal("view", env={"HOME": "/dev/null"}) as terminal:  # OSC 52, and a folder that cannot be made
        terminal.wait_for(READY)
        terminal.press(b"y")
        terminal.wait_for(b"copied; not written")
        copied = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)", terminal.seen)
    assert copied is not None
    assert "train.py on gpu-box-3: input-workers" in base64.b64decode(copied[1]).decode()


def test_a_resized_terminal_is_drawn_anew() -> None:
    with Terminal("view") as terminal:
        terminal.wait_for(READY)
        terminal.resize((120, 40))
        terminal.wait_for(b"where a step goes")
        terminal.resize((40, 8))
        terminal.shows(lambda lines: "INPUT-WORKERS" in lines[1] and lines[6].startswith(" mean"))


def test_a_key_is_answered_on_a_slow_line() -> None:
    with Terminal("view", "refresh=0.25", "move=0.25", size=(120, 40)) as terminal:
        terminal.wait_for(READY)
        terminal.read(2.0, rate=50_000)
        began = time.monotonic()
        terminal.press(b"w")
        terminal.read(30.0, b"speaks for it", rate=50_000)
        took = time.monotonic() - began
    print(f"key to paint at 50 KB/s: {took * 1000:.0f} ms")
    assert took < 5.0, "the budget is 0.1 s: behind a queue of what nobody needs any more it would take far longer"
