"""Every key of the app: what it does, in a word for the footer and in a sentence for help."""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import Binding, BindingType
from textual.keys import Keys, _character_to_key, format_key

from gputop.config import near

GENERAL: list[BindingType] = [
    Binding("q,ctrl+c,ctrl+q", "leave", "quit", id="quit", tooltip="The training goes on", priority=True),
    Binding("question_mark,h,f1", "page('help')", "help", id="help", tooltip="Every key and glyph"),
    Binding("w", "page('why')", "why", id="why", tooltip="Evidence for and against, advice with code"),
    Binding("g", "page('gpus')", "gpus", id="gpus", tooltip="Every GPU and what runs on it"),
    Binding("p", "page('processes')", "processes", id="processes", tooltip="The trainer and its workers"),
    Binding("r", "page('runs')", "runs", id="runs", tooltip="Every training run found"),
    Binding("a", "page('ranks')", "ranks", id="ranks", tooltip="All ranks of the job: which one is late, and in what"),
    Binding("o", "page('recordings')", "recordings", id="recordings", tooltip="The recordings here; Enter plays one"),
    Binding("i", "page('info')", "sources", id="info", tooltip="Where figures come from and how old they are"),
    Binding("tab", "select_run(1)", "next run", id="next_run", tooltip="Show the next run", priority=True),
    Binding("shift+tab", "select_run(-1)", "previous run", id="previous_run", tooltip="Show the run before",
            priority=True),
    Binding("c", "page('causes')", "causes", id="causes", tooltip="Every cause that a verdict can name"),
    Binding("z", "page('zoom')", "zoom", id="zoom", tooltip="One panel over the whole screen; arrows choose which"),
    Binding("y", "copy", "copy", id="copy", tooltip="Copy the verdict (OSC 52, and to a file)"),
    Binding("s", "snapshot", "snapshot", id="snapshot", tooltip="Save this screen as SVG"),
    Binding("R", "record", "record", id="record", tooltip="Record what is watched into a file; again: end it"),
    Binding("P", "profile", "profile", id="profile", tooltip="Ask the training to profile its next steps: w shows it"),
    Binding("A", "attach", "attach", id="attach",
            tooltip="Watch your Python process on a GPU that publishes nothing, by samples of its stacks"),
    Binding("ctrl+p", "palette", "palette", id="palette", tooltip="Everything there is, found by typing"),
    Binding("T", "theme('')", "theme", id="theme", tooltip="The next theme: auto, dark, light, contrast, ansi"),
    Binding("ctrl+t", "remember_theme", "remember theme", id="remember_theme",
            tooltip="Write the theme shown into the configuration file"),
    Binding("ctrl+z", "suspend_process", "suspend", id="suspend", tooltip="Back to the shell; fg returns"),
]  # fmt: skip
"""What works on every screen."""

IN_TIME: list[BindingType] = [
    Binding("space", "travel('toggle')", "pause", id="pause", tooltip="Pause or play; data is still collected"),
    Binding("left", "travel('back')", "back", id="back_in_time", tooltip="One column of history back"),
    Binding("right", "travel('on')", "on", id="on_in_time", tooltip="One column of history on"),
    Binding("left_square_bracket", "travel('last_change')", "last change", id="last_change",
            tooltip="The previous change of the verdict, or mark"),
    Binding("right_square_bracket", "travel('next_change')", "next change", id="next_change",
            tooltip="The next change of the verdict, or mark"),
    Binding("comma", "travel('step_back')", "step back", id="step_back", tooltip="Pause, one training step back"),
    Binding("full_stop", "travel('step_on')", "step on", id="step_on", tooltip="Pause, one training step on"),
    Binding("plus,equals_sign", "travel('faster')", "faster", id="faster", tooltip="Replay faster, up to x120"),
    Binding("minus", "travel('slower')", "slower", id="slower", tooltip="Replay slower, down to x0.25"),
    Binding("0", "travel('to_start')", "to start", id="to_start", tooltip="The beginning of what there is"),
    Binding("dollar_sign", "travel('to_end')", "to end", id="to_end", tooltip="The end of a recording, or now"),
    Binding("colon,t", "go_to", "go to", id="go_to", tooltip="Type a time, a percentage or a step to go to"),
    Binding("S", "travel('skip_idle')", "skip idle", id="skip_idle", tooltip="Leave out stretches without training"),
]  # fmt: skip
"""What moves the picture along its time axis, on every screen."""

OVERVIEW: list[BindingType] = [
    Binding("escape", "app.give_back", "back", id="give_back", show=False,
            tooltip="From a recording that was opened here, back to what is live"),
    Binding("enter", "app.page('why')", "why", id="open_why", show=False),
    Binding("down,j", "app.select_run(1)", "next run", id="down_run", show=False),
    Binding("up,k", "app.select_run(-1)", "previous run", id="up_run", show=False),
    Binding("home", "app.travel('to_start')", "to start", id="home_in_time", show=False),
    Binding("end,G", "app.travel('to_end')", "to end", id="end_in_time", show=False),
    Binding("pageup", "app.travel('page_back')", "page back", id="page_back", show=False,
            tooltip="As far back as the histories reach"),
    Binding("pagedown", "app.travel('page_on')", "page on", id="page_on", show=False,
            tooltip="As far on as the histories reach"),
]  # fmt: skip
"""What only the overview has; pages scroll with these keys."""

PAGE: list[BindingType] = [
    Binding("escape,backspace", "app.back", "back", id="back", tooltip="Back to the overview"),
    Binding("enter", "open", "open", id="open", tooltip="Open what is chosen; on why: the page about the cause"),
    Binding("slash", "filter", "filter", id="filter", tooltip="Keep the rows of a list that have these words"),
    Binding("greater_than_sign", "sort(1)", "sort", id="sort_next", tooltip="Sort a list by the next column"),
    Binding("less_than_sign", "sort(-1)", "sort", id="sort_previous", tooltip="Sort a list by the column before"),
    Binding("I", "reverse", "reverse", id="reverse", tooltip="Turn the order of a list round"),
    Binding("down,j", "scroll_by(1)", "down", id="scroll_down", show=False),
    Binding("up,k", "scroll_by(-1)", "up", id="scroll_up", show=False),
    Binding("pagedown,ctrl+d", "scroll_pages(1)", "page down", id="page_down", show=False),
    Binding("pageup,ctrl+u", "scroll_pages(-1)", "page up", id="page_up", show=False),
    Binding("home", "scroll_by(-1000000)", "top", id="scroll_top", show=False),
    Binding("end,G", "scroll_by(1000000)", "end", id="scroll_end", show=False),
]
"""What only a page has."""


def every() -> list[Binding]:
    """All bindings there are, each once."""
    return [one for one in (*GENERAL, *IN_TIME, *OVERVIEW, *PAGE) if isinstance(one, Binding)]


def described() -> dict[str, tuple[str, str]]:
    """By the id that a configuration file names: its keys, and what it does."""
    return {one.id or "": (one.key, one.tooltip or one.description) for one in every()}


def checked(wanted: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The remapped keys that are in order, and what is wrong with the others: an unknown id, or a key that another
    binding of the same screen has and keeps, or that no keyboard has."""
    known = {one.id: one for one in every()}
    faults = [f"there is no key named {name!r}{near(name, tuple(map(str, known)))}" for name in wanted
              if name not in known]  # fmt: skip
    kept = {name: _normal(keys) for name, keys in wanted.items() if name in known}
    for name, keys in list(kept.items()):
        strange = [key for key in keys.split(",") if not pressable(key)]
        if strange:
            del kept[name]
            base = strange[0].rpartition("+")[2].lower()
            faults.append(f"keys.{name}: no keyboard has a key {strange[0]!r}{near(base, tuple(sorted(_NAMES)))}")
    if "quit" in kept and "ctrl+c" not in kept["quit"].split(","):
        kept["quit"] += ",ctrl+c"
    for own in ((*GENERAL, *IN_TIME, *OVERVIEW), (*GENERAL, *IN_TIME, *PAGE)):
        holders: dict[str, str] = {}
        for binding in own:
            if not isinstance(binding, Binding) or binding.id is None:
                continue
            for key in _normal(kept.get(binding.id, binding.key)).split(","):
                other = holders.setdefault(key, binding.id)
                if other != binding.id:
                    loser = other if other in kept else binding.id
                    if kept.pop(loser, None) is not None:
                        faults.append(f"keys.{loser}: {key!r} is taken by {other if loser != other else binding.id!r}")
    return kept, faults


_NAMES = frozenset((*(key.value for key in Keys), *(_character_to_key(chr(code)) for code in range(32, 127))))
"""What keys are called."""

_MODIFIERS = frozenset(("ctrl", "shift", "alt", "meta", "super", "hyper"))


def pressable(key: str) -> bool:
    """Whether there is such a key: a character, or a name, after any of ctrl+, shift+ and alt+."""
    if key in _NAMES:
        return True
    *modifiers, base = key.split("+")
    named = base in _NAMES or (len(base) == 1 and base.isprintable())
    return named and _MODIFIERS.issuperset(modifiers)


def _normal(keys: str) -> str:
    """Keys by their names: "/" is "slash". Terminals tell Ctrl+Y and Ctrl+y not apart."""
    parts = (part.strip() for part in keys.split(","))
    return ",".join(
        _character_to_key(part) if len(part) == 1 else part.lower() if part.startswith("ctrl+") else part
        for part in parts
    )


def shown(keys: str) -> str:
    """Keys as they are written on a keyboard: "slash" is "/"."""
    return " ".join(format_key(key) for key in keys.split(","))
