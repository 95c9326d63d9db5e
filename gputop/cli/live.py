"""`gputop`: the live view of this machine."""

from __future__ import annotations

from typing import Any

from gputop.cli.errors import Failure
from gputop.cli.show import has_screen, show, stream
from gputop.sources.live import LiveSource
from gputop.sources.subscriber import NoPlace


def live(options: dict[str, Any]) -> int:
    """Watch this machine: on the screen, as a stream with --plain, or one look when there is no terminal."""
    if options.get("plain"):
        return stream(open_live(options))
    if not has_screen():
        from gputop.cli.once import look

        return look(seconds=5.0, as_json=False, fail_on=(), cmdlines=not options.get("no_cmdline"))
    return show(open_live(options), options)


def open_live(options: dict[str, Any]) -> LiveSource:
    """The live source. Raises Failure when there is no place to meet trainers in."""
    try:
        return LiveSource(
            interval_s=min(1.0, options.get("refresh") or 1.0), cmdlines=not options.get("no_cmdline", False)
        )
    except NoPlace as error:
        raise Failure(str(error)) from None
