"""When a headless recording ends: on a signal, after a time, with a run, or with the command it was started for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gputop.cli.detached import COMMAND
from gputop.recording.past import RECORDED
from gputop.records import Event
from gputop.view import RunView, View
from gputop.wire.cards import process_start

SETTLE_S = 1.2
"""After a command has ended: what its last records and the samplers' need to arrive."""

OVER = ("ended", "lost")


class Ending:
    """Asked after every view whether it is time."""

    def __init__(self, *, seconds: float | None = None, run_id: str | None = None, command: str | None = None) -> None:
        self.signal: int | None = None
        self._began = time.monotonic()
        self._seconds = seconds
        self._run_id = run_id
        self._run_seen = False
        self._command = command
        self._command_ended: float | None = None
        self._own: dict[str, bool] = {}
        self._marked: set[str] = set()

    @property
    def hung_up(self) -> bool:
        """Whether the terminal went away."""
        return self.signal == signal.SIGHUP

    def elapsed_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def words(self) -> str:
        """What ends it, for a person."""
        if self._run_id is not None:
            return f"until run {self._run_id} ends"
        if self._command is not None:
            return "until the command ends"
        return f"for {self._seconds:g} s" if self._seconds is not None else "until Ctrl+C or SIGTERM"

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Note SIGINT, SIGTERM and SIGHUP instead of dying of them. Under nohup SIGHUP stays ignored."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)

        def note(number: int, frame: FrameType | None) -> None:
            self.signal = number

        previous = {number: signal.signal(number, note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def over(self, view: View) -> bool:
        """Whether the recording should end now."""
        return (
            self.signal is not None
            or (self._seconds is not None and self.elapsed_s() >= self._seconds)
            or (self._run_id is not None and self._run_over(view, self._run_id))
            or (self._command is not None and self._command_over(view, self._command))
        )

    def _run_over(self, view: View, run_id: str) -> bool:
        found = next((run for run in view.runs if run.run.run_id == run_id), None)
        self._run_seen |= found is not None
        return self._run_seen and (found is None or found.state in OVER)

    def _command_over(self, view: View, command: str) -> bool:
        going = [run for run in view.runs if self._is_own(run, command) and run.state not in OVER]
        if _runs(command):
            return False
        if self._command_ended is None:
            self._command_ended = time.monotonic()
        return not going and time.monotonic() - self._command_ended >= SETTLE_S

    def marks(self, view: View) -> list[Event]:
        """For each new run of the command that is recorded, the event by which readers of the file know it."""
        if self._command is None:
            return []
        new = [run.run.run_id for run in view.runs if run.run.run_id not in self._marked]
        own = [run.run.run_id for run in view.runs if self._is_own(run, self._command)]
        self._marked.update(new)
        return [Event(t=view.now_ns, kind=RECORDED, run_id=run_id) for run_id in new if run_id in own]

    def _is_own(self, run: RunView, command: str) -> bool:
        """Whether the command, or something that it started, is this run. Asked while the process is there."""
        if run.run.run_id not in self._own:
            itself = command.startswith(f"{run.run.pid}:")  # also once it is gone and nothing more can be asked of it
            here = run.run.host == os.uname().nodename
            self._own[run.run.run_id] = here and (itself or started_by(run.run.pid, command))
        return self._own[run.run.run_id]


def started_by(pid: int, command: str) -> bool:
    """Whether a process is the command or carries its mark in the environment that it was started with."""
    if command == f"{pid}:{process_start(pid) or 0}":
        return True
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{COMMAND}={command}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def _runs(command: str) -> bool:
    """Whether the process still runs: it is there, is the same, and waits for no parent to notice its end."""
    pid, _, start = command.partition(":")
    try:
        with open(f"/proc/{int(pid)}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return False
    return fields[0] not in (b"Z", b"X") and fields[19].decode() == start
