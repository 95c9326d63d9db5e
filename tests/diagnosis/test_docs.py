"""Each cause has a page, which names its thresholds with the values that the code has."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from gputop.diagnosis.causes import IDS, RANKED, STATES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "causes"
MODULES = {module.ID: module for module in (*RANKED, *STATES)}
PARTS = ("What it looks like", "What fools it", "Look-alikes", "What to do", "The gain")


def thresholds(module: ModuleType) -> dict[str, float]:
    """The numeric constants that a cause's module names."""
    return {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


@pytest.mark.parametrize("cause", IDS)
def test_page_has_every_part_and_names_the_thresholds(cause: str) -> None:
    text = (PAGES / f"{cause}.md").read_text()
    assert text.startswith(f"# {cause}\n")
    for part in PARTS:
        assert f"## {part}\n" in text
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d. e+-]+) \|", text, re.MULTILINE))
    assert {name: float(value.replace(" ", "")) for name, value in rows.items()} == pytest.approx(
        thresholds(MODULES[cause])
    )


def test_pages_are_of_causes_alone_and_links_lead_somewhere() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == set(IDS)
    for page in [*PAGES.glob("*.md"), DOCS / "verdict.md"]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), (page.name, link)


@pytest.mark.parametrize("cause", IDS)
def test_every_threshold_says_its_unit_and_reason(cause: str) -> None:
    text = (PAGES / f"{cause}.md").read_text()
    for name in thresholds(MODULES[cause]):
        row = re.search(rf"^\| `{name}` \| [^|]+ \| (.+) \|$", text, re.MULTILINE)
        assert row is not None
        assert len(row.group(1)) > 30, name


def test_files_are_named_after_their_causes() -> None:
    for cause, module in MODULES.items():
        assert module.__name__.rsplit(".", 1)[-1] == cause.replace("-", "_")
