"""A moving picture for the README, drawn by the program itself: `python -m tests.film docs/screen-film.svg`.

A simulated training with too few workers, what `w` says of it, and the same training with the cure, as the screen shows
them through the timeline, diagnosis and drawing of a live one. One SVG with CSS keyframes, nothing outside it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from gputop.simulation.trace import START_NS, records
from gputop.tracks import S
from gputop.tui.app import GputopApp
from gputop.tui.options import Options
from gputop.tui.terminal import Terminal
from gputop.view import View
from gputop.watching import Watch
from tests.pictures import Still

SIZE = 80, 24


class Shot(NamedTuple):
    """One frame: which of the two runs, seconds after it began, keys pressed, how long it is shown, what is said."""

    fixed: bool
    at_s: int
    keys: tuple[str, ...]
    shown_s: float
    says: str


BEFORE, WHY = "a training that leaves its GPU idle: why?", "w: what to change, and the evidence"
CURED = "the same training with more workers"

SHOTS = (
    Shot(False, 4, (), 1.5, BEFORE),
    *(Shot(False, at, (), 1.0, BEFORE) for at in (8, 11, 14, 17)),
    Shot(False, 20, (), 3.5, BEFORE),
    Shot(False, 21, ("w",), 6.0, WHY),
    Shot(True, 4, (), 1.5, CURED),
    *(Shot(True, at, (), 1.0, CURED) for at in (8, 12, 16, 20, 24)),
    Shot(True, 30, (), 5.0, CURED),
)
POSTER = 5
"""The frame that stands where nothing moves: where motion is not wanted, or can't be shown."""


def views(shots: tuple[Shot, ...]) -> Iterator[View]:
    """What a viewer sees at each shot."""
    for fixed, group in groupby(shots, key=lambda shot: shot.fixed):
        wanted = [shot.at_s for shot in group]
        watch = Watch("live", column_ns=S, hostname="gpu-box", simulated=True)
        due = START_NS
        for record in records("input-workers", fixed=fixed, seconds=max(wanted) + 1):
            while record.t >= due:
                watch.tick(due)
                if wanted and due - START_NS >= wanted[0] * S:
                    wanted.pop(0)
                    yield watch.view(due)
                due += S
            watch.add(record)  # type: ignore[arg-type]
        for _ in wanted:
            yield watch.view(due)


async def frame(view: View, keys: tuple[str, ...]) -> str:
    """The screen as Textual draws it into an SVG."""
    app = GputopApp(Still(view), Options(refresh=3600, theme="dark"), Terminal("truecolor", False), clock=lambda: 0.0)
    async with app.run_test(size=SIZE) as pilot:
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        return app.export_screenshot()


RULE = re.compile(r"^\s*\.\S+-(r\d+) \{ (.*?) \}", re.M)
MATRIX = re.compile(r'<g transform="translate\((?P<at>[^)]*)\)" clip-path="[^"]*">(?P<body>.*)</g>\s*</svg>', re.S)
ELEMENT = re.compile(r"<rect [^>]*/>|<text [^>]*>[^<]*</text>")
CELL, ROW = 12.2, 24.4
"""Width of a cell and height of a line in the pictures that Textual draws."""


def rows(svg: str, looks: dict[str, str]) -> list[str]:
    """What stands in each line of a picture; `looks` gives every style one name over all pictures."""
    found = MATRIX.search(svg)
    assert found is not None, "Textual draws its pictures in another way now"
    names = {name: looks.setdefault(rule, f"c{len(looks)}") for name, rule in RULE.findall(svg)}
    out = [""] * SIZE[1]
    for element in ELEMENT.findall(found["body"]):
        y = float(re.search(r' y="([\d.]+)"', element)[1])  # type: ignore[index]
        row = int((y - (0 if element.startswith("<rect") else 18)) / ROW)
        named = re.sub(r' class="\S+-(r\d+)"', lambda match: f' class="{names[match[1]]}"', element)
        bare = re.sub(r' clip-path="[^"]*"| shape-rendering="[^"]*"', "", named)
        out[min(max(row, 0), SIZE[1] - 1)] += LEAD.sub(_without_lead, bare)
    return out


LEAD = re.compile(r' x="([\d.]+)"( y="[\d.]+") textLength="([\d.]+)">((?:&#160;)+)')


def _without_lead(match: re.Match[str]) -> str:
    """A text that begins where its first character stands: not every viewer draws blanks before it."""
    lead = CELL * match[4].count(";")
    return f' x="{float(match[1]) + lead:g}"{match[2]} textLength="{max(0.0, float(match[3]) - lead):g}">'


def stretches(frames: list[list[str]]) -> Iterator[tuple[int, int, str]]:
    """From frame, to frame, content: each line once for as long as it stays the same."""
    for line in zip(*frames, strict=True):
        at = 0
        for content, group in groupby(line):
            many = len(list(group))
            if content:
                yield at, at + many, content
            at += many


def film(pictures: list[str], shots: tuple[Shot, ...]) -> str:
    """One SVG that shows the pictures one after the other, again and again."""
    looks: dict[str, str] = {}
    frames = [[*rows(svg, looks), f'<text class="say" x="{SIZE[0] * CELL / 2:g}" y="-14">{shot.says}</text>']
              for svg, shot in zip(pictures, shots, strict=True)]  # fmt: skip
    starts = [sum(shot.shown_s for shot in shots[:index]) for index in range(len(shots) + 1)]
    groups: dict[tuple[int, int], list[str]] = {}
    for first, last, content in stretches(frames):
        groups.setdefault((first, last), []).append(content)
    css, body = [], []
    for index, ((first, last), contents) in enumerate(sorted(groups.items())):
        here = "visible" if first <= POSTER < last else "hidden"
        on, off = (100 * starts[at] / starts[-1] for at in (first, last))
        if last - first < len(shots):
            css.append(f".g{index}{{visibility:{here};animation:k{index} {starts[-1]:g}s step-end infinite}}")
            css.append(f"@keyframes k{index}{{{_steps(on, off)}}}")
        body.append(f'<g class="g{index}">{"".join(contents)}</g>')
    css += [f".{name}{{{rule}}}" for rule, name in looks.items()]
    wide, high = SIZE[0] * CELL, SIZE[1] * ROW
    return f"""<svg viewBox="0 0 {wide + 18:g} {high + 58:g}" xmlns="http://www.w3.org/2000/svg">
<title>gputop names a bottleneck of a simulated training, says what to change, and sees that it is cured</title>
<style>text{{font:20px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}}
.say{{fill:#d8dee9;font:bold 18px sans-serif;text-anchor:middle}}
{"".join(css)}
@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}}}</style>
<rect x="1" y="1" width="{wide + 16:g}" height="{high + 56:g}" rx="8" fill="#14171c" stroke="#5b6472"/>
<g transform="translate(9 45)">{"".join(body)}</g></svg>
"""


def _steps(on: float, off: float) -> str:
    """Shown from `on` to `off` percent of the film."""
    before = "0%{visibility:hidden}" if on > 0 else ""
    after = f"{off:.3f}%{{visibility:hidden}}" if off < 100 else ""
    return f"{before}{on:.3f}%{{visibility:visible}}{after}"


def main(path: str) -> None:
    """Draw the film into a file."""
    pictures = [asyncio.run(frame(view, shot.keys)) for view, shot in zip(views(SHOTS), SHOTS, strict=True)]
    Path(path).write_text(film(pictures, SHOTS), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
