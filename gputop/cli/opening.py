"""Opening the live source, for every command that watches this machine."""

from __future__ import annotations

from typing import Any

from gputop.cli.errors import Failure
from gputop.sources.live import LiveSource
from gputop.sources.subscriber import NoPlace


def open_live(options: dict[str, Any]) -> LiveSource:
    """The live source. Raises Failure when there is no place to meet trainers in."""
    try:
        return LiveSource(
            interval_s=min(1.0, options.get("refresh") or 1.0), cmdlines=not options.get("no_cmdline", False)
        )
    except NoPlace as error:
        raise Failure(str(error)) from None
