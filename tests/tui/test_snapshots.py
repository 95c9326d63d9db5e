"""Pictures of the main states. After a meant change: `pytest tests/tui/test_snapshots.py --snapshot-update`; look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.tui.app import GputopApp
from gputop.tui.options import Options
from gputop.tui.terminal import Terminal
from tests.tui import views

STATES: dict[str, tuple[Callable[[], Any], tuple[int, int], list[str]]] = {
    "input-bound-80x24": (views.view, (80, 24), []),
    "input-bound-120x40": (views.view, (120, 40), []),
    "gpu-bound-120x40": (views.gpu_bound, (120, 40), []),
    "no-run-80x24": (views.no_run, (80, 24), []),
    "no-gpu-80x24": (views.no_gpu, (80, 24), []),
    "eight-gpus-120x40": (views.many_gpus, (120, 40), []),
    "several-runs-200x60": (views.many_runs, (200, 60), []),
    "why-120x40": (views.view, (120, 40), ["w"]),
    "narrow-60x12": (views.view, (60, 12), []),
    "tiny-40x8": (views.view, (40, 8), []),
}


@pytest.mark.parametrize("name", STATES)
def test_looks_as_before(name: str, snap_compare: Any) -> None:
    make, size, keys = STATES[name]
    app = GputopApp(views.Canned(make()), Options(refresh=3600), Terminal("truecolor", False), clock=lambda: 0.0)
    assert snap_compare(app, terminal_size=size, press=keys)
