"""The two kinds of screen: the overview, and a page of lines that scrolls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from gputop.tui.draw import footer, header, overview
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

    def place(self, blocks: dict[str, Block]) -> None:
        """Gives each pane its block."""
        with self.app.batch_update():
            for pane in self.query_children(Pane):
                pane.show(blocks.get(pane.id or ""))


class Overview(_Drawn):
    """The first screen: verdict, ledger, histories."""

    names = overview.NAMES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "app.select_run(1)", "next run", id="down_run", show=False),
        Binding("up,k", "app.select_run(-1)", "previous run", id="up_run", show=False),
    ]

    def show(self, sight: Sight, note: str) -> None:
        """Draws the sight."""
        self.place(overview.compose(sight, self.size.width, self.size.height, note))


class Page(_Drawn):
    """A page of lines under the header, scrolled by keys or wheel."""

    names = ("identity", "state", "body", "footer")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.back", "back", id="back", tooltip="Back to the overview"),
        Binding("down,j", "scroll_by(1)", "down", id="scroll_down", show=False),
        Binding("up,k", "scroll_by(-1)", "up", id="scroll_up", show=False),
        Binding("pagedown,ctrl+d", "scroll_pages(1)", "page down", id="page_down", show=False),
        Binding("pageup,ctrl+u", "scroll_pages(-1)", "page up", id="page_up", show=False),
        Binding("home", "scroll_by(-1000000)", "top", id="scroll_top", show=False),
        Binding("end,G", "scroll_by(1000000)", "end", id="scroll_end", show=False),
    ]

    def __init__(self, name: str) -> None:
        if name not in PAGES:
            raise ValueError(f"no page named {name!r}")
        super().__init__()
        self.page_name = name
        self._page = import_module(f"gputop.tui.pages.{name}")
        self._top = 0

    def show(self, sight: Sight, note: str) -> None:
        """Draws the part of the page that is in sight."""
        width, height = self.size
        if width <= 0 or height <= 0:
            return
        state = min(24, width // 3)
        lines: list[Line] = self._page.draw(sight, width)
        room = max(1, height - 2 - (height >= 8))
        self._top = max(0, min(self._top, len(lines) - room))
        shown = lines[self._top : self._top + room]
        shown += [fit([], width)] * (room - len(shown))
        where = note or (
            f"{self._top + 1}-{self._top + min(room, len(lines))} of {len(lines)}" if len(lines) > room else ""
        )
        blocks = {"body": Block(0, height - 1 - room if height > 1 else 0, width, room, tuple(shown))}
        if height >= 3:
            blocks["identity"] = Block(0, 0, width - state, 1, (header.identity(sight, width - state),))
            blocks["state"] = Block(width - state, 0, state, 1, (header.state(sight, state),))
        if height >= 2:
            blocks["footer"] = Block(0, height - 1, width, 1, (footer.line(footer.PAGE, width, where),))
        self.place(blocks)

    def action_scroll_by(self, lines: int) -> None:
        self._top += lines
        self.gputop.show()

    def action_scroll_pages(self, pages: int) -> None:
        self.action_scroll_by(pages * max(1, self.size.height - 4))

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll_by(3)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll_by(-3)
