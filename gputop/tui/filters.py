"""The last touch on every strip: no escape that says only "default", and no colour at all where none is wanted."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter


class Lean(LineFilter):
    """Drops default colours (saving their bytes) or, `without_color`, all colours."""

    def __init__(self, *, without_color: bool) -> None:
        super().__init__()
        self._without_color = without_color

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments in leaner styles."""
        without = self._without_color
        return [
            Segment(text, None if style is None else lean(style, without), control) for text, style, control in segments
        ]


@lru_cache(512)
def lean(style: Style, without_color: bool) -> Style:
    """The style without default colours, or without any."""
    color = None if without_color or style.color is None or style.color.is_default else style.color
    back = None if without_color or style.bgcolor is None or style.bgcolor.is_default else style.bgcolor
    return Style(
        color=color, bgcolor=back, bold=style.bold or None, dim=style.dim or None, reverse=style.reverse or None,
        underline=style.underline or None,
    )  # fmt: skip
