"""The verdict: what a window says (`judge`), what holds for a run over time (`Judge`), and that nothing trains."""

from __future__ import annotations

from gputop.diagnosis.causes import idle, unknown
from gputop.diagnosis.compose import compose
from gputop.diagnosis.evidence import gather
from gputop.diagnosis.steady import Judge
from gputop.diagnosis.weigh import weigh
from gputop.records import Advice, Verdict
from gputop.window import Window

__all__ = ["Judge", "judge", "judge_idle", "judge_silent"]


def judge(window: Window) -> Verdict:
    """What this window says, by itself: no memory of what was said before."""
    return compose(weigh(gather(window)))


def judge_silent(now_ns: int, pids: list[int]) -> Verdict:
    """The verdict where trainings have announced themselves but none has said a word."""
    who = ", ".join(map(str, pids[:5]))
    return Verdict(
        t=now_ns,
        run_id="",
        cause=unknown.ID,
        family=unknown.FAMILY,
        headline=f"a training is there (process {who}) but does not answer: stopped, or inside one long call",
        confidence=0.0,
        advice=[Advice(do="look what the process does", code=f"ps -o pid,stat,wchan:20,cmd -p {pids[0]}")],
    )


def judge_idle(now_ns: int, host: str) -> Verdict:
    """The verdict where no run is known."""
    nothing = idle.nothing_trains(host)
    return Verdict(
        t=now_ns,
        run_id="",
        cause=nothing.cause,
        family=nothing.family,
        headline=nothing.headline,
        confidence=1.0,
        advice=nothing.advice,
    )
