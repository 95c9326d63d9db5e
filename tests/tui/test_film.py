"""The moving picture of the README: whole in itself, small, and of what the screen really shows."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from xml.etree import ElementTree

from tests import film

DOCS = Path(__file__).parents[2] / "docs"


def test_each_line_is_shown_for_as_long_as_it_stays_the_same() -> None:
    frames = [["a", "x"], ["a", ""], ["b", "x"]]
    assert list(film.stretches(frames)) == [(0, 2, "a"), (2, 3, "b"), (0, 1, "x"), (2, 3, "x")]


def test_a_film_of_two_shots_moves_between_them_and_needs_nothing_from_elsewhere() -> None:
    shots = (film.Shot(False, 20, (), 2.0, "before"), film.Shot(False, 21, ("w",), 3.0, "why"))
    pictures = [asyncio.run(film.frame(view, shot.keys)) for view, shot in zip(film.views(shots), shots, strict=True)]
    made = film.film(pictures, shots)
    ElementTree.fromstring(made)
    assert "INPUT-WORKERS" in made
    assert "what&#160;to&#160;do" in made
    assert "40.000%{visibility:hidden}" in made  # the first of 2 s in 5 s
    assert re.findall(r"https?://[^\"]*", made) == ["http://www.w3.org/2000/svg"]


def test_the_one_in_the_documentation_is_small_and_tells_the_story() -> None:
    text = (DOCS / "screen-film.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert len(text) < 400_000
    assert all(said in text for said in ("simulated&#160;GPU", "INPUT-WORKERS", "GPU-BOUND", film.WHY, film.CURED))
