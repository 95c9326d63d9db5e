"""How figures are written, and that whoever writes them does so by one module."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop import figures
from gputop.diagnosis import wording
from gputop.tui import figures as screen

HOUSE = Path(figures.__file__).parent
OWN_WAY = re.compile(r""":,[.}]|replace\(",", "|\} [kKMG]B|\bKB\b|[}\d] us\b""")


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (figures.count, 1919, "1,919"), (figures.count, 999.6, "1,000"),
        (figures.ms, 0.0873, "87.3 µs"), (figures.ms, 0.9996, "1 ms"), (figures.ms, 4.214, "4.21 ms"),
        (figures.ms, 99.96, "100 ms"), (figures.ms, 184.2, "184 ms"), (figures.ms, 1234, "1.23 s"),
        (figures.ms, 9_999, "10.0 s"), (figures.ms, 35_240, "35.2 s"), (figures.ms, 125_000, "2 min 05 s"),
        (figures.span, 4.21, "4.2 s"), (figures.span, 9.97, "10 s"), (figures.span, 99.4, "99 s"),
        (figures.span, 130, "2 min 10 s"), (figures.span, 3900, "1 h 05 min"), (figures.span, 90_000 * 3, "3 d 3 h"),
        (figures.pct, 0.03, "<0.1 %"),
        (figures.pct, 0.3, "0.3 %"), (figures.pct, 0.0, "0 %"), (figures.pct, 61.4, "61 %"),
        (figures.rate, 0.4213, "0.421"), (figures.rate, 12.34, "12.3"), (figures.rate, 1240.3, "1,240"),
        (figures.size, 300, "300 B"), (figures.size, 475_300, "475 kB"), (figures.size, 999_900, "1 MB"),
        (figures.size, 1.53e9, "1.53 GB"), (figures.bytes_s, 120e6, "120 MB/s"),
        (figures.memory, 512 * 2**20, "512 MiB"), (figures.memory, 1.5 * 2**30, "1.5 GiB"),
        (figures.number, 7.276, "7.28"), (figures.number, 1234567, "1,234,567"),
        (wording.time, 0.0873, "87.3 µs"), (wording.size, 62.2e9, "62.2 GB"),
        (screen.count, 1919, "1,919"), (screen.ms, 0.0873, "87 µs"), (screen.ms, 4.214, "4.2 ms"),
        (screen.ms, 1234, "1.23 s"), (screen.ms, None, "–"), (screen.seconds, 130, "2 min 10 s"),
        (screen.file_size, 475_300, "475 kB"),
        (screen.file_size, 1_530_000, "1.5 MB"), (screen.rate, 120e6, "120 MB/s"),
        (screen.held, 7 * 60 * 10**9, "7 min"), (screen.held, 3900 * 10**9, "1 h 05 min"),
    ],
)  # fmt: skip
def test_a_figure_is_written_as(write: Callable[[float | None], str], value: float | None, text: str) -> None:
    assert write(value) == text


def test_counts_have_nouns() -> None:
    assert [figures.counted(n, "step") for n in (0, 1, 1919)] == ["0 steps", "1 step", "1,919 steps"]
    assert figures.used_of(41 * 2**30, 80 * 2**30) == "41.0 of 80 GiB"
    assert wording.count(2.5, "core") == "2.5 cores"


@pytest.mark.parametrize("folder", ["cli", "diagnosis", "recording", "report", "tui"])
def test_nobody_writes_figures_in_a_way_of_its_own(folder: str) -> None:
    found = [
        f"{path.relative_to(HOUSE)}: {line.strip()}"
        for path in (HOUSE / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if OWN_WAY.search(line) and "export" not in path.parts
    ]
    assert found == []
