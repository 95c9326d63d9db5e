"""Style names to terminal styles, for a theme and the colours that the terminal has."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from rich.style import Style

from gputop.tui.glyphs import BUCKETS, RIBBON
from gputop.tui.options import Theme
from gputop.tui.terminal import Terminal


class Palette(msgspec.Struct, frozen=True):
    """Styles by name, and the background to paint (None: the terminal's own)."""

    styles: Mapping[str, Style]
    background: str | None = None

    def style(self, name: str) -> Style:
        """The style of that name; an unknown one is plain text."""
        return self.styles.get(name) or self.styles[""]


def color_of(style: Style) -> str:
    """The name that Textual has for a style's colour: one of 16 is another thing there than one of that name."""
    if style.color is None:
        return "ansi_default"
    return f"ansi_{style.color.name}" if style.color.is_system_defined else style.color.name


_DARK = {
    "text": "#d8dee9", "dim": "#8a93a2", "faint": "#5b6472", "title": "#88c0d0", "key": "#88c0d0",
    "good": "#8fbf6f", "warn": "#e5b455", "bad": "#e8706f", "series": "#81a1c1", "peak": "#b48ead",
    "data": "#e5b455", "h2d": "#d08770", "forward": "#6fa8dc", "backward": "#5284c6", "optimizer": "#6fb3a8",
    "sync": "#e8706f", "comm": "#b48ead", "checkpoint": "#c9a0dc", "eval": "#9db36b", "self": "#8a93a2",
    "other": "#8a93a2", "user": "#d0a8a0", "background": "#14171c",
}  # fmt: skip

_LIGHT = {
    "text": "#24292f", "dim": "#57606a", "faint": "#8c959f", "title": "#0b6e8a", "key": "#0b6e8a",
    "good": "#2f7d32", "warn": "#9a6700", "bad": "#c62828", "series": "#3b6ea8", "peak": "#7e4a8e",
    "data": "#9a6700", "h2d": "#b4552d", "forward": "#2f74c0", "backward": "#1d4f91", "optimizer": "#1f7a6d",
    "sync": "#c62828", "comm": "#7e4a8e", "checkpoint": "#8250a8", "eval": "#587315", "self": "#57606a",
    "other": "#57606a", "user": "#8a5a50", "background": "#fafafa",
}  # fmt: skip

_CONTRAST = {
    "text": "#ffffff", "dim": "#e0e0e0", "faint": "#c0c0c0", "title": "#00ffff", "key": "#00ffff",
    "good": "#00ff5f", "warn": "#ffff00", "bad": "#ff6b6b", "series": "#ffffff", "peak": "#ff9cff",
    "data": "#ffff00", "h2d": "#ffaf5f", "forward": "#5fd7ff", "backward": "#87afff", "optimizer": "#5fffd7",
    "sync": "#ff6b6b", "comm": "#ff9cff", "checkpoint": "#d7afff", "eval": "#afff5f", "self": "#e0e0e0",
    "other": "#e0e0e0", "user": "#ffd7d7", "background": "#000000",
}  # fmt: skip

_BOTH = {
    **_DARK,
    "text": "default", "dim": "#808890", "faint": "#767d86", "title": "#2e94ab", "key": "#2e94ab",
    "good": "#5f9938", "warn": "#bd8413", "bad": "#dc5552", "series": "#5c88b8", "peak": "#a06fb0",
    "data": "#bd8413", "h2d": "#c8693c", "forward": "#3f8fd6", "backward": "#4a74c4", "optimizer": "#3a9488",
    "sync": "#dc5552", "comm": "#a06fb0", "checkpoint": "#a873c4", "eval": "#7d9239", "self": "#808890",
    "other": "#808890", "user": "#b57f74", "background": "",
}  # fmt: skip
"""Middle tones: readable on a light and on a dark background, for a terminal that does not say which it has."""

_ANSI = {
    "text": "default", "dim": "dim", "faint": "dim", "title": "default", "key": "default",
    "good": "green", "warn": "default", "bad": "bright_red", "series": "bright_blue", "peak": "magenta",
    "data": "yellow", "h2d": "red", "forward": "bright_blue", "backward": "cyan", "optimizer": "green",
    "sync": "bright_red", "comm": "magenta", "checkpoint": "bright_magenta", "eval": "bright_blue",
    "self": "dim", "other": "default", "user": "default", "background": "",
    "tone": "default", "tile": "default", "bar.warn": "yellow",
}  # fmt: skip
"""The terminal's own 16 colours. Nobody knows them: yellow and cyan are hard to read on white, blue on black, and in
some palettes "bright black" is the background. So words are in the default colour, bold or dim; colours are for what
has a shape of its own."""


def palette(theme: Theme, terminal: Terminal) -> Palette:
    """The palette of `theme`; with 16 colours "auto" is the terminal's own, without colours only weight is left."""
    if terminal.colors == "none":
        return _without_color()
    if theme == "ansi" or (theme == "auto" and terminal.colors == "16"):
        return _build(_ANSI)
    if terminal.colors == "16" and theme in _PAINTED:
        return _build(_ANSI, *_PAINTED[theme])
    if theme == "auto":
        known = {True: {**_LIGHT, "text": "default"}, False: {**_DARK, "text": "default"}}
        return _build({**(_BOTH if terminal.light is None else known[terminal.light]), "background": ""})
    return _build({"dark": _DARK, "light": _LIGHT, "contrast": _CONTRAST}[theme])


_PAINTED = {"dark": ("white", "black"), "light": ("black", "bright_white"), "contrast": ("bright_white", "black")}
"""Text and background of themes that paint theirs, where there are 16 colours: the nearest to what they are elsewhere
might be the background's own."""


def _build(colors: Mapping[str, str], ink: str | None = None, paper: str | None = None) -> Palette:
    """The styles; `ink` and `paper` stand for the terminal's own text and background, where 16 colours are to be used
    that are not its defaults."""
    background = paper or colors["background"] or None

    def style(name: str, *, bold: bool = False, reverse: bool = False, of: str = "") -> Style:
        color = colors.get(of) or colors[name]
        return Style(
            color=ink if color in ("default", "dim") else color,
            bgcolor=background,
            bold=bold or None,
            dim=color == "dim" or None,
            reverse=reverse or None,
        )

    styles = {"": style("text"), "bold": style("text", bold=True), "selected": style("text", reverse=True)}
    for name in ("dim", "faint", "title", "good", "warn", "bad", "series", "peak"):
        styles[name] = style(name)
    for tone, name in (("good", "good"), ("warn", "warn"), ("bad", "bad"), ("quiet", "dim")):
        styles[f"tone.{tone}"] = style(name, bold=True, of="tone")
        styles[f"bar.{tone}"] = style(name, of=f"bar.{tone}")
    styles["title"] = style("title", bold=True)
    styles["warn"] = style("warn", bold=colors["warn"] == "default")
    styles["key"] = style("key", bold=True)
    styles["stale"] = style("faint")
    for bucket in (*BUCKETS, "user"):
        styles[f"bucket.{bucket}"] = style(bucket)
        styles[f"tile.{bucket}"] = style(bucket, bold=True, reverse=True, of="tile")
    for family, name in _FAMILY_COLORS.items():
        styles[f"family.{family}"] = style(name)
    return Palette(styles, f"ansi_{paper}" if paper else background)


_FAMILY_COLORS = {
    "input": "data", "transfer": "h2d", "host": "peak", "placement": "bad", "device": "good", "distributed": "comm",
    "episodic": "forward", "state": "dim",
}  # fmt: skip


def _without_color() -> Palette:
    normal, bold = Style(), Style(bold=True)
    names = ["dim", "faint", "good", "warn", "bad", "series", "peak", "stale"]
    names += [f"bucket.{bucket}" for bucket in (*BUCKETS, "user")] + [f"family.{family}" for family in RIBBON]
    styles = {"": normal, **dict.fromkeys(names, normal), "selected": Style(reverse=True)}
    styles.update(dict.fromkeys((f"tile.{bucket}" for bucket in (*BUCKETS, "user")), Style(reverse=True)))
    tones = [f"{kind}.{tone}" for kind in ("tone", "bar") for tone in ("good", "warn", "bad", "quiet")]
    return Palette({**styles, **dict.fromkeys(("bold", "title", "key", *tones), bold)})
