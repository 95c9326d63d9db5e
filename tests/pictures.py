"""Pictures for the documentation, drawn by the program itself: `python -m tests.pictures docs`.

Each is the screen over a simulated run, through the same timeline, diagnosis and drawing as a live one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gputop.recording.writer import Writer
from gputop.simulation.trace import START_NS, records
from gputop.tracks import S
from gputop.tui.app import GputopApp
from gputop.tui.options import Controls, Options
from gputop.tui.shelf import open_replay
from gputop.tui.terminal import Terminal
from gputop.view import View
from gputop.watching import Watch

PICTURES: dict[str, tuple[str, bool, tuple[int, int], list[str]]] = {
    "screen": ("input-workers", False, (100, 30), []),
    "screen-fixed": ("input-workers", True, (100, 30), []),
    "screen-why": ("sync", False, (100, 34), ["w"]),
    "screen-zoom": ("input-workers", False, (100, 30), ["z", "down", "down", "down"]),
    "screen-cause": ("input-workers", False, (100, 30), ["w", "enter"]),
}
"""File name: scenario, whether cured, columns and rows, keys pressed."""


class Still:
    """A picture that stands still, whatever is asked of it."""

    def __init__(self, view: View) -> None:
        self._view = view

    def view(self) -> View:
        return self._view

    def ended(self) -> bool:
        return False

    def close(self) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name not in vars(Controls):
            raise AttributeError(name)
        return lambda *given: None


def view_of(scenario: str, *, fixed: bool = False, seconds: float = 90) -> View:
    """What a viewer of a simulated run sees after some time."""
    watch = Watch(f"demo {scenario}", column_ns=S, hostname="gpu-box", simulated=True)
    due = now = 0
    for record in records(scenario, fixed=fixed, seconds=seconds):
        watch.add(record)  # type: ignore[arg-type]
        now = max(now, record.t)
        if now >= due:
            watch.tick(now)
            due = now + S
    return watch.view(now)


async def _draw(view: View, size: tuple[int, int], keys: list[str], path: Path) -> None:
    app = GputopApp(Still(view), Options(refresh=3600), Terminal("truecolor", False), clock=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        path.write_text(app.export_screenshot(title="gputop"))


async def _replay(path: Path) -> None:
    """A recording of a run that was cured on the way, half-way through."""
    with TemporaryDirectory() as folder:
        feed = open_replay(filled(Path(folder) / "cured.gputop"), 1.0)
        try:
            feed.pause()
            feed.seek_pct(75)
            view, judged = feed.view(), 0
            while judged < 30 or view.cursor is None or view.cursor.playing or not view.runs:
                before, view = view.cursor, feed.wait(view, 5.0)
                judged = judged + 1 if before is not None and before == view.cursor and before.causes else 0
            feed.seek_pct(80)  # what was judged by now is in the histories of the moments that are gone to from now on
            await _draw(feed.wait(feed.wait(view, 2.0), 2.0), (100, 30), [], path)
        finally:
            feed.close()


def filled(path: Path) -> Path:
    """A minute and a half with too few workers, then as long with enough, as two runs."""
    writer = Writer(path, now_ns=START_NS)
    end = START_NS
    for fixed in (False, True):
        for record in records("input-workers", fixed=fixed, seconds=90, start_ns=end + 5 * S):
            writer.add(record)
            last = record.t
            if writer.pending() > 1000:
                writer.commit(last)
        end = last
    writer.close(end)
    return path


def main(folder: str) -> None:
    """Draw every picture into a folder."""
    asyncio.run(_replay(Path(folder) / "screen-replay.svg"))
    for name, (scenario, fixed, size, keys) in PICTURES.items():
        path = Path(folder) / f"{name}.svg"
        asyncio.run(_draw(view_of(scenario, fixed=fixed), size, keys, path))
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
