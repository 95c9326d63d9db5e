"""The terminal driver, with two things added: a key that quits is seen even while the event loop stands still, and what
is written is counted."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

QUIT_KEYS = frozenset({"q", "ctrl+c", "ctrl+q"})


def driver_class(
    on_quit: Callable[[], None], quits: frozenset[str] = QUIT_KEYS, wrote: Callable[[int], None] = lambda count: None
) -> type[LinuxDriver]:
    """A driver that calls `on_quit`, from its input thread, when a key that quits is pressed, and `wrote` with the
    number of bytes that go to the terminal."""

    class GuardedDriver(LinuxDriver):
        def process_message(self, message: Message) -> None:
            if isinstance(message, events.Key) and message.key in quits:
                on_quit()
            super().process_message(message)

        def write(self, data: str) -> None:
            wrote(len(data) if data.isascii() else len(data.encode("utf-8", "replace")))
            super().write(data)

    return GuardedDriver
