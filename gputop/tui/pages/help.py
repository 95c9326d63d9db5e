"""Every key, every glyph, and where the figures of the screen come from."""

from __future__ import annotations

from gputop.tui import hints
from gputop.tui.draw.ledger import mark
from gputop.tui.draw.sight import Sight
from gputop.tui.draw.transport import badge
from gputop.tui.glyphs import BUCKETS, MARKS, RIBBON
from gputop.tui.lines import Line, Span, crop, fit, wrap
from gputop.tui.sheet import Sheet, Standing

KEYS = (
    ("q  Ctrl+C", "quit; the training goes on untouched"),
    ("w", "why: evidence for and against the verdict, advice with code"),
    ("g", "every GPU: load, memory, power, clocks, what runs on it"),
    ("p", "processes: the trainer and its loader workers"),
    ("r", "runs: every training found on this machine"),
    ("a", "all ranks of the job: which one is late, and in what"),
    ("o", "recordings that lie here: Enter plays one, Esc leads back"),
    ("z", "zoom: one panel over the whole screen; ↑ ↓ choose which"),
    ("c", "causes: what a verdict can name, each with its page"),
    ("i", "sources: where each figure comes from and how old it is"),
    ("Enter", "why; on why: the page about the cause; in a list: open"),
    ("/", "filter a list: the rows that have all words"),
    ("<  >  I", "sort a list by the column before, the next; turn it round"),
    ("tab  shift+tab", "next and previous run; on the overview also ↑ ↓ and k j"),
    ("y", "copy the verdict: to the clipboard (OSC 52) and to a file"),
    ("s", "save the screen as SVG"),
    ("R", "record what is watched into a file here; R again ends it"),
    ("P", "ask the training for a profile of its next steps; w shows it"),
    ("Ctrl+P", "palette: everything there is, found by typing"),
    ("T  Ctrl+T", "the next theme; Ctrl+T writes it into the configuration file"),
    ("space  ←", "pause; go back in time: its keys have a part of their own"),
    ("Ctrl+Z", "suspend; fg brings it back"),
    ("?  h  F1", "this page; the same key or Esc leaves it"),
)

IN_TIME = (
    ("space", "pause and play; data is still collected"),
    ("←  →", "one column of history back, on"),
    ("PgUp  PgDn", "on the overview: as far as the histories reach"),
    ("[  ]", "previous, next change of the verdict, or mark"),
    (",  .", "pause, and one training step back, on"),
    ("0  $  Home  End", "the start; the end, or now (on a page Home, End scroll)"),
    (":  t", "go to 01:23:45 · +30s · -5m · 50% · step 1200 · 14:05"),
    ("+ =  -", "replay faster, slower: x0.25 to x120"),
    ("S", "replay: leave out stretches in which nothing trains"),
)

FAMILY_TEXTS = {
    "input": "the input pipeline", "transfer": "copies to the GPU", "host": "the training process's own CPU work",
    "placement": "work on the wrong device", "device": "the GPU itself (healthy)", "distributed": "other ranks",
    "episodic": "checkpoint, evaluation, warm-up", "state": "nothing to judge",
}  # fmt: skip


HERE = {
    "why": "what speaks for and against the verdict; Enter reads about the cause; P asks for a profile",
    "cause": "what the cause looks like, what to do, what fools it; Enter lists all causes; Esc goes back",
    "causes": "every cause; the arrows choose, Enter reads about one, / filters",
    "gpus": "each GPU with what slows it and what runs on it; / finds a process, < > sort by load, memory, power",
    "processes": "the trainer and its workers; CPU of 100 % is one core; < > sort, / filters",
    "runs": "every training here; the arrows choose, Enter shows one",
    "ranks": "a cell a rank, as high as it is late; own time leaves out waits for the others; Enter shows a rank",
    "recordings": "the recordings here; Enter plays one while what is live is still collected; Esc leads back",
    "zoom": "one panel on an axis that stands still; the arrows choose another, z goes back",
    "info": "where each figure comes from and how old it is",
}
"""What a page shows and which of its keys matter, for help that was asked for there."""


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """Help: first for the page that it was asked for on."""
    page, _, panel = at.about.partition(":")
    here = HERE.get(page, "")
    lines = [_heading(f"here: {page}" if here else "the screen, from above", width)]
    lines += [fit([Span("   "), Span(part)], width) for part in wrap(here, width - 4, 4)]
    if not here:
        lines += [_pair(NAMES.get(name, name), text, "bold", width) for name, text in hints.PARTS.items()]
    elif panel:
        lines.append(_pair(panel, hints.PARTS.get({"why": "ribbon"}.get(panel, panel), ""), "bold", width))
    return Sheet([*lines, fit([], width), *draw(sight, width)])


NAMES = {"verdict": "▌ CAUSE", "ledger": "mean", "events": "E K ...", "ribbon": "why"}
"""Parts of the overview by what stands at their left."""


def draw(sight: Sight, width: int) -> list[Line]:
    """All that is the same wherever it is asked for."""
    general = [_heading("keys", width), *(_pair(key, text, "key", width) for key, text in KEYS)]
    in_time = [_heading("in time: in a recording, or the past of what is live", width)]
    in_time += [_pair(key, text, "key", width) for key, text in IN_TIME]
    if sight.remapped:
        general = [*_remapped(sight, width), *general]
    past = bool(badge(sight.view))
    lines = [*in_time, fit([], width), *general] if past else general
    lines += [fit([], width), _heading("a step's time, bucket by bucket", width)]
    for name in BUCKETS:
        lines.append(fit([Span("   "), *mark(name), Span(f" {name:<14}"), Span(hints.BUCKETS[name])], width))
    lines.append(_pair("▫ your own", "phases marked with gputop.phase", "bucket.user", width))
    if not past:
        lines += [fit([], width), *in_time]
    lines += [fit([], width), _heading("verdict over time", width)]
    lines += [_pair(f"{RIBBON[family] * 2} {family}", text, f"family.{family}", width)
              for family, text in FAMILY_TEXTS.items()]  # fmt: skip
    lines += [fit([], width), _heading("marks on the time axis", width)]
    for letter in dict.fromkeys(MARKS.values()):
        names = ", ".join(kind.replace("_", " ") for kind, other in MARKS.items() if other == letter)
        lines.append(_pair(letter, names, "warn", width))
    lines.append(_pair("+", "several of them at one place", "warn", width))
    lines += [fit([], width), _heading("figures that are not there", width)]
    lines += [
        _pair("–", "not known yet", "dim", width),
        _pair("n/a", "this device or driver cannot say", "dim", width),
        _pair("failed", "the driver was asked and answered with an error", "bad", width),
        _pair("_  (history)", "a measured zero; a blank is no measurement", "series", width),
        _pair("12 s old", "stale: the last sample is older than four seconds", "stale", width),
    ]
    lines += [fit([], width), _heading("mouse", width)]
    lines += [
        _pair("wheel", "scrolls pages", "", width),
        _pair("click", "on the map: goes there", "", width),
        _pair("Shift-drag", "selects text as usual", "", width),
    ]
    return lines


def _remapped(sight: Sight, width: int) -> list[Line]:
    """The keys that the configuration file has changed: they go before all that is said below."""
    from gputop.tui.keys import described, shown

    told = described()
    lines = [_heading("your own keys, instead of those below", width)]
    lines += [_pair(crop(shown(keys), 16), told[name][1], "key", width) for name, keys in sight.remapped.items()]
    return [*lines, fit([], width)]


def _heading(text: str, width: int) -> Line:
    return fit([Span(f" {text}", "title")], width)


def _pair(left: str, text: str, style: str, width: int) -> Line:
    return fit([Span(f"   {left:<17}", style), Span(text)], width)
