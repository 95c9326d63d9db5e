"""What the training thread can note: numbers, names and times rather than objects, so that the collector passes by."""

from __future__ import annotations

from typing import Any

Entry = tuple[int, Any, int]
"""What is noted, what it is about, and when (monotonic ns)."""

(CPU, REQUEST, CONSTRUCT, ARRIVE, QUEUE, FAIL, CLOSE, BACKWARD, BACKWARD_DONE, OPTIMIZER, OPTIMIZER_DONE) = range(11)
(SAVE, SAVED, COPIED, SYNCED, BEGIN, END, END_READ, OWN_COST, OWN_TIME, SAY, BATCH, REST) = range(11, 23)
(COUNT, TICKS, TURN, WORKED, EXCHANGE, RESUME) = range(23, 29)
"""The kinds of entries. A mark's end is the number after its beginning."""

CPU_FROM_NS = 2_000_000
"""Requests that follow the last one sooner don't ask for the thread's CPU time: that costs up to a microsecond."""
