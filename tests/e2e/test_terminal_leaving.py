"""Leaving, on a real terminal: every way out restores it, with the right exit code, in time."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.tui.ptys import Terminal, left_properly

READY = b"confidence"

IN_TIME_S = 5.0
"""The budget is 0.5 s (see tests/benchmarks); a test run shares its cores, so only a hang fails here."""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)]
)
def test_a_signal_restores_the_terminal(number: signal.Signals, code: int) -> None:
    with Terminal("view") as terminal:
        before = terminal.attributes()
        terminal.wait_for(READY)
        terminal.read(0.3)
        assert terminal.attributes() != before
        os.kill(terminal.pid, number)
        assert terminal.ended() == (code, pytest.approx(0, abs=IN_TIME_S))
        assert left_properly(terminal.seen)
        assert terminal.attributes() == before
        assert b"Traceback" not in terminal.seen


@pytest.mark.parametrize("key", [b"q", b"\x03", b"\x11"])
def test_keys_that_quit(key: bytes) -> None:
    with Terminal("view") as terminal:
        terminal.wait_for(READY)
        terminal.press(key)
        assert terminal.ended() == (0, pytest.approx(0, abs=IN_TIME_S))
        assert left_properly(terminal.seen)


def test_q_leaves_a_page_too() -> None:
    with Terminal("view") as terminal:
        terminal.wait_for(READY)
        terminal.press(b"w")
        terminal.wait_for(b"speaks for it")
        terminal.press(b"q")
        assert terminal.ended()[0] == 0


@pytest.mark.parametrize("nohup", [False, True])
def test_a_vanished_terminal_ends_it(nohup: bool) -> None:
    with Terminal("view", nohup=nohup) as terminal:
        terminal.wait_for(READY)
        terminal.hang_up()
        assert terminal.ended() == (129, pytest.approx(0, abs=IN_TIME_S))


def test_a_terminal_that_vanished_while_it_started_ends_it() -> None:
    with Terminal("view", nohup=True) as terminal:
        while b"tests.tui.child" not in Path(f"/proc/{terminal.pid}/cmdline").read_bytes():
            time.sleep(0.001)
        terminal.hang_up()
        assert terminal.ended()[0] == 129


def test_quitting_while_the_terminal_has_stopped_reading() -> None:
    with Terminal("view", "refresh=0.1", "move=2", size=(200, 60)) as terminal:
        terminal.wait_for(READY)
        for _ in range(60):  # each page is some kilobytes: the terminal's buffer, then the writer's queue fill up
            terminal.press(b"w")
            time.sleep(0.01)
        time.sleep(0.5)
        terminal.press(b"q")
        began, status = time.monotonic(), 0
        while not status and time.monotonic() - began < 30:
            pid, status = os.waitpid(terminal.pid, os.WNOHANG) if not status else (0, status)
            if pid:
                break
            time.sleep(0.005)
        took = time.monotonic() - began
        terminal.status = status
        assert took < IN_TIME_S
        assert os.waitstatus_to_exitcode(status) == 0
        terminal.read(0.5)
        assert left_properly(terminal.seen)


def test_a_picture_that_will_not_close_does_not_hold_up_leaving() -> None:
    with Terminal("view", "hang=1") as terminal:
        terminal.wait_for(READY)
        terminal.press(b"q")
        assert terminal.ended() == (0, pytest.approx(0, abs=IN_TIME_S))
        assert left_properly(terminal.seen)


def test_a_crash_is_one_sentence_on_a_restored_terminal() -> None:
    with Terminal("view", "fail=1", "refresh=0.1") as terminal:
        assert terminal.ended()[0] == 1
        assert left_properly(terminal.seen)
        said = terminal.seen.rpartition(b"\x1b[?25h")[2]
        assert b"the screen failed (RuntimeError: the picture broke)" in said
        assert b"Traceback" not in terminal.seen
        assert said.count(b"\n") == 1


def test_a_crash_with_debug_shows_where() -> None:
    with Terminal("view", "fail=1", "refresh=0.1", "debug=1") as terminal:
        assert terminal.ended()[0] == 1
        assert b"Traceback" in terminal.seen


def test_suspending_gives_the_terminal_back_and_resuming_takes_it() -> None:
    with Terminal("view") as terminal:
        terminal.wait_for(READY)
        terminal.press(b"\x1a")
        deadline, status = time.monotonic() + 60, 0
        while not status and time.monotonic() < deadline:
            terminal.read(0.02)
            _, status = os.waitpid(terminal.pid, os.WUNTRACED | os.WNOHANG)
        assert os.WIFSTOPPED(status)
        terminal.read(0.2)
        assert left_properly(terminal.seen)
        terminal.seen = b""
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.wait_for(READY)
        assert b"\x1b[?1049h" in terminal.seen
        terminal.press(b"q")
        assert terminal.ended()[0] == 0
