"""The two kinds of screen: the overview, and a page of lines that scrolls."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from msgspec import structs
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Tooltip

from gputop.tui import keys
from gputop.tui.asking import Question
from gputop.tui.draw import footer, header, overview, recorded, transport
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import Block, Line, cut, fit
from gputop.tui.palette import Palette, color_of
from gputop.tui.pane import Pane
from gputop.tui.sheet import PAGES, Sheet, Standing, sheet
from gputop.tui.stage import Stage


class _Drawn(Screen[None]):
    """What both share: panes by name, drawn anew on a resize."""

    ALLOW_SELECT = False
    AUTO_FOCUS = None
    names: ClassVar[tuple[str, ...]] = ()

    @property
    def gputop(self) -> Stage:
        """The app, as far as a screen knows it."""
        return cast("Stage", self.app)

    def compose(self) -> ComposeResult:
        app = self.gputop
        for name in self.names:
            yield Pane(name, app.shades, ascii_only=app.terminal.ascii)

    def on_mount(self) -> None:
        self.wear(self.gputop.shades)

    def wear(self, shades: Palette) -> None:
        """Takes another palette."""
        if shades.background is not None:
            self.styles.background = shades.background
        else:
            self.styles.clear_rule("background")
        for pane in self.query_children(Pane):
            pane.repaint(shades, ascii_only=self.gputop.terminal.ascii)
        for tip in self.query_children(Tooltip):
            edge = color_of(shades.style("key"))
            tip.styles.border = ("ascii" if self.gputop.terminal.ascii else "round", edge)
            tip.styles.padding = (0, 1)
            tip.styles.background = shades.background or "ansi_default"
            tip.styles.color = color_of(shades.style(""))

    def on_resize(self, event: events.Resize) -> None:
        self.gputop.show(at_once=True)

    def on_screen_resume(self) -> None:
        self.gputop.show(at_once=True)

    def on_unmount(self) -> None:
        self.refresh()  # as its panes do

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
    """A page under the header: lines that scroll by keys or wheel, and on some a row that is chosen."""

    names = ("identity", "rec", "state", "body", "aside", *transport.NAMES, "footer")
    BINDINGS: ClassVar[list[BindingType]] = keys.PAGE

    def __init__(self, name: str, at: Standing) -> None:
        if name not in PAGES:
            raise ValueError(f"no page named {name!r}")
        super().__init__()
        self.page_name, self.at = name, at
        self._sheet = Sheet([])
        self._top = 0
        self._follow = True

    def show(self, sight: Sight, note: str, question: Question | None) -> None:
        """Draws the part of the page that is in sight."""
        width, height = self.size
        if width <= 0 or height <= 0:
            return
        moved = transport.height_of(sight.view, width, height) and 1
        room = max(1, height - 2 - (height >= 8) - moved)
        made = sheet(self.page_name, sight, width, room, self.at)
        self._follow |= made.chosen != self._sheet.chosen
        self._sheet = made
        pinned = made.pinned[: max(0, room - 3)]
        self._scroll(len(made.lines), room - len(pinned))
        shown = [*pinned, *made.lines[self._top : self._top + room - len(pinned)]]
        shown += [fit([], width)] * (room - len(shown))
        last = height - 1
        blocks = _body(last - moved - room if height > 1 else 0, width, shown, made.aside)
        blocks |= transport.blocks(sight.view, last - moved, width, moved)
        if height >= 3:
            blocks |= self._head(sight, width)
        if height >= 2:
            line = overview.last_line(
                sight, footer.page(sight.view, made), width, note or self._where(room - len(pinned))
            )
            blocks["footer"] = Block(0, last, width, 1, (line if question is None else question.line(width),))
        self.place(blocks)

    def _scroll(self, lines: int, room: int) -> None:
        """Keeps the top within the page, and a row that was just chosen in sight."""
        made = self._sheet
        if made.chosen >= 0 and self._follow:
            first = made.rows[made.chosen][1]
            after = made.rows[made.chosen + 1][1] if made.chosen + 1 < len(made.rows) else lines
            self._top = min(first, max(self._top, after - room))
        self._follow = False
        self._top = max(0, min(self._top, lines - room))

    def _where(self, room: int) -> str:
        many = len(self._sheet.lines)
        return f"{self._top + 1}-{min(self._top + room, many)} of {many}" if many > room else ""

    def _head(self, sight: Sight, width: int) -> dict[str, Block]:
        state, rec = min(24, width // 3), recorded.width_of(sight.view, width)
        left = width - state - rec
        blocks = {"identity": Block(0, 0, left, 1, (header.identity(sight, left),))}
        blocks["rec"] = Block(left, 0, rec, 1, (recorded.indicator(sight.view, rec),))
        blocks["state"] = Block(left + rec, 0, state, 1, (header.state(sight, state),))
        return blocks

    def stand(self, **changes: Any) -> None:
        """Stands elsewhere: another filter, order or row."""
        self.at = structs.replace(self.at, **changes)
        self.gputop.orders[self.page_name] = self.at.column, self.at.reverse
        self._follow = True
        self.gputop.show()

    def subject(self) -> str:
        """What help is about when it is asked for here: this page, and of the zoom its panel ("zoom:p95")."""
        rows, chosen = self._sheet.rows, self._sheet.chosen
        panel = rows[chosen][0].partition(" ")[0] if self.page_name == "zoom" and chosen >= 0 else ""
        return f"{self.page_name}:{panel}" if panel else self.page_name

    def keep(self, words: str) -> None:
        """Keeps the rows that have these words."""
        self.stand(filter=words, key="")

    def action_open(self) -> None:
        if self._sheet.opens is not None:
            self.gputop.do(self._sheet.opens)

    def action_filter(self) -> None:
        if not self._sheet.titles:
            self.gputop.say("/ filters lists, and there is none here")
            return
        self.gputop.ask(
            Question(
                "filter",
                ("words that a row must have", "Enter keeps it", "Esc ends it"),
                changes=self.keep,
                passes=MOVES,
                text=self.at.filter,
            )
        )

    def action_sort(self, step: int) -> None:
        many = len(self._sheet.titles)
        if not many:
            self.gputop.say("< and > sort lists, and there is none here")
            return
        column = self.at.column + step
        self.stand(column=many - 1 if column < -1 else -1 if column >= many else column, reverse=False)

    def action_reverse(self) -> None:
        if self.at.column < 0:
            self.gputop.say("< and > say what to sort by first")
        else:
            self.stand(reverse=not self.at.reverse)

    def action_scroll_by(self, lines: int) -> None:
        rows = self._sheet.rows
        if rows and abs(lines) != WHEEL:
            at = max(0, min(len(rows) - 1, self._sheet.chosen + lines))
            self.stand(key=rows[at][0])
            return
        self._top += lines
        self.gputop.show()

    def action_scroll_pages(self, pages: int) -> None:
        self.action_scroll_by(pages * max(1, self.size.height - 4))

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll_by(WHEEL)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll_by(-WHEEL)


def _body(y: int, width: int, lines: list[Line], aside: int) -> dict[str, Block]:
    """The lines as one block, or with the last `aside` cells of each in another."""
    if not 0 < aside < width:
        return {"body": Block(0, y, width, len(lines), tuple(lines))}
    halves = [cut(line, width - aside, width) for line in lines]
    return {
        "body": Block(0, y, width - aside, len(lines), tuple(half for half, _ in halves)),
        "aside": Block(width - aside, y, aside, len(lines), tuple(half for _, half in halves)),
    }


WHEEL = 3
"""Lines that one notch of the wheel moves a page; the row that is chosen stays."""

MOVES = frozenset({"up", "down", "pageup", "pagedown"})
"""Keys that move within a list while its filter is typed."""
