"""The guard: a thread that sees to it that leaving works, whatever the screen, the feed or the terminal does.

Signals reach it through a pipe that the interpreter's C handler writes to, and a terminal that vanished through
poll(), so neither needs the main thread. It asks the app to end; if the app has not ended after `GRACE_S`, it restores
the terminal itself, without ever waiting for one that no longer reads, and ends the process.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

GRACE_S = 0.3
"""How long the app may take to end by itself; with the restore and `CLOSE_S` it stays under half a second."""

CLOSE_S = 0.1
"""How long the picture may take to close once the app was given up."""

RESTORE_S = 0.1
"""How long a full terminal is tried before its reset is given up."""

RESTORE = (
    b"\x1b\\"  # ends a string that was cut in the middle
    b"\x1b[?2026l\x1b[?2048l\x1b[?2004l\x1b[?1004l"  # synchronized output, resize and focus reports, pasting
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # every kind of mouse report
    b"\x1b[<u\x1b[?7h\x1b[0m"  # kitty keys off, wrap on, plain style
    b"\x1b[?1049l\x1b[?25h"  # the shell's own screen, with its cursor
)
"""What undoes all that a full-screen app may have switched on."""

LOST_TTY = 128 + signal.SIGHUP

CODES: dict[int, int] = {
    signal.SIGINT: 0,
    signal.SIGTERM: 0,
    signal.SIGHUP: LOST_TTY,
    signal.SIGQUIT: 128 + signal.SIGQUIT,
}
"""Exit code for each signal that ends the screen."""

_KEPT = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH, signal.SIGTTOU, signal.SIGTTIN)
"""Signals that the driver takes over; their handlers are put back at the end."""


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    """A handler must exist for the interpreter to write the signal's number to the wakeup pipe."""


class Guard:
    """Owns leaving between `__enter__` and `__exit__` (main thread only).

    `ask` is called from the guard's thread to request an orderly end; `close` is called there only when the app was
    given up. `code` is the exit code once leaving has begun, None before.
    """

    def __init__(self, ask: Callable[[int], None], close: Callable[[], None], fds: tuple[int, ...] = (0, 2)) -> None:
        self.code: int | None = None
        self._ask, self._close = ask, close
        self._fds = tuple(fd for fd in fds if _is_tty(fd))
        self._tty = -1
        self._attributes: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wakeup_before = -1
        self._done = threading.Event()
        self._restored = False
        self._read, self._write = -1, -1
        self._thread = threading.Thread(target=self._watch, name="gputop-guard", daemon=True)

    def __enter__(self) -> Guard:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._remember_terminal()
        for signum in CODES:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._handlers[signum] = signal.signal(signum, _ignore)
        for signum in _KEPT:
            self._handlers[signum] = signal.getsignal(signum)
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._poke(0)
        self._thread.join(1.0)
        signal.set_wakeup_fd(self._wakeup_before)
        for signum, handler in self._handlers.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)
        self._reset_attributes()
        for fd in (self._read, self._write, self._tty):
            if fd >= 0:
                os.close(fd)

    def blind(self) -> bool:
        """Whether there is no terminal to be watched: it has vanished before anybody looked."""
        return not self._fds

    def restored(self) -> None:
        """The app has ended and given the terminal back: only closing is left, and may take its own time."""
        self._restored = True

    def leave(self, code: int) -> None:
        """Begins leaving, from any thread; the first code counts."""
        if self.code is None:
            self.code = code
        self._poke(_LEAVE)

    def _poke(self, byte: int) -> None:
        with suppress(OSError):  # a full pipe wakes the thread just as well
            os.write(self._write, bytes((byte,)))

    def _remember_terminal(self) -> None:
        for fd in self._fds:
            try:
                self._attributes = termios.tcgetattr(fd)
                # An open file description of our own: O_NONBLOCK on the inherited one would change the shell's too.
                self._tty = os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                return
            except (OSError, termios.error):
                continue

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        for fd in self._fds:
            poll.register(fd, 0)
        while not self._done.is_set():
            for fd, _ in poll.poll():
                if fd == self._read:
                    self._take(_drain(self._read))
                else:
                    poll.unregister(fd)
                    self.code = LOST_TTY if self.code is None else self.code
            if self.code is not None:
                self._see_off(poll)
                return

    def _take(self, numbers: bytes) -> None:
        for number in numbers:
            if number in CODES and self.code is None:
                self.code = CODES[number]

    def _see_off(self, poll: select.poll) -> None:
        code = self.code or 0
        deadline = time.monotonic() + GRACE_S
        self._ask(code)
        for fd in self._fds:
            with suppress(KeyError):
                poll.unregister(fd)
        while (left := deadline - time.monotonic()) > 0 and not self._done.is_set():
            if poll.poll(left * 1000) and any(number in CODES for number in _drain(self._read)):
                break  # asked a second time: at once
        if self._restored and not self._done.wait(CLOSE_S):
            os._exit(code)
        if not self._done.is_set():
            self._end(code)

    def _end(self, code: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU, signal.SIGTTIN))
        self._restore_screen()
        self._reset_attributes()
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        os._exit(code)

    def _restore_screen(self) -> None:
        """Writes `RESTORE`; what a terminal that stopped reading has not taken yet is thrown away to make room.

        The frames still queued must not follow it: they go to the null device. A write that already waits for room
        holds the terminal's lock, and only a stopped and restarted output makes it look again at the emptied buffer.
        """
        self._silence()
        left, deadline = RESTORE, time.monotonic() + RESTORE_S
        while left and self._tty >= 0 and time.monotonic() < deadline:
            try:
                left = left[os.write(self._tty, left) :]
            except BlockingIOError:
                try:
                    termios.tcflush(self._tty, termios.TCOFLUSH)
                    termios.tcflow(self._tty, termios.TCOOFF)
                    termios.tcflow(self._tty, termios.TCOON)
                except termios.error:
                    return
                time.sleep(0.002)
            except OSError:
                return

    def _silence(self) -> None:
        with suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            for fd in self._fds:
                if fd != 0:
                    os.dup2(null, fd)

    def _reset_attributes(self) -> None:
        if self._attributes is None or self._tty < 0:
            return
        with suppress(OSError, termios.error):  # a terminal that is gone has nothing to reset
            termios.tcsetattr(self._tty, termios.TCSANOW, self._attributes)


_LEAVE = 255
"""A byte that is no signal's number."""


def _drain(fd: int) -> bytes:
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""


def _is_tty(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
