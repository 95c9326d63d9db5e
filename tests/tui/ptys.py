"""A child process on a real pseudo-terminal, read by a terminal emulator."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyte

ROOT = Path(__file__).parents[2]
KITTY = re.compile(rb"\x1b\[[<>=][0-9;]*u|\x1b\[\?[0-9]+\$p")

CURSOR = b"\x1b[6n"
"""The question where the cursor is."""

PATIENCE_S = 120.0
"""What is waited for comes at once on a free machine; one that is slow and busy takes its time."""


class Terminal:
    """Starts the screen at once; everything it writes is kept in `seen`."""

    def __init__(
        self,
        *words: str,
        size: tuple[int, int] = (80, 24),
        env: dict[str, str] | None = None,
        nohup: bool = False,
        module: str = "tests.tui.child",
        cwd: Path = ROOT,
        python: str = sys.executable,
    ):
        self.size, self.seen, self.status = size, b"", None
        drop = ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES", "LC_ALL", "COLORFGBG", "TEXTUAL", "TMUX")
        around = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
        around |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        around |= {"HOME": "/dev/null"} | (env or {})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if nohup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            os.chdir(cwd)
            os.execve(python, [python, "-m", module, *words], around)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.hang_up()

    def hang_up(self) -> None:
        """Closes the terminal, as a lost connection does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def resize(self, size: tuple[int, int]) -> None:
        """Makes the terminal another size, as dragging its window does; what was seen before is forgotten."""
        self.size, self.seen = size, b""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def read(self, seconds: float, until: bytes = b"", rate: float | None = None) -> bytes:
        """What comes within `seconds`, or up to `until`; at most `rate` bytes a second."""
        out, end = b"", time.monotonic() + seconds
        while self.fd >= 0 and (left := end - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                some = os.read(self.fd, 65536 if rate is None else 512)
            except OSError:
                break
            if not some:
                break
            out += some
            if CURSOR in some:  # it is at home: what begins by asking waits for an answer
                os.write(self.fd, b"\x1b[1;1R")
            if until and until in out:
                break
            if rate is not None:
                time.sleep(len(some) / rate)
        self.seen += out
        return out

    def settle(self, seconds: float = 0.5) -> None:
        """Read until nothing has come for this long."""
        end = time.monotonic() + PATIENCE_S
        while self.read(seconds) and time.monotonic() < end:
            continue

    def wait_for(self, text: bytes, seconds: float = PATIENCE_S) -> None:
        """Read until these bytes have come."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.lines()
            self.read(0.5, text)

    def shows(self, text: str | Callable[[list[str]], bool], seconds: float = PATIENCE_S) -> str:
        """Read until the screen, as a person sees it, has this text or meets this condition; its lines as one text."""
        end = time.monotonic() + seconds
        while True:
            lines = self.lines()
            whole = "\n".join(lines)
            if text in whole if isinstance(text, str) else text(lines):
                return whole
            assert time.monotonic() < end, whole
            self.read(0.1)

    def ended(self, seconds: float = PATIENCE_S) -> tuple[int, float]:
        """The exit code, and how long it took from now."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
                took = time.monotonic() - began
                self.read(0.3)
                return os.waitstatus_to_exitcode(status), took
            self.read(0.01)
        raise AssertionError(f"still running after {seconds} s")

    def lines(self) -> list[str]:
        """The screen as a person sees it now."""
        screen = pyte.Screen(*self.size)
        pyte.ByteStream(screen).feed(KITTY.sub(b"", self.seen))
        return list(screen.display)

    def attributes(self) -> list[Any]:
        """The terminal's settings."""
        return termios.tcgetattr(self.fd)


def left_properly(seen: bytes) -> bool:
    """Whether the last word on alternate screen, cursor, mouse, paste and kitty keys is "off" (cursor: "on")."""
    on_off = ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b[?1003h", b"\x1b[?1003l"),
              (b"\x1b[?2004h", b"\x1b[?2004l"))  # fmt: skip
    return all(seen.rfind(off) > seen.rfind(on) for on, off in on_off) and seen.rfind(b"\x1b[<u") > seen.rfind(
        b"\x1b[>"
    )
