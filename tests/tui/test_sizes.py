"""No size, count or missing figure breaks the screen: blocks stay on it, apart from each other, every line full."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.records import Gpu, Host, Process, Run, Verdict, Worker
from gputop.tui.draw.overview import compose
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import plain
from gputop.tui.screens import PAGES
from gputop.view import GpuView, HostView, RunView, Share, View
from tests.tui import views
from tests.tui.grid import flatten

NASTY = st.sampled_from(
    [
        "",
        "train.py",
        "訓練スクリプト.py",
        "\x1b[2J\x1b]0;pwned\x07",
        "[bold red]x[/]",
        "a" * 500,
        "tab\tand\nnewline",
        "é́",
        "\ud800",
    ]
)
PERCENT = st.none() | st.floats(0, 100) | st.sampled_from([0.0, 5e-324, float("nan"), float("inf")])
HISTORY = st.lists(
    st.none() | st.floats(0, 1e6) | st.sampled_from([5e-324, float("nan"), float("inf")]), max_size=40
).map(tuple)


@st.composite
def gpus(draw: Any) -> GpuView:
    index = draw(st.none() | st.integers(0, 15))
    return GpuView(
        gpu=Gpu(
            t=views.NOW,
            host="h",
            gpu_uuid=draw(st.sampled_from(["GPU-0", "GPU-1"])),
            gpu_index=index,
            name=draw(st.none() | NASTY),
            util_pct=draw(PERCENT),
            mem_used_bytes=draw(st.none() | st.integers(0, 1 << 40)),
            mem_total_bytes=draw(st.none() | st.integers(0, 1 << 40)),
            power_w=draw(PERCENT),
            temp_c=draw(PERCENT),
            throttle=draw(st.none() | st.just(["power_cap", "thermal_hw"])),
            lost=draw(st.none() | st.booleans()),
            unsupported=draw(st.none() | st.just(["util_pct", "mem_used_bytes"])),
            failed=draw(st.none() | st.just(["mem_used_bytes"])),
        ),
        age_ns=draw(st.sampled_from([0, 9_000_000_000, 10**15])),
        util_history=draw(HISTORY),
        util_max_history=draw(HISTORY),
        burst_note=draw(st.none() | NASTY),
    )


@st.composite
def runs(draw: Any) -> RunView:
    run_id = draw(st.sampled_from(["a", "b", "c"]))
    cause = draw(st.sampled_from(["input-workers", "gpu-bound", "unknown", "a-cause-of-the-future"]))
    shares = draw(st.lists(st.tuples(st.sampled_from(["data", "forward", "mine", "other"]), st.floats(0)), max_size=5))
    process = draw(
        st.none() | st.just(Process(t=0, host="h", pid=1, workers=[Worker(pid=2), Worker(pid=3, state="D")]))
    )
    return RunView(
        run=Run(
            t=0,
            run_id=run_id,
            pid=7,
            host="h",
            script=draw(st.none() | NASTY),
            rank=draw(st.none() | st.integers(0, 7)),
        ),
        state=draw(st.sampled_from(["starting", "training", "stalled", "ended", "lost", "odd"])),
        verdict=Verdict(t=0, run_id=run_id, cause=cause, family="x", headline=draw(NASTY), confidence=0.5),
        step_ms=draw(st.none() | st.just({}) | st.just({"p50": 0.0, "p95": 12345.6})),
        steps_per_s=draw(st.none() | st.floats(0) | st.just(float("nan"))),
        ledger=tuple(Share(phase, pct, pct) for phase, pct in shares),
        process=process,
        gpu_uuid=draw(st.none() | st.just("GPU-0")),
        step_history=draw(HISTORY),
        step_max_history=draw(HISTORY),
        cause_history=draw(st.lists(st.none() | st.just("sync") | st.just("x"), max_size=30).map(tuple)),
    )


@st.composite
def any_view(draw: Any) -> View:
    return views.view(
        runs=tuple(draw(st.lists(runs(), max_size=8))),
        gpus=tuple(draw(st.lists(gpus(), max_size=16))),
        host=draw(st.none() | st.just(HostView(host=Host(t=0, host="h"), age_ns=0)) | st.just(views.host_view())),
        hostname=draw(NASTY),
        waiting=draw(st.none() | NASTY),
        warnings=tuple(draw(st.lists(NASTY, max_size=1))),
    )


@settings(max_examples=80, deadline=None)
@given(any_view(), st.integers(0, 300), st.integers(0, 300), st.sampled_from([None, "a", "gone"]))
def test_the_overview_fits_any_size(view: View, width: int, height: int, run_id: str | None) -> None:
    sight = Sight(view=view, slow=view, run_id=run_id)
    rows = flatten(compose(sight, width, height), width, height)
    assert not any(ord(char) < 32 or ord(char) == 127 for row in rows for char in row)


@settings(max_examples=30, deadline=None)
@given(any_view(), st.integers(1, 200), st.booleans())
def test_every_page_draws_any_view(view: View, width: int, no_cmdline: bool) -> None:
    sight = Sight(view=view, slow=view, no_cmdline=no_cmdline)
    for name in PAGES:
        for line in import_module(f"gputop.tui.pages.{name}").draw(sight, width):
            text = plain(line)
            assert cell_len(text) == width, (name, text)
            assert not any(ord(char) < 32 for char in text)


@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (20, 5), (40, 8), (59, 12), (60, 11), (60, 12), (80, 24), (120, 40), (300, 100)]
)
@pytest.mark.parametrize(("gpu_count", "run_count"), [(0, 0), (1, 1), (16, 8)])
def test_corner_sizes(width: int, height: int, gpu_count: int, run_count: int) -> None:
    view = views.many_gpus(gpu_count, runs=views.many_runs(run_count).runs)
    flatten(compose(Sight(view=view, slow=view), width, height), width, height)


def test_a_run_that_vanished_from_the_fast_view_does_not_break_the_slow_one() -> None:
    slow, fast = views.many_runs(3), msgspec.structs.replace(views.no_run(), gpus=())
    flatten(compose(Sight(view=fast, slow=slow), 120, 40), 120, 40)
    flatten(compose(Sight(view=slow, slow=fast), 120, 40), 120, 40)
