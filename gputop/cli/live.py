"""`gputop`: the live view of this machine."""

from __future__ import annotations

from typing import Any

from gputop.cli.opening import open_live
from gputop.cli.show import ending_in_order, has_screen, show, stream


def live(options: dict[str, Any]) -> int:
    """Watch this machine: on the screen, as a stream with --plain, or one look when there is no terminal."""
    if options.get("plain"):
        return stream(open_live(options))
    if not has_screen():
        from gputop.cli.once import look

        return look(seconds=5.0, as_json=False, fail_on=(), cmdlines=not options.get("no_cmdline"))
    with ending_in_order():
        return show(open_live(options), options)
