"""Every character that stands for a value, and its one-cell ASCII substitute. Nothing is told by colour alone."""

from __future__ import annotations

from rich.cells import cell_len

RAMP = "▁▂▃▄▅▆▇█"
"""Eight heights of a cell; zero is "_" and what was not measured is a space."""

ZERO = "_"

BUCKETS: dict[str, tuple[str, str]] = {
    "data": ("D", "█"),
    "h2d": ("H", "░"),
    "forward": ("F", "▒"),
    "backward": ("B", "▓"),
    "optimizer": ("O", "▪"),
    "sync": ("S", "×"),
    "comm": ("M", "≡"),
    "checkpoint": ("K", "◆"),
    "eval": ("E", "○"),
    "self": ("G", "∙"),
    "other": ("·", "·"),
}
"""Letter and texture of each ledger bucket, in the order of a step; `self` is gputop's own cost."""

USER_TEXTURE = "▫"

MARKS: dict[str, str] = {
    "epoch": "E", "eval": "V", "checkpoint": "K", "marker": "M", "recompile": "R", "gc": "G", "alloc_retry": "A",
    "oom": "O", "error": "!", "exit": "X", "lost_process": "X", "worker_start": "W", "worker_exit": "w", "clock": "T",
    "gap": "?", "xid": "!",
}  # fmt: skip
"""The letter of each kind of event on the time axis."""

FAMILIES: dict[str, str] = {
    "input-workers": "input", "input-cpu": "input", "input-disk": "input", "input-oversubscribed": "input",
    "input-slow-sample": "input", "input-transfer": "input", "input-restart": "input",
    "h2d-pageable": "transfer", "h2d-link": "transfer",
    "launch-bound": "host", "sync": "host", "host-work": "host", "optimizer": "host", "host-contention": "host",
    "cpu-fallback": "placement", "cpu-bound": "placement",
    "gpu-bound": "device", "small-model": "device", "memory-pressure": "device", "throttled": "device",
    "gpu-contention": "device",
    "straggler": "distributed", "comm-bound": "distributed",
    "checkpoint": "episodic", "evaluation": "episodic", "warmup": "episodic",
    "stalled": "state", "idle": "state", "unknown": "state",
}  # fmt: skip
"""The family of each cause: what a verdict of the past is coloured by, where only its cause is kept."""

RIBBON: dict[str, str] = {
    "input": "▓", "transfer": "▒", "host": "▚", "placement": "╳", "device": "█", "distributed": "≡", "episodic": "░",
    "state": "·",
}  # fmt: skip
"""The texture of each family in the ribbon of verdicts."""

HEALTHY = frozenset({"gpu-bound", "small-model"})
GRAVE = frozenset({"stalled", "cpu-fallback", "memory-pressure"})
QUIET = frozenset({"unknown", "idle", "warmup"})

_ASCII = str.maketrans(
    {
        "▁": ".", "▂": ":", "▃": "-", "▄": "=", "▅": "+", "▆": "*", "▇": "%", "█": "#", "░": ":", "▒": "=", "▓": "%",
        "▪": "+", "▫": "u", "×": "x", "≡": "~", "◆": "k", "○": "o", "∙": ",", "·": ".", "▚": "&", "╳": "X", "▌": "|",
        "▸": ">", "●": "*", "‖": "=", "→": ">", "←": "<", "↑": "^", "↓": "v", "–": "-", "—": "-", "…": "~", "µ": "u",
        "°": "'", "✓": "+", "✗": "-", "─": "-", "│": "|", "≥": ">", "≤": "<", "≈": "~", "±": "~",
        "‘": "'", "’": "'", "“": '"', "”": '"', "\xa0": " ", "\u202f": " ", "┊": "|", "└": "`",
        "┃": "|", "►": ">", "■": "#", "−": "-",
    }
)  # fmt: skip

_ARROWS = (("← ", "<-"), ("→ ", "->"), (" →", "->"))
"""An arrow takes the blank beside it: "num_workers 4 > 10" would say that four is more than ten."""


def to_ascii(text: str) -> str:
    """The text in ASCII, cell for cell."""
    if text.isascii():
        return text
    for arrow, drawn in _ARROWS:
        text = text.replace(arrow, drawn)
    text = text.translate(_ASCII)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in text)


def family_of(cause: str) -> str:
    """The family of a cause; one that this version does not know counts as "state"."""
    return FAMILIES.get(cause, "state")


def tone_of(cause: str) -> str:
    """How a cause is to be felt: "good", "bad", "quiet" or "warn"."""
    if cause in HEALTHY:
        return "good"
    if cause in GRAVE:
        return "bad"
    return "quiet" if cause in QUIET else "warn"
