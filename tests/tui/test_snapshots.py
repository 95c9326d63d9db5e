"""Pictures of the main states. After a meant change: `pytest tests/tui/test_snapshots.py --snapshot-update`; look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.tui.app import GputopApp
from gputop.tui.options import Options
from gputop.tui.terminal import Terminal
from tests.tui import views

SIZES = ((80, 24), (120, 40), (200, 60))

PAGES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "input-bound": (views.view, []),
    "why": (views.view, ["w"]),
    "gpus": (lambda: views.many_gpus(4), ["g"]),
    "ranks-64": (lambda: views.job(64, slow=40), ["a"]),
    "processes": (views.view, ["p"]),
    "runs": (views.many_runs, ["r"]),
    "recordings": (views.view, ["o"]),
    "help": (views.view, ["question_mark"]),
    "sources": (views.view, ["i"]),
    "cause": (views.view, ["w", "enter"]),
    "causes": (views.view, ["w", "enter", "enter"]),
    "zoom": (views.with_segments, ["z"]),
    "palette": (views.view, ["ctrl+p", *"theme"]),
    "no-gpu": (views.no_gpu, []),
    "no-run": (views.no_run, []),
}
"""Every screen there is, each drawn at all of SIZES."""

STATES: dict[str, tuple[Callable[[], Any], tuple[int, int], list[str]]] = {
    **{
        f"{name}-{width}x{height}": (make, (width, height), keys)
        for name, (make, keys) in PAGES.items()
        for width, height in SIZES
    },
    "gpu-bound-120x40": (views.gpu_bound, (120, 40), []),
    "eight-gpus-120x40": (views.many_gpus, (120, 40), []),
    "several-runs-200x60": (views.many_runs, (200, 60), []),
    "why-profiled-120x40": (views.profiled, (120, 40), ["w", "end"]),
    "zoom-gpu-120x40": (views.with_segments, (120, 40), ["z", "down", "down", "down"]),
    "zoom-peak-200x60": (views.with_segments, (200, 60), ["z", "down", "down", "down", "down"]),
    "zoom-ledger-120x40": (views.with_segments, (120, 40), ["z", "down", "down"]),
    "processes-sorted-120x40": (views.view, (120, 40), ["p", *["greater_than_sign"] * 3]),
    "runs-filter-80x24": (views.many_runs, (80, 24), ["r", "slash", *"bound"]),
    "ranks-80x24": (views.job, (80, 24), ["a"]),
    "ranks-200x60": (lambda: views.job(512, slow=300), (200, 60), ["a", *["greater_than_sign"] * 3, "home"]),
    "narrow-60x12": (views.view, (60, 12), []),
    "tiny-40x8": (views.view, (40, 8), []),
    "replay-80x24": (views.replay, (80, 24), []),
    "replay-120x40": (views.replay, (120, 40), []),
    "replay-200x60": (views.replay_simulated, (200, 60), []),
    "replay-said-80x24": (views.replay_paused, (80, 24), []),
    "replay-said-120x40": (views.replay_paused, (120, 40), []),
    "replay-said-200x60": (views.replay_paused, (200, 60), []),
    "replay-why-120x40": (views.replay_paused, (120, 40), ["w", "end"]),
    "replay-go-to-80x24": (views.replay, (80, 24), ["colon", "x", "enter"]),
    "replay-tiny-40x8": (views.replay, (40, 8), []),
    "past-80x24": (views.looked_back, (80, 24), []),
    "past-120x40": (views.looked_back, (120, 40), []),
    "past-200x60": (views.looked_back, (200, 60), []),
    "recording-80x24": (views.recording, (80, 24), []),
    "recording-120x40": (views.recording, (120, 40), []),
    "recording-200x60": (views.recording, (200, 60), []),
    "recording-waits-80x24": (views.recording_waits, (80, 24), []),
}


@pytest.mark.parametrize("name", STATES)
def test_looks_as_before(name: str, snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.shelf.found", lambda folders: iter([list(views.SHELF)]))
    monkeypatch.setattr("gputop.tui.lending.aside", lambda does: does())
    make, size, keys = STATES[name]
    app = GputopApp(views.Canned(make()), Options(refresh=3600), Terminal("truecolor", False), clock=lambda: 0.0)
    assert snap_compare(app, terminal_size=size, press=keys)
