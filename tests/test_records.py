"""The schema: figures that can't be meant, runs that say more of themselves, text that is hostile."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop import records as r

STEP = r.Step(t=10, run_id="a", n=1, dur_ns=5, phases_ns={"data": 3})


def test_a_later_run_supersedes_field_by_field() -> None:
    first = r.Run(t=1, run_id="a", pid=5, host="h", script="train.py", rank=3)
    later = r.Run(t=2, run_id="a", pid=5, host="h", gpu_uuid="GPU-1")
    both = r.supersede(first, later)
    assert (both.script, both.rank, both.gpu_uuid) == ("train.py", 3, "GPU-1")


@given(st.text())
def test_cleaned_text_holds_nothing_that_steers_a_terminal(text: str) -> None:
    cleaned = r.clean(text, 80)
    assert len(cleaned) <= 80
    assert not {unicodedata.category(char) for char in cleaned} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py", "train.py"),
        ("訓練 é e\u0301.py", "訓練 é e\u0301.py"),
        ("\x1b[2J\t\n\x9b", "\\x1b[2J\\x09\\x0a\\x9b"),
        ("a\u202eb\u061cc\u2066d\U000e0041e", "a?b?c?d?e"),
        ("a" + "\u0336" * 40 + "b", "a\u0336\u0336b"),
        ("\u0336x", "x"),
        ("\ue0b0\ud800\u3164\U0001f44d\U0001f3fd\u260e\ufe0f", "???\U0001f44d?\u260e"),
    ],
)
def test_nothing_from_outside_hides_turns_or_overdraws_what_is_shown(text: str, shown: str) -> None:
    assert r.clean(text) == shown
    assert cell_len(shown) == sum(map(cell_len, shown))


@pytest.mark.parametrize(
    "changes",
    [{"t": -1}, {"t": 2**63}, {"dur_ns": -5}, {"phases_ns": {"data": -1}}, {"samples": -3}, {"dur_ns": 10**23}],
)
def test_figures_that_cannot_be_meant_are_told(changes: dict[str, object]) -> None:
    assert r.implausible(STEP) is None
    assert r.implausible(msgspec.structs.replace(STEP, **changes)) is not None
