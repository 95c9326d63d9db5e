"""Pictures for the documentation, drawn by the program itself: `python -m tests.pictures docs`.

Each is the screen over a simulated run, through the same timeline, diagnosis and drawing as a live one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gputop.simulation.trace import records
from gputop.tracks import S
from gputop.tui.app import GputopApp
from gputop.tui.options import Options
from gputop.tui.terminal import Terminal
from gputop.view import View
from gputop.watching import Watch

PICTURES: dict[str, tuple[str, bool, tuple[int, int], list[str]]] = {
    "screen": ("input-workers", False, (100, 30), []),
    "screen-fixed": ("input-workers", True, (100, 30), []),
    "screen-why": ("sync", False, (100, 34), ["w"]),
}
"""File name: scenario, whether cured, columns and rows, keys pressed."""


class Still:
    """A picture that stands still."""

    def __init__(self, view: View) -> None:
        self._view = view

    def view(self) -> View:
        return self._view

    def ended(self) -> bool:
        return False

    def close(self) -> None:
        return


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


def main(folder: str) -> None:
    """Draw every picture into a folder."""
    for name, (scenario, fixed, size, keys) in PICTURES.items():
        path = Path(folder) / f"{name}.svg"
        asyncio.run(_draw(view_of(scenario, fixed=fixed), size, keys, path))
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
