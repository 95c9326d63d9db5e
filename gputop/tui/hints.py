"""What each part of the overview says, in a sentence: for the mouse that rests on it, and for help asked for there."""

from __future__ import annotations

from gputop.tui.lines import Line

PARTS = {
    "verdict": "what holds the training back, the proof, what to change",
    "ledger": "where the mean step goes; each bucket has its letter",
    "p50": "the usual step (median); bars: the median of each column",
    "p95": "slow steps; bars: the longest step of each column",
    "GPU": "utilization now; bars: its mean in each column",
    "peak": "the driver's highest sample: bursts that a mean hides",
    "mem": "GPU memory in use, of how much",
    "CPU": "all cores together; beside it the main thread and workers",
    "events": "what happened when; the letters are explained beside them",
    "ribbon": "the verdict over time, on the same axis as all bars",
}
"""By the name of a block or the key of a row; each fits beside its name in a screen of 80 columns."""

ELSEWHERE = {
    "grid": "each GPU: its history, utilization, share of memory in use; g lists them",
    "strip": "the trainings here; tab and shift+tab choose one",
    "axis": "the one time axis of everything above it",
    "evidence": "what speaks for (✓) and against (✗) the verdict; w tells all of it",
    "phases": "each bucket of the mean step: its time, its share, its history",
    "processes": "the trainer and its loader workers; p lists them all",
    "state": "whether this is live, how long it has been watched, or how far it lies behind",
    "pace": "steps done, and their rate now",
    "rec": "what is watched is being recorded; R ends it, i tells more",
    "position": "where this picture stands, of how much",
    "marks": "what happened when",
    "tempo": "how fast it is replayed, or the key that leads back to now",
    "map": "all there is to look back on; a click goes there",
}
"""The same for parts that explain themselves, or come only on some screens."""

BUCKETS = {
    "data": "waiting for the next batch", "h2d": "copying the batch to the GPU",
    "forward": "from the batch's arrival to backward", "backward": "backward pass", "optimizer": "the update",
    "sync": "reading device values back (.item(), .cpu())", "comm": "waiting for other ranks",
    "checkpoint": "saving", "eval": "evaluation inside the loop", "self": "gputop's own cost in the training process",
    "other": "what no mark covers: Python between the phases",
}  # fmt: skip
"""What a step's time goes into."""


def hint(block: str, key: str, line: Line, x: int) -> str:
    """What is to be said about cell `x` of a line of that block; "" for what needs no words."""
    if block in ("ledger", "phases"):
        bucket = _bucket(line, x)
        if bucket:
            return f"{bucket}: {BUCKETS.get(bucket, 'a phase of your own')}"
    return PARTS.get(key) or PARTS.get(block) or ELSEWHERE.get(block, "")


def _bucket(line: Line, x: int) -> str:
    """The bucket whose bar or name stands at that cell: the last one that began before it."""
    found, at = "", 0
    for text, style in line:
        kind, _, name = style.partition(".")
        if kind in ("bucket", "tile"):
            found = name
        at += len(text)
        if at > x:
            break
    return found
