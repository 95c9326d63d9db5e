"""The loop's tap in the demo: gputop's public calls, and what its hooks of a framework would have seen besides."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import gputop
from gputop.publisher import core
from gputop.publisher.segment import note_site
from gputop.simulation.identity import model
from gputop.simulation.physics import Physics


class LiveTap:
    """Steps and phases through `gputop.steps` and `gputop.phase`; no tensor is there for the hooks to count."""

    def steps(self, loader: Any) -> Any:
        """The loader's batches as steps."""
        return gputop.steps(loader)

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """A phase of the step."""
        return gputop.phase(name)

    @contextmanager
    def reads(self, count: int) -> Iterator[None]:
        """A `sync` phase at the caller's line, with as many reads as the sync hook would have seen there."""
        publisher, site, start = core.current, f"loop.py:{sys._getframe(2).f_lineno}", time.monotonic_ns()
        token = publisher.ledger.begin_phase("sync", start) if publisher is not None else None
        yield
        if publisher is not None and token is not None:
            end = time.monotonic_ns()
            note_site(token[0], (site, ".item()"), count, end - start)
            publisher.ledger.end_phase("sync", token, end)

    def copied(self, nbytes: int, pageable: int) -> None:
        """What the transfer hook would have counted."""
        publisher = core.current
        if nbytes and publisher is not None and publisher.ledger.loop.seg is not None:
            publisher.ledger.loop.seg.count("h2d_bytes", nbytes)
            publisher.ledger.loop.seg.count("h2d_pageable_bytes", pageable)


def say_model(physics: Physics) -> None:
    """Tell of the model, as the optimizer hook would at the first update."""
    publisher = core.current
    if publisher is not None and publisher.active:
        publisher.say(model(physics, publisher.run_id, time.time_ns()), "model")
