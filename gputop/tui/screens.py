"""The two kinds of screen: the overview, and a page of lines that scrolls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from gputop.tui import keys
from gputop.tui.asking import Question
from gputop.tui.draw import footer, header, overview, recorded, transport
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import Block, Line, fit
from gputop.tui.pane import Pane

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

PAGES = ("why", "gpus", "processes", "runs", "help", "info")
"""Pages by name; each is a module of gputop.tui.pages with `title` and `draw(sight, width) -> list[Line]`."""


class _Drawn(Screen[None]):
    """What both share: panes by name, drawn anew on a resize."""

    ALLOW_SELECT = False
    AUTO_FOCUS = None
    names: ClassVar[tuple[str, ...]] = ()

    @property
    def gputop(self) -> GputopApp:
        """The app, by its own type."""
        return cast("GputopApp", self.app)

    def compose(self) -> ComposeResult:
        app = self.gputop
        for name in self.names:
            yield Pane(name, app.shades, ascii_only=app.terminal.ascii)

    def on_mount(self) -> None:
        if self.gputop.shades.background is not None:
            self.styles.background = self.gputop.shades.background

    def on_resize(self, event: events.Resize) -> None:
        self.gputop.show(at_once=True)

    def on_screen_resume(self) -> None:
        self.gputop.show(at_once=True)

    def on_paste(self, event: events.Paste) -> None:
        if self.gputop.asking is not None:
            self.gputop.asking.type(event.text)
            self.gputop.show()

    def on_click(self, event: events.Click) -> None:
        """A click on the map goes there."""
        pane, cursor = event.widget, self.gputop.sight().view.cursor
        if cursor is not None and pane is not None and pane.id == "map":
            self.gputop.go_to_moment(transport.moment(event.x, transport.steady(cursor), pane.size.width))

    def place(self, blocks: dict[str, Block]) -> None:
        """Gives each pane its block."""
        with self.app.batch_update():
            for pane in self.query_children(Pane):
                pane.show(blocks.get(pane.id or ""))


class Overview(_Drawn):
    """The first screen: verdict, ledger, histories."""

    names = overview.NAMES
    BINDINGS: ClassVar[list[BindingType]] = keys.OVERVIEW

    def show(self, sight: Sight, note: str, question: Question | None) -> None:
        """Draws the sight."""
        self.place(overview.compose(sight, self.size.width, self.size.height, note, question))


class Page(_Drawn):
    """A page of lines under the header, scrolled by keys or wheel."""

    names = ("identity", "rec", "state", "body", *transport.NAMES, "footer")
    BINDINGS: ClassVar[list[BindingType]] = keys.PAGE

    def __init__(self, name: str) -> None:
        if name not in PAGES:
            raise ValueError(f"no page named {name!r}")
        super().__init__()
        self.page_name = name
        self._page = import_module(f"gputop.tui.pages.{name}")
        self._top = 0

    def show(self, sight: Sight, note: str, question: Question | None) -> None:
        """Draws the part of the page that is in sight."""
        width, height = self.size
        if width <= 0 or height <= 0:
            return
        lines: list[Line] = self._page.draw(sight, width)
        moved = transport.height_of(sight.view, width, height) and 1
        room = max(1, height - 2 - (height >= 8) - moved)
        self._top = max(0, min(self._top, len(lines) - room))
        shown = lines[self._top : self._top + room]
        shown += [fit([], width)] * (room - len(shown))
        last = height - 1
        blocks = {"body": Block(0, last - moved - room if height > 1 else 0, width, room, tuple(shown))}
        blocks |= transport.blocks(sight.view, last - moved, width, moved)
        if height >= 3:
            blocks |= self._head(sight, width)
        if height >= 2:
            where = f"{self._top + 1}-{self._top + min(room, len(lines))} of {len(lines)}" if len(lines) > room else ""
            line = overview.last_line(sight, footer.page(sight.view), width, note or where)
            blocks["footer"] = Block(0, last, width, 1, (line if question is None else question.line(width),))
        self.place(blocks)

    def _head(self, sight: Sight, width: int) -> dict[str, Block]:
        state, rec = min(24, width // 3), recorded.width_of(sight.view, width)
        left = width - state - rec
        blocks = {"identity": Block(0, 0, left, 1, (header.identity(sight, left),))}
        blocks["rec"] = Block(left, 0, rec, 1, (recorded.indicator(sight.view, rec),))
        blocks["state"] = Block(left + rec, 0, state, 1, (header.state(sight, state),))
        return blocks

    def action_scroll_by(self, lines: int) -> None:
        self._top += lines
        self.gputop.show()

    def action_scroll_pages(self, pages: int) -> None:
        self.action_scroll_by(pages * max(1, self.size.height - 4))

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll_by(3)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll_by(-3)
