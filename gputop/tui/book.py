"""The pages about causes, as they are shipped: their text, and their names in the order of the overview of causes."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_LISTED = re.compile(r"^\| (\w+) \| \[([a-z0-9-]+)\]\([a-z0-9-]+\.md\) \| (.+?) \|$", re.MULTILINE)


def folders() -> tuple[Path, ...]:
    """Where the pages may lie: in the installed package, or beside it in a checkout."""
    return PACKAGE / "causes", PACKAGE.parent / "docs" / "causes"


@lru_cache(64)
def text_of(cause: str) -> str | None:
    """The page of a cause in Markdown; None where there is none, as for a cause of a later version."""
    return _read(f"{cause}.md") if _NAME.fullmatch(cause) else None


@lru_cache(1)
def listed() -> tuple[tuple[str, str, str], ...]:
    """Family, name and a sentence for each cause."""
    found = _LISTED.findall(_read("README.md") or "")
    return tuple((family, name, sentence) for family, name, sentence in found)


def _read(name: str) -> str | None:
    for folder in folders():
        try:
            return (folder / name).read_text(encoding="utf-8")
        except OSError:
            continue
    return None
