"""Which run of a recording is compared: the one asked for, else the job that it was recorded for, else the one that
trained longest; of several ranks the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gputop import figures as fig
from gputop.recording.past import Info, RunSpan


class Choice(Exception):  # noqa: N818
    """The run to compare can't be told: why and what to say instead, in a sentence."""


def choose(path: Path, info: Info, wanted: str | None, option: str) -> tuple[RunSpan, dict[int, str], tuple[str, ...]]:
    """The run to compare, its job's ranks, and what to say about it. Raises Choice.

    `wanted` is a run_id or its beginning. Without it: the first rank of the job that trained longest, of those that the
    file was recorded for where it says so.
    """
    spans = [span for span in info.runs if span.steps > 0]
    if not spans:
        raise Choice(f"{path} holds no training step")
    if wanted is not None:
        found = [span for span in spans if span.run.run_id == wanted]
        found = found or [span for span in spans if span.run.run_id.startswith(wanted)]
        if len(found) != 1:
            which = "no run" if not found else "more than one run"
            raise Choice(f"{option} {wanted}: {which} of {path} begins so; it holds {_listed(spans)}")
        return found[0], ranks_of(found[0], spans), ()
    meant = [span for span in spans if span.meant]
    longest = max(meant or spans, key=lambda span: span.last_ns - span.first_ns)
    ranks = ranks_of(longest, spans)
    first = ranks[min(ranks)]
    span = next(one for one in spans if one.run.run_id == first)
    others = len(spans) - len(ranks)
    which = "the one that it was recorded for" if len(meant) <= len(ranks) else "the longest that it was recorded for"
    which = which if meant else "the longest"
    said = f"{path} holds other runs too; {which} is compared, {option} chooses: {_listed(spans)}"
    return span, ranks, (said,) if others else ()


def ranks_of(span: RunSpan, spans: Sequence[RunSpan]) -> dict[int, str]:
    """The runs of a run's job by rank: those at the same time with the same script and world size."""
    run = span.run
    ranks = {run.rank or 0: run.run_id}
    for other in spans:
        same = (other.run.script, other.run.world_size) == (run.script, run.world_size)
        together = other.first_ns <= span.last_ns and span.first_ns <= other.last_ns
        if (run.world_size or 1) > 1 and same and together and other.run.rank is not None:
            ranks.setdefault(other.run.rank, other.run.run_id)
    return dict(sorted(ranks.items()))


def _listed(spans: Sequence[RunSpan]) -> str:
    named = [f"{one.run.run_id} ({fig.counted(one.steps, 'step')})" for one in spans]
    return ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")
