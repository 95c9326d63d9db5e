"""Saving stops the training."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import shape
from gputop.diagnosis.wording import pct, time
from gputop.records import Advice

ID = "checkpoint"
FAMILY = "episodic"

ENTER_PCT = 10.0
"""Percent of wall time in saving from which it is the verdict."""

NOTICE_PCT = 5.0
"""Percent from which it is examined at all (a published rule fires at 5)."""

RARE_SHARE = 0.5
"""Share of steps that may hold a save for it to come in episodes."""


def examine(facts: Facts) -> Candidate | None:
    """How much of the run is saving, and how often it comes."""
    loop = facts.loop
    if loop is None or loop.wall_pct("checkpoint") < NOTICE_PCT:
        return None
    share, form = loop.wall_pct("checkpoint"), shape(loop, "checkpoint")
    case = Case(facts)
    case.at_least("wall time in saving", share, ENTER_PCT, "%", "steps", 2.0)
    case.at_most("steps that hold a save", form.long_steps / loop.n, RARE_SHARE, "", "steps", 0.5)
    beat = (
        f"{time(form.long_ms)} every {form.period} steps"
        if form.period and form.period > 1
        else f"{time(form.long_ms or loop.ms('checkpoint'))} each"
    )
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"saving stops the training {pct(share)} of the time: {beat}",
        evidence=case.evidence,
        advice=[
            Advice(
                do="save in the background",
                why="only the copy to host memory must stop the training; writing need not",
                code="import torch.distributed.checkpoint as dcp\n"
                "saving = dcp.async_save(state_dict, checkpoint_id=path)\n"
                "saving.result()  # before the next save",
            ),
            Advice(
                do="or save less often, or only what is needed to go on",
                why=f"each save costs {beat.split(' each', maxsplit=1)[0]}",
            ),
        ],
        speedup_limit=speedup(share),
        beside=True,
    )
