"""A pane: a rectangle of lines that repaints only the lines, and only up to the cells, that changed."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gputop.tui.glyphs import to_ascii
from gputop.tui.lines import Block, Line
from gputop.tui.palette import Palette


class Pane(Widget):
    """Shows one block. Unchanged lines keep their very Strip, so that they cost neither time nor bytes."""

    DEFAULT_CSS = "Pane { position: absolute; width: 0; height: 0; }"
    ALLOW_SELECT = False
    can_focus = False

    def __init__(self, name: str, palette: Palette, *, ascii_only: bool = False) -> None:
        super().__init__(id=name)
        self._palette = palette
        self._ascii = ascii_only
        self._place = (0, 0, 0, 0)
        self._lines: list[Line] = []
        self._strips: list[Strip] = []
        self._keys: tuple[str, ...] = ()

    def show(self, block: Block | None) -> None:
        """Takes over a block's place and lines; None hides the pane."""
        if block is None or block.width <= 0 or block.height <= 0:
            self.display = False
            self._lines, self._strips = [], []
            return
        self.display = True
        place = (block.x, block.y, block.width, block.height)
        moved = place != self._place
        if moved:
            self._place = place
            self.styles.offset = (block.x, block.y)
            self.styles.width, self.styles.height = block.width, block.height
            self._lines, self._strips = [], []
        self._keys = block.keys
        self._take(block)

    def _take(self, block: Block) -> None:
        dirty = []
        for y, line in enumerate(block.lines[: block.height]):
            if y < len(self._lines):
                old = self._lines[y]
                if old == line:
                    continue
                self._lines[y], self._strips[y] = line, self._strip(line, block.width)
                first, last = changed_cells(old, line)
                dirty.append(Region(first, y, last - first, 1))
            else:
                self._lines.append(line)
                self._strips.append(self._strip(line, block.width))
                dirty.append(Region(0, y, block.width, 1))
        for y in range(len(block.lines), len(self._lines)):
            dirty.append(Region(0, y, block.width, 1))
        del self._lines[len(block.lines) :], self._strips[len(block.lines) :]
        if dirty:
            self.refresh(*dirty)

    def repaint(self, palette: Palette, *, ascii_only: bool) -> None:
        """Draws everything anew, in another palette."""
        self._palette, self._ascii = palette, ascii_only
        self._strips = [self._strip(line, self._place[2]) for line in self._lines]
        self.refresh()

    def on_unmount(self) -> None:
        """Lets go of what was drawn: Textual's cache of it is kept alive by an lru_cache of 1,024 over its method."""
        self._lines, self._strips = [], []
        self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """What the mouse is on, for the tooltip that comes when it rests."""
        from textual.content import Content

        from gputop.tui.hints import hint

        key = self._keys[event.y] if event.y < len(self._keys) else ""
        text = hint(self.id or "", key, self._lines[event.y], event.x) if event.y < len(self._lines) else ""
        if text and self._ascii:
            text = to_ascii(text)
        self.tooltip = Content(text) if text else None

    def render_line(self, y: int) -> Strip:
        """The strip of line `y`, the same object as before while the line is the same."""
        if y < len(self._strips):
            return self._strips[y]
        return Strip([Segment(" " * self._place[2], self._palette.style(""))], self._place[2])

    def _strip(self, line: Line, width: int) -> Strip:
        style = self._palette.style
        merged: list[Segment] = []
        for text, name in line:
            shown, look = (to_ascii(text) if self._ascii else text), style(name)
            if merged and merged[-1].style == look:
                merged[-1] = Segment(merged[-1].text + shown, look)
            else:
                merged.append(Segment(shown, look))
        return Strip(merged, width)


def changed_cells(old: Line, new: Line) -> tuple[int, int]:
    """The first cell that differs and the one after the last, by text and style."""
    before, after = _cells(old), _cells(new)
    if len(before) != len(after):
        return 0, max(len(before), len(after))
    different = [index for index, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    return (different[0], different[-1] + 1) if different else (0, 0)


def _cells(line: Line) -> list[tuple[str, str]]:
    out = []
    for text, style in line:
        for char in text:
            out += [(char, style)] * (1 if char.isascii() else cell_len(char))
    return out
