"""The app: takes a view at each tick, keeps what is selected and paused, and hands both to the screen shown."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from rich.console import Console
from textual import events
from textual.app import App
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.screen import Screen

from gputop.records import clean
from gputop.tui import goto, keeping, keys, themes, travel
from gputop.tui.aside import aside
from gputop.tui.asking import Question
from gputop.tui.choice import Choice
from gputop.tui.cost import Meter
from gputop.tui.draw.overview import columns_in_sight
from gputop.tui.draw.sight import Sight, chosen
from gputop.tui.draw.transport import mode_of
from gputop.tui.errands import Errands
from gputop.tui.filters import Lean
from gputop.tui.lending import Lending
from gputop.tui.options import Options, Picture, Theme
from gputop.tui.pace import Pace, takes_bytes
from gputop.tui.palette import palette
from gputop.tui.screens import MOVES, Overview, Page
from gputop.tui.sheet import Deed, Standing
from gputop.tui.terminal import Terminal
from gputop.tui.told import Told
from gputop.view import View

PEEK_S, PEEKS, NEWS = 0.03, 30, 2
"""How often, and how many times, it is looked for what a key has moved; after so many new views it must be among them:
one may have been on its way before the key."""

FAULT_S = 10.0
"""How long a fault in the configuration is shown when the screen begins."""

NO_MORE = "nobody writes into this recording any more: this is its end"
"""Said where a replay that followed a recording stops."""

DEEPEST = 8
"""Pages opened from pages, of which Esc finds the way back."""


class GputopApp(App[int]):
    """The live screen over one picture. `clock` gives monotonic seconds; `snapshots` is where files are put."""

    TITLE = "gputop"
    ENABLE_COMMAND_PALETTE = False
    INHERIT_BINDINGS = False
    CSS = "Screen { overflow: hidden; layers: base; }"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.GENERAL, *keys.IN_TIME]

    def __init__(
        self,
        picture: Picture,
        options: Options,
        terminal: Terminal,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_leave: Callable[[int], None] = lambda code: None,
        driver_class: type[Any] | None = None,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class, ansi_color=True)
        self.animation_level = "none"
        self.options, self.terminal = options, terminal
        self.theme_shown: Theme = options.theme
        self.shades = palette(options.theme, terminal)
        self.crash: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.error_console = Console(file=io.StringIO(), width=100)
        self._clock, self._on_leave = clock, on_leave
        self._meter = meter or Meter(clock)
        self.lending = Lending(picture, options.refresh, self._call)
        self._lean: list[LineFilter] = [Lean(without_color=terminal.colors == "none")]
        self._pace = Pace(picture.view(), slow_link=options.slow_link)
        self._choice = Choice()
        self._question: Question | None = None
        self.orders: dict[str, tuple[int, bool]] = {}
        self.remapped, self._faults = keys.checked(options.keys)
        self._faults = [*options.faults, *self._faults]
        self.recorded: dict[str, None] = {}
        self._eager = 0
        self._errands = Errands(self.say, self._moved, self._call)
        self._note, self._note_until = "", 0.0
        self._told = Told()

    @property
    def _picture(self) -> Picture:
        return self.lending.shown

    def get_default_screen(self) -> Screen[None]:
        """The overview is what is shown first."""
        return Overview()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """One filter of our own: else every span carries default colours, or grey under NO_COLOR."""
        return self._lean

    def on_mount(self) -> None:
        self.loop = asyncio.get_running_loop()
        if self.remapped:
            self.set_keymap(self.remapped)
        if self._faults:
            more = f" ({len(self._faults)} faults: i)" if len(self._faults) > 1 else ""
            self.say(clean(self._faults[0], 200) + more, FAULT_S)
        self.app_resume_signal.subscribe(self, lambda _: self.call_later(self.repaint))
        self.set_interval(max(0.1, self.options.refresh), self.tick)
        self._peeking = self.set_interval(PEEK_S, self.peek, pause=True)
        self._await()  # what is shown first may be from before the first look at anything

    def repaint(self) -> None:
        """Paints everything anew: after a suspension the terminal holds nothing of what was drawn before."""
        for widget in [self.screen, *self.screen.query("*")]:
            widget.refresh(repaint=True, layout=True)

    def tick(self) -> None:
        """Takes the newest view and shows it, unless the terminal has not yet taken what was written before, or lately
        could not."""
        if self.options.until_end and self.lending.own.ended():
            self.action_leave()
            return
        if not self._pace.due(self._clock(), takes=takes_bytes(sys.__stderr__)):
            return
        self._look(self._picture.view())
        self.show()

    def peek(self) -> None:
        """Shows at once what a key has moved, without waiting for the next tick; given up after PEEKS looks."""
        self._eager -= 1
        view = self._picture.view()
        if view is not self._pace.fast and takes_bytes(sys.__stderr__):
            self._eager -= PEEKS // NEWS
            self._look(view)
            self.show(at_once=True)
        if self._eager <= 0:
            self._peeking.pause()

    def _look(self, view: View) -> None:
        if view.recording is not None:
            self.recorded[view.recording.path] = None
        if mode_of(self._pace.fast) == "following" and mode_of(view) == "end":
            self._note, self._note_until = NO_MORE, self._clock() + FAULT_S
        self._choice.look(view, self._picture.select)
        self._pace.look(view, self._choice.id)

    def show(self, *, at_once: bool = False) -> None:
        """Draws the current sight on the screen in front; `at_once` moves the slow and calm parts too."""
        if at_once:
            self._pace.catch_up()
        screen = self.screen
        if isinstance(screen, Overview | Page):
            screen.show(self.sight(), self.note(), self._question)

    def sight(self) -> Sight:
        """What is to be drawn now."""
        return Sight(
            view=self._pace.fast,
            slow=self._pace.slow,
            calm=self._pace.calm,
            run_id=self._choice.id,
            no_cmdline=self.options.no_cmdline,
            remapped=self.remapped,
            faults=tuple(self._faults),
            shelf=self.lending.shelf,
            borrowed=self.lending.borrowed,
            cost=self._meter.read(),
            told=self._told.look(self._pace.fast.warnings, self._clock()),
        )

    def note(self) -> str:
        """What the person's last key did, for a few seconds."""
        return self._note if self._clock() < self._note_until else ""

    def say(self, text: str, seconds: float = 4.0) -> None:
        """Puts a short answer into the last line."""
        self._note, self._note_until = text, self._clock() + seconds
        self.show()

    def action_leave(self) -> None:
        self._on_leave(0)
        self.exit(0)

    @property
    def asking(self) -> Question | None:
        """The question that keys are an answer to now."""
        return self._question

    def action_travel(self, name: str) -> None:
        columns = columns_in_sight(self.size.width)
        self._moved(travel.travel(name, self._picture, self._picture.view(), columns))

    def _moved(self, answer: str = "") -> None:
        self._note = ""
        if answer:
            self.say(answer)
        self._await()

    def _await(self) -> None:
        self._eager = PEEKS
        self._peeking.resume()

    def action_go_to(self) -> None:
        if self._picture.view().cursor is None:
            self.say(travel.NO_TIME_AXIS)
            return
        self.ask(Question("go to", (*goto.EXAMPLES, " Esc leaves"), self._go_to))

    def _go_to(self, text: str) -> str:
        cursor = self._picture.view().cursor
        if cursor is None:
            return travel.NO_TIME_AXIS
        try:
            place = goto.place(text, cursor)
            absent = partial(self.say, f"there is no step {place.step} here, and none after it")
            travel.go(place, self._picture, lambda: self._call(absent))
        except goto.Nowhere as error:
            return str(error)
        self._moved()
        return ""

    def ask(self, question: Question) -> None:
        """Asks; keys are the answer until it is given or left."""
        self._question = question
        self.show()

    def on_key(self, event: events.Key) -> None:
        """While something is asked, keys are its answer. Taken here, where bindings are looked up, so that keys typed
        ahead find the question that the key before them has asked."""
        question = self._question
        if question is not None and event.key not in question.passes:
            event.prevent_default()
            self._answer(question, event.key, event.character)

    def _answer(self, question: Question, key: str, character: str | None) -> None:
        end = question.take(key, character)
        if end is not None:
            self._question = None
            if not question.end(end):
                self._question = question
        self.show()

    def go_to_moment(self, t_ns: int) -> None:
        """Goes to a moment that was pointed at."""
        self._picture.seek(t_ns)
        self._moved()

    def action_record(self) -> None:
        self._errands.record(self._picture, self._pace.fast, cmdlines=not self.options.no_cmdline)

    def action_profile(self) -> None:
        self._errands.profile(self._picture, self._pace.fast, self._choice.id)

    def action_attach(self) -> None:
        self._errands.attach(self._picture, self._pace.fast, self._choice.id)

    def action_page(self, name: str) -> None:
        if self._question is not None:
            return
        shown = self.screen.page_name if isinstance(self.screen, Page) else ""
        if name == "help" and isinstance(self.screen, Page) and shown != "help":
            self._open(name, self.screen.subject())  # upon the page that it is about, which Esc leads back to
            return
        if name == shown:
            self.pop_screen()
        else:
            self._to_overview()
            self._open(name)

    def _open(self, name: str, about: str = "") -> None:
        if name == "recordings":
            self.lending.look(self._show_shelf)
        column, reverse = self.orders.get(name, (-1, False))
        self.push_screen(Page(name, Standing(about=about, column=column, reverse=reverse)))

    def action_palette(self) -> None:
        """Everything there is; what is typed chooses among it."""
        if self._question is not None:
            return
        if isinstance(self.screen, Page) and self.screen.page_name == "palette":
            self.pop_screen()
            return
        self._open("palette")
        self.call_later(self._ask_palette)

    def _ask_palette(self) -> None:
        page = self.screen
        if not isinstance(page, Page):
            return

        def do(text: str) -> str:
            page.action_open()
            return ""

        def leave() -> None:
            if self.screen is page:
                self.pop_screen()

        hints = ("type what you look for", "Enter does it", "Esc leaves")
        self.ask(Question("do", hints, do, changes=page.keep, passes=MOVES, leaves=leave))

    def action_theme(self, name: Theme | Literal[""]) -> None:
        """Shows another theme; the next one where none is named."""
        if self.terminal.colors == "none":
            self.say("no colours here: NO_COLOR, --no-color or the terminal says so")
            return
        self.theme_shown = name or themes.after(self.theme_shown)
        self.shades = palette(self.theme_shown, self.terminal)
        for screen in self.screen_stack:
            if isinstance(screen, Overview | Page):
                screen.wear(self.shades)
        key = keys.shown(self.remapped.get("remember_theme", "ctrl+t"))
        self.say(f"theme {self.theme_shown}; {key} remembers it")

    def action_remember_theme(self) -> None:
        """Writes the theme into the configuration file."""
        theme, file = self.theme_shown, self.options.config
        aside(lambda: self._call(partial(self.say, themes.remember(theme, file))))

    def _to_overview(self) -> None:
        while isinstance(self.screen, Page):
            self.pop_screen()

    def do(self, deed: Deed) -> None:
        """What Enter does on a page."""
        if deed.kind == "page":
            if len(self.screen_stack) > DEEPEST:
                self._to_overview()
            self._open(deed.what, deed.about)
        elif deed.kind == "run":
            self._to_overview()
            self._select(deed.what)
        elif deed.kind == "action":
            self.pop_screen()
            self.call_later(self.run_action, deed.what)
        elif deed.kind == "replay":
            self.lending.borrow(Path(deed.what), self._show_other, self.say)
            self.say(f"opening {clean(Path(deed.what).name, 60)}")

    def _call(self, does: Callable[[], object]) -> bool:
        """Has the app's own thread do something; whether it will, since the app may have ended."""
        if self.loop is None or self.loop.is_closed():
            return False
        with suppress(RuntimeError):  # the loop closed in between
            self.loop.call_soon_threadsafe(does)
            return True
        return False

    def _show_other(self, picture: Picture | None) -> None:
        """Shows a borrowed picture, or with None the own one again."""
        self.lending.show(picture)
        self._choice = Choice()
        self._note = ""
        self._pace.begin(self._picture.view())
        self._to_overview()
        self.show(at_once=True)
        self._await()

    def _show_shelf(self) -> None:
        if isinstance(self.screen, Page) and self.screen.page_name == "recordings":
            self.show()

    def action_give_back(self) -> None:
        """From a recording that was opened here, back."""
        if self.lending.borrowed:
            self._show_other(None)

    async def action_back(self) -> None:
        """Takes a filter away, else leaves the page."""
        if isinstance(self.screen, Page):
            if self.screen.at.filter:
                self.screen.stand(filter="")
            else:
                self.pop_screen()

    def action_select_run(self, step: int) -> None:
        runs = self._pace.fast.runs
        if not runs or self._question is not None:
            return
        now = chosen(self._pace.fast, self._choice.id)
        at = next((index for index, run in enumerate(runs) if run is now), 0)
        self._select(runs[(at + step) % len(runs)].run.run_id)

    def _select(self, run_id: str) -> None:
        self._choice.pick(run_id, self._picture.select)
        self.show(at_once=True)
        self._await()  # the map of the time axis follows

    def action_copy(self) -> None:
        run = chosen(self._pace.fast, self._choice.id)
        if run is None:
            self.say("no verdict to copy yet")
            return
        text, answer = keeping.keep_verdict(run, self._pace.fast)
        if not self.is_headless:
            self.copy_to_clipboard(text)
        self.say(answer)

    def action_snapshot(self) -> None:
        self.say(keeping.keep_picture(self.export_screenshot(title="gputop")))

    def _handle_exception(self, error: Exception) -> None:
        if self.crash is None:
            self.crash = error
        super()._handle_exception(error)
