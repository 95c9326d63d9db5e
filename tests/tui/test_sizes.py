"""No size, count or missing figure breaks the screen: blocks stay on it, apart from each other, every line full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.recording.state import RecordingState
from gputop.records import Gpu, Host, Process, Run, Verdict, Worker
from gputop.tui.asking import Question
from gputop.tui.draw.overview import compose
from gputop.tui.draw.sight import Sight
from gputop.tui.kept import Kept
from gputop.tui.lines import plain
from gputop.tui.sheet import PAGES, Standing, sheet
from gputop.view import Cursor, GpuView, HostView, RunView, Segment, Share, View
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
        "שלום\u202e\u061c",
        "a" + "\u0336" * 40,
        "\U0001f44d\U0001f3fd\u260e\ufe0f\u3164",
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
        profile=draw(st.none() | st.just(views.profiled().runs[0].profile)),
        said=draw(st.none() | st.just(views.bound_verdict())),
        cause_history=draw(st.lists(st.none() | st.just("sync") | st.just("x"), max_size=30).map(tuple)),
    )


@st.composite
def cursors(draw: Any) -> Cursor:
    start = draw(st.sampled_from([views.NOW, views.NOW - 10**9, 0]))
    long = draw(st.sampled_from([0, 1, 10**9, 86_400 * 10**9, 40 * 365 * 86_400 * 10**9]))
    moment = st.integers(start - 10**9, start + long + 10**9)
    segments = st.builds(Segment, moment, moment, st.sampled_from(["sync", "gpu-bound", "stalled", "of-the-future"]))
    return Cursor(
        from_ns=start,
        to_ns=start + long,
        at_ns=draw(moment),
        live=draw(st.booleans()),
        playing=draw(st.booleans()),
        speed=draw(st.sampled_from([0.25, 1.0, 120.0])),
        replay=draw(st.booleans()),
        at_end=draw(st.booleans()),
        skip_idle=draw(st.booleans()),
        causes=tuple(draw(st.lists(segments, max_size=6))),
        marks=tuple(draw(st.lists(st.tuples(moment, st.sampled_from(["epoch", "oom", "odd"])), max_size=9))),
    )


RECORDINGS = st.builds(
    RecordingState,
    path=NASTY,
    since_ns=st.sampled_from([0, views.NOW, views.NOW + 10**9]),
    bytes=st.integers(0, 1 << 50),
    dropped=st.integers(0, 10),
    state=st.sampled_from(["recording", "waiting", "ended", "of-the-future"]),
    why=st.none() | NASTY,
    said=st.lists(NASTY, max_size=2).map(tuple),
)


SHELF = (
    Kept(path="/home/ada/run.gputop", size=1 << 50, changed_s=0.0, from_ns=views.NOW, long_ns=0, scripts=("訓練.py",)),
    Kept(path="/x/\ud800\x1b[2J.gputop", size=0, changed_s=1e300, fault="\x1b]0;pwned\x07" * 40),
)

STANDINGS = st.builds(
    Standing,
    about=st.sampled_from(["", "sync", "a-cause-of-the-future", "../../etc/passwd"]),
    filter=st.sampled_from(["", "train", "\x1b[2J", "worker 訓練"]),
    column=st.integers(-1, 30),
    reverse=st.booleans(),
    key=st.sampled_from(["", "a", "gone"]),
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
        cursor=draw(st.none() | cursors()),
        recording=draw(st.none() | RECORDINGS),
    )


@settings(max_examples=80, deadline=None)
@given(any_view(), st.integers(0, 300), st.integers(0, 300), st.sampled_from([None, "a", "gone"]), st.booleans())
def test_the_overview_fits_any_size(view: View, width: int, height: int, run_id: str | None, asked: bool) -> None:
    sight = Sight(view=view, slow=view, run_id=run_id)
    question = Question("go to", ("14:05", "50%")) if asked else None
    rows = flatten(compose(sight, width, height, question=question), width, height)
    assert not any(ord(char) < 32 or ord(char) == 127 for row in rows for char in row)


@settings(max_examples=30, deadline=None)
@given(any_view(), st.integers(1, 200), st.integers(1, 100), st.booleans(), STANDINGS)
def test_every_page_draws_any_view(view: View, width: int, height: int, no_cmdline: bool, at: Standing) -> None:
    shelf = None if view.host is None else SHELF
    sight = Sight(view=view, slow=view, no_cmdline=no_cmdline, shelf=shelf)
    for name in PAGES:
        made = sheet(name, sight, width, height, at)
        assert made.chosen < max(1, len(made.rows))
        for line in (*made.pinned, *made.lines):
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


@pytest.mark.parametrize("make", [views.replay, views.replay_paused, views.replay_gap, views.looked_back])
def test_the_past_is_never_taken_for_the_present_at_any_size(make: Callable[[], View]) -> None:
    view = make()
    for width, height in ((16, 1), (20, 2), (30, 3), (40, 4), (40, 8), (59, 24), (60, 12), (80, 24), (200, 60)):
        text = "\n".join(flatten(compose(Sight(view=view, slow=view), width, height), width, height))
        assert any(word in text for word in ("REPLAY", "PAST", "behind")), (width, height, text)
        assert "live" not in text
        assert "now" not in text.split() or "End" in text


def test_a_run_that_vanished_from_the_fast_view_does_not_break_the_slow_one() -> None:
    slow, fast = views.many_runs(3), msgspec.structs.replace(views.no_run(), gpus=())
    flatten(compose(Sight(view=fast, slow=slow), 120, 40), 120, 40)
    flatten(compose(Sight(view=slow, slow=fast), 120, 40), 120, 40)
