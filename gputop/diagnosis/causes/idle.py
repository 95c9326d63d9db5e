"""Nothing is training."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate
from gputop.records import Advice

ID = "idle"
FAMILY = "state"


def nothing_trains(host: str) -> Candidate:
    """The answer for a machine on which no training run is known."""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=0.0,
        fit=1.0,
        headline=f"nothing that gputop can see is training on {host}",
        advice=[
            Advice(
                do="start a training under gputop run",
                why="gputop then sees its steps",
                code="gputop run -- python train.py",
            ),
            Advice(do="or add one line to the script", code="import gputop; gputop.watch()"),
        ],
        state=True,
    )
