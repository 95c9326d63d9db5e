"""Validation takes a large part of the run."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import Shape, shape
from gputop.diagnosis.wording import pct, time
from gputop.records import Advice

ID = "evaluation"
FAMILY = "episodic"

ENTER_PCT = 15.0
"""Percent of wall time from which validating is worth a word: a run without it is 1.18 times as fast. Less is what a
careful run spends (published practice warns at 20)."""

NOTICE_PCT = 5.0
"""Percent from which it is examined at all."""

RARE_SHARE = 0.5
"""Share of steps that may hold an evaluation for it to come in episodes."""


def examine(facts: Facts) -> Candidate | None:
    """How much of the run is validation, and how often it comes."""
    loop = facts.loop
    if loop is None or loop.wall_pct("eval") < NOTICE_PCT:
        return None
    share, form = loop.wall_pct("eval"), shape(loop, "eval")
    case = Case(facts)
    case.at_least("wall time in evaluation", share, ENTER_PCT, "%", "steps", 2.0)
    case.at_most("steps that hold an evaluation", form.long_steps / loop.n, RARE_SHARE, "", "steps", 0.5)
    if loop.eval_steps:
        case.at_least("batches evaluated", float(loop.eval_steps), 1, "", "steps", 0.5)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"validation takes {pct(share)} of the time: {_beat(form)}",
        evidence=case.evidence,
        advice=_advice(form, on_gpu=bool(facts.device.on_gpu)),
        speedup_limit=speedup(share),
        beside=True,
    )


def _beat(form: Shape) -> str:
    if not form.long_steps:
        return "one pass is going on"
    if form.period and form.period > 1:
        return f"{time(form.long_ms)} every {form.period} steps"
    return f"{time(form.long_ms)} each, seen {'once' if form.long_steps == 1 else f'{form.long_steps} times'}"


def _advice(form: Shape, *, on_gpu: bool) -> list[Advice]:
    now = f"every {form.period} steps" if form.period and form.period > 1 else "this often"
    rarer = f"every {5 * form.period}" if form.period and form.period > 1 else "less often"
    return [
        Advice(
            do=f"validate {rarer} instead of {now}, or on a fixed part of the data",
            why=f"each pass stops the training for {time(form.long_ms)}",
        ),
        Advice(
            do="evaluate without gradients, in larger batches"
            + (", with metrics kept on the device" if on_gpu else ""),
            why="a validation pass needs no activations and can use twice the batch",
            code="with torch.inference_mode():\n    ...",
        ),
    ]
