"""What is drawn for each state: wording, glyphs, and that missing, zero, stale and unsupported look different."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
from rich.cells import cell_len

from gputop.diagnosis.steady import AWAITED
from gputop.records import Event, GpuProcess, Sampler
from gputop.tui.draw import gpugrid, ledger, ribbon
from gputop.tui.draw.overview import compose
from gputop.tui.draw.rows import gpu_in_full
from gputop.tui.draw.series import axis_labels, graph, nice_top, on_axis
from gputop.tui.draw.sight import Sight
from gputop.tui.draw.verdict import proof
from gputop.tui.glyphs import BUCKETS, MARKS, RAMP, RIBBON, to_ascii
from gputop.tui.lines import Span, code, crop, cut, fit, pieces, plain, wrap
from gputop.tui.pages import gpus
from gputop.tui.sheet import Standing, sheet
from gputop.tui.told import Told
from gputop.view import Share, View
from tests.tui import views
from tests.tui.grid import flatten


def text(view: View, width: int = 120, height: int = 40, **sight: object) -> str:
    blocks = compose(Sight(view=view, slow=view, **sight), width, height)  # type: ignore[arg-type]
    return "\n".join(flatten(blocks, width, height))


def test_no_run_says_what_is_awaited_and_how_to_start() -> None:
    shown = text(views.no_run(), 80, 24)
    assert "none found on this machine yet" in shown
    assert "gputop run -- python train.py" in shown
    assert "import gputop; gputop.watch()" in shown
    assert "gputop demo" in shown
    assert "gputop doctor" in shown
    assert "GPU 0" in shown


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 8), (120, 40)])
def test_a_training_without_a_publisher_is_offered_to_be_attached_to(width: int, height: int) -> None:
    def on_gpu(name: str) -> View:
        processes = [GpuProcess(pid=77, name="Xorg"), GpuProcess(pid=4711, name=name, cmdline="python secret.py")]
        return msgspec.structs.replace(views.no_run(), gpus=(views.gpu_view(gpu={"processes": processes}),))

    shown = text(on_gpu("/usr/bin/python3"), width, height)
    assert "A watches it as it is, or gputop attach 4711" in shown or "A or gputop attach 4711" in shown
    assert "secret" not in shown
    assert "gputop run -- python train.py" in shown
    assert "attach" not in text(on_gpu("firefox"), width, height)


def test_no_gpu_says_why_and_shows_the_rest() -> None:
    shown = text(views.no_gpu(), 120, 40)
    assert "no NVIDIA driver: libnvidia-ml" in shown
    assert "CPU-BOUND" in shown
    assert "host clock" in shown
    assert "34 %" in shown


def test_a_simulated_gpu_is_always_called_so() -> None:
    for width, height in ((80, 24), (40, 8), (120, 40)):
        assert "simulated GPU" in text(views.view(simulated=True), width, height)
        gpu = views.gpu_view(gpu={"simulated": True})
        assert "simulated GPU" in text(views.view(gpus=(gpu,)), width, height)


def test_an_error_that_the_driver_reported_is_shown_with_its_age_and_for_an_hour() -> None:
    def told(xid: int, ago_s: float) -> list[str]:
        shown = views.gpu_view()
        reported = {"xid": xid, "xid_ns": shown.gpu.t + shown.age_ns - int(ago_s * views.SECOND)}
        view = msgspec.structs.replace(shown, gpu=msgspec.structs.replace(shown.gpu, **reported))
        page = gpus.sheet(Sight(view=(one := views.view(gpus=(view,))), slow=one), 160, 40, Standing())
        return [text(one), *(plain(line) for line in page.lines)]

    shown = told(79, 40)
    assert all("XID 79 40 s ago" in part for part in shown[:2])
    assert "fallen off the bus" in shown[2]
    assert not any("XID" in part for part in (*told(79, 3700), *told(45, 3)))


def test_a_process_that_only_the_driver_sees_is_called_so() -> None:
    listed = [GpuProcess(pid=71, mem_bytes=1 << 30), GpuProcess(pid=72, name="python", start_ticks=5)]
    row = views.gpu_view(gpu={"processes": listed})
    page = gpus.sheet(Sight(view=(one := views.view(gpus=(row,))), slow=one), 160, 40, Standing())
    shown = {pid: next(plain(line) for line in page.lines if f"pid {pid}" in plain(line)) for pid in (71, 72)}
    assert "not to be seen from here" in shown[71]
    assert "not to be seen" not in shown[72]


def test_each_mig_instance_has_its_line() -> None:
    instances = [
        {"name": "H100 MIG 1g.10gb", "mem_used_bytes": 5 << 30, "mem_total_bytes": 10 << 30, "sm_active_pct": 61.0,
         "processes": [{"pid": 71}]},
        {"uuid": "MIG-\x1b[31mb", "mem_used_bytes": "odd", "processes": None},
    ]  # fmt: skip
    row = views.gpu_view(gpu={"mig": instances, "util_pct": None})
    page = gpus.sheet(Sight(view=(one := views.view(gpus=(row,))), slow=one), 160, 40, Standing())
    shown = [plain(line) for line in page.lines]
    first = next(line for line in shown if "1g.10gb" in line)
    assert all(part in first for part in ("5", "10", "SM active 61 %", "1 process"))
    assert any("MIG-\\x1b[31mb" in line for line in shown)


def test_a_narrow_screen_keeps_verdict_and_ledger() -> None:
    shown = text(views.view(), 40, 8)
    assert "INPUT-WORKERS" in shown
    assert "█" in shown
    assert "GPU 0" not in shown


def test_80x24_shows_everything_for_one_gpu_and_one_run() -> None:
    shown = text(views.view(), 80, 24)
    for part in ("INPUT-WORKERS", "num_workers 4 → 10", "2.3x", "data 57 %", "p50", "p95", "GPU 0", "peak", "mem",
                 "CPU", "why", "now", "K checkpoint", "q quit"):  # fmt: skip
        assert part in shown, part


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"util_pct": None}, "–"),
        ({"util_pct": 0.0}, "0 %"),
        ({"util_pct": None, "unsupported": ["util_pct"]}, "n/a"),
        ({"util_pct": None, "failed": ["util_pct"]}, "failed"),
        ({"util_pct": 0.3}, "0.3 %"),
    ],
)
def test_missing_zero_unsupported_and_failed_differ(changes: dict[str, object], figure: str) -> None:
    row = next(line for line in text(views.view(gpus=(views.gpu_view(gpu=changes),))).splitlines() if "GPU 0" in line)
    assert row[6:15].strip() == figure


def test_the_peak_is_not_what_a_column_just_begun_has_seen() -> None:
    gpu = views.gpu_view(util_max_history=(None, *[98.0] * 148, 31.0))
    peak = next(row for row in gpu_in_full(gpu, views.view(gpus=(gpu,)), 60) if row.label == " peak")
    assert peak.number == "98 %"


def test_a_stale_figure_says_its_age_and_looks_stale() -> None:
    view = views.view(gpus=(views.gpu_view(age_ns=12_000_000_000),))
    assert "10 s old" in text(view)
    figures = compose(Sight(view=view, slow=view), 120, 40)["figures"]
    assert any(span.style == "stale" and "37 %" in span.text for line in figures.lines for span in line)


@pytest.mark.parametrize(
    ("state", "word"), [("stalled", "stalled"), ("ended", "ended"), ("lost", "process lost"), ("starting", "starting")]
)
def test_the_state_of_a_run_is_said(state: str, word: str) -> None:
    assert word in text(views.view(runs=(views.run_view(state=state),)), 80, 24).splitlines()[0]


def test_a_starting_run_shows_no_figure_that_is_not_there() -> None:
    verdict = views.input_verdict(
        cause="warmup", confidence=0.0, speedup_limit=None, since_ns=views.NOW, advice=[], evidence=[], notices=[]
    )
    run = views.run_view(
        verdict=verdict, state="starting", steps_total=0, step_ms=None, steps_per_s=None, ledger=(), samples_per_s=None,
        step_history=(), step_max_history=(), cause_history=(),
    )  # fmt: skip
    shown = text(views.view(runs=(run,), events=()))
    for absent in ("confidence", "held", "scale", "longest", "steps/s", "faster"):
        assert absent not in shown, absent
    assert "no finished step yet" in shown
    assert "step 0" in shown


@pytest.mark.parametrize("width", [80, 120])
def test_a_verdict_that_its_processes_may_change_says_so(width: int) -> None:
    verdict = views.input_verdict(tentative=True, notices=[AWAITED], since_ns=views.NOW)
    shown = text(views.view(runs=(views.run_view(verdict=verdict),)), width, 24)
    assert "tentative: processes yet to be seen" in shown
    firm = text(views.view(runs=(views.run_view(verdict=msgspec.structs.replace(verdict, notices=[])),)), width, 24)
    assert "tentative" in firm
    assert "yet to be seen" not in firm


def test_what_is_awaited_is_not_said_twice() -> None:
    waiting = "no training found yet: start one with gputop run -- python train.py"
    assert text(views.view(runs=(), waiting=waiting)).count("gputop run") == 1


def test_many_ranks_cost_no_more_than_what_is_shown() -> None:
    assert "train.py rank 900/8" in text(views.many_runs(1024), 200, 60, run_id="r900")


def test_warnings_are_said() -> None:
    assert "2 lines" in text(views.view(warnings=("2 lines could not be read",)))
    lost = "182 records were lost on the way to this screen"
    assert lost in text(views.view(warnings=(lost,)), 80, 24), "what it is about is not cut off"


def test_a_warning_gives_way_to_the_keys_after_a_minute_and_comes_back_with_news() -> None:
    told = Told()
    assert told.look(("2 lost",), 10.0) == frozenset()
    assert told.look(("2 lost",), 60.0) == frozenset()
    assert told.look(("2 lost", "new"), 71.0) == {"2 lost"}
    assert told.look(("3 lost", "new"), 72.0) == frozenset()
    assert told.look(("3 lost",), 300.0) == {"3 lost"}
    view = views.view(warnings=("2 lost", "other"))
    assert " other   ? help" in text(view, 80, 24, told=frozenset({"2 lost"}))
    assert " 2 warnings: i   ? help" in text(view, 80, 24, told=frozenset({"2 lost", "other"}))


@pytest.mark.parametrize("page", ["gpus", "info"])
def test_what_would_bring_the_gpu_is_told_to_its_end(page: str) -> None:
    why = f"no NVIDIA driver library here: {'install it, or ' * 12}start the container with --gpus all"
    broken = Sampler(t=views.NOW, host="h", backend="nvml", state="absent", why=why)
    view = msgspec.structs.replace(views.no_gpu(), samplers=(broken,))
    drawn = sheet(page, Sight(view=view, slow=view), 80, 40, Standing())
    assert "--gpus all" in " ".join(" ".join(plain(line) for line in drawn.lines[:20]).split())


def test_more_gpus_than_fit_are_counted() -> None:
    assert "more: g" in text(views.many_gpus(64), 80, 24)
    assert "15 " in text(views.many_gpus(16), 120, 40)


@pytest.mark.parametrize(("width", "lines"), [(80, 2), (120, 2), (200, 1)])
def test_eight_gpus_stand_in_even_lines_under_each_other(width: int, lines: int) -> None:
    drawn = [plain(line).rstrip() for line in gpugrid.grid(views.many_gpus(8), "GPU-3", width, 4)]
    assert len(drawn) == lines
    assert len({line.count("mem") for line in drawn}) == 1
    assert len({tuple(match.start() for match in re.finditer("mem", line)) for line in drawn}) == 1


def test_the_last_word_of_the_proof_is_not_left_alone() -> None:
    said = "INPUT workers can't keep up: 104 of 184 ms per step waits for data (4 of 4 workers at 98 % CPU, 8 idle)"
    assert proof(said, 98, 2) == [said[:66], said[67:]]
    assert proof(said, 120, 2) == [said]
    assert proof("one two three", 9, 2) == ["one two", "three"]
    said = "GPU-BOUND healthy: the H100 80GB is the limit, busy 100 % of a 75 ms step by its own clock"
    assert proof(said, 85, 2) == [said[:46], said[47:]]


def test_the_chosen_run_is_always_in_the_strip() -> None:
    for chosen in range(8):
        lines = text(views.many_runs(8), 80, 24, run_id=f"r{chosen}").splitlines()
        assert f"▸ train.py rank {chosen}/8" in lines[1]


def test_the_bar_is_full_and_in_proportion() -> None:
    shares = (Share("other", 10.0, 1.0), Share("data", 60.0, 6.0), Share("mine", 30.0, 3.0))
    bar = plain(ledger.bar(shares, 50))
    assert bar == "D" + "█" * 29 + "m" + "▫" * 14 + "·" * 5
    assert ledger.cells_of(shares, 7) == [1, 4, 2]
    assert sum(ledger.cells_of([Share(str(i), 1 / 3, 1.0) for i in range(7)], 80)) == 80


def test_the_legend_keeps_the_largest_buckets() -> None:
    shares = tuple(Share(name, pct, pct) for name, pct in (("data", 2.0), ("forward", 30.0), ("backward", 68.0)))
    assert plain(ledger.legend(shares, 36)).rstrip() == "F▒ forward 30 %  B▓ backward 68 %"
    assert plain(ledger.legend(shares, 32)).rstrip() == "B▓ backward 68 %"


def test_a_history_tells_zero_from_missing_and_keeps_time_anchored() -> None:
    assert graph([None, 0.0, 0.1, 50.0, 100.0], 100.0) == [" _▁▄█"]
    assert graph([0.0, 40.0, 100.0], 100.0, rows=2) == ["  █", "_▇█"]
    view = views.view(now_ns=views.NOW + 1, last_column=views.LAST)
    assert on_axis((1.0, 2.0, 3.0), view, 4) == [None, None, 1.0, 2.0]
    done = msgspec.structs.replace(view, now_ns=views.NOW + views.COLUMN)
    assert on_axis((1.0, 2.0, 3.0), done, 2) == [2.0, 3.0]


def test_the_scale_is_round_and_above_everything() -> None:
    assert nice_top([None, 184.0]) == 200
    assert nice_top([0.34]) == pytest.approx(0.4)
    assert nice_top([]) == nice_top([0.0]) == 1.0


@pytest.mark.parametrize("value", [5e-324, 1e-12, 1e-7, 0.1, 1.0, 9.99, 1e300, float("inf"), float("nan")])
def test_no_figure_hangs_the_scale(value: float) -> None:
    assert nice_top([value]) > 0
    assert not math.isfinite(value) or nice_top([value]) >= value
    graph([value], nice_top([value]), 3)


def test_a_column_of_a_year_does_not_hang_the_axis() -> None:
    assert "now" in axis_labels(views.view(column_ns=31_557_600 * 10**9), 120)


def test_the_axis_names_no_age_twice() -> None:
    labels = axis_labels(views.view(), 120).split()
    assert labels[-1] == "now"
    assert "-30" in labels
    for cells in range(300):
        assert len(axis_labels(views.view(), cells)) == cells


def test_events_stand_where_they_happened() -> None:
    marks = ribbon.marks(views.run_view(), views.view(), 60)
    assert marks.rstrip()[-1] == "E"
    assert len(marks) - 1 - marks.index("E") == 19
    other = views.view(events=(Event(t=views.NOW - 40 * views.SECOND, kind="epoch", run_id="another"),))
    assert ribbon.marks(views.run_view(), other, 60).strip() == ""


def test_every_glyph_is_one_cell_and_has_an_ascii_twin() -> None:
    every = (
        RAMP
        + "".join(a + b for a, b in BUCKETS.values())
        + "".join(MARKS.values())
        + "".join(RIBBON.values())
        + "▌▸●○‖→–…µ°✓✗│└"
    )
    for glyph in every:
        assert len(to_ascii(glyph)) == 1
        assert to_ascii(glyph) != "?" or glyph == "?"
    assert len({to_ascii(glyph) for glyph in RAMP}) == len(RAMP)
    assert len({to_ascii(texture) for _, texture in BUCKETS.values()}) == len(BUCKETS)
    assert to_ascii("訓練é") == "?????"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("num_workers 4 → 10", "num_workers 4 ->10"),
        ("→ save less often", "->save less often"),
        ("← →", "<->"),
        ("a→b", "a>b"),
    ],
)
def test_an_arrow_in_ascii_does_not_say_that_four_is_more_than_ten(text: str, drawn: str) -> None:
    assert to_ascii(text) == drawn
    assert cell_len(to_ascii(text)) == cell_len(text)


def test_text_is_cut_by_cells() -> None:
    assert crop("訓練スクリプト", 5) == "訓練…"
    assert plain(fit([Span("訓練")], 3)) == "訓…"
    assert plain(fit([Span("訓")], 3)) == "訓 "
    assert wrap("a verylongwordthatdoesnotfit in here", 8, 3) == ["a", "verylong", "wordtha…"]
    assert wrap("at 98 % CPU", 6, 3) == ["at", "98 %", "CPU"]
    assert pieces(["aaaa", "bbbbbbbb", "cc"], 9) == "aaaa · cc"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("f(a)", ["f(a)"]),
        ("", [""]),
        ("Loader(dataset, workers=10, pin=True)", ["Loader(dataset, workers=10,", "pin=True)"]),
        ("    total += one + another + third", ["    total += one + another", "    + third"]),
        ("x" * 60, ["x" * 28, "x" * 28, "xxxx"]),
        (" " * 40 + "x", ["", "x"]),
    ],
)
def test_code_is_broken_where_it_can_be_typed_so(text: str, pieces: list[str]) -> None:
    broken = code(text, 28)
    assert "".join(broken).replace(" ", "") == text.replace(" ", "")
    assert all(len(piece) <= 28 for piece in broken)
    assert broken == pieces


@pytest.mark.parametrize("text", ["plain text here", "訓練スクリプト x", "a訓b練c"])
def test_a_line_cut_in_two_keeps_its_cells(text: str) -> None:
    line = fit([Span(text, "bold")], 20)
    for cells in range(21):
        first, second = cut(line, cells, 20)
        assert cell_len(plain(first)) == cells
        assert cell_len(plain(second)) == 20 - cells
        if "訓" not in text:
            assert plain(first) + plain(second) == plain(line)


def test_why_there_is_no_gpu_is_told_across_the_line_not_cut_to_its_last_column() -> None:
    shown = text(views.no_gpu(), 80, 24)
    assert "no NVIDIA driver: libnvidia-ml.so.1 was not found" in shown


def test_of_a_reason_too_long_for_its_line_the_clause_before_the_colon_is_told() -> None:
    why = "no NVIDIA driver library here (libnvidia-ml.so.1): with an NVIDIA GPU, install its driver, or load it"
    view = views.no_gpu()
    told = msgspec.structs.replace(view, samplers=(msgspec.structs.replace(view.samplers[0], why=why),))
    line = next(line for line in text(told, 80, 24).splitlines() if line.startswith(" GPU"))
    assert line.rstrip().endswith("no NVIDIA driver library here (libnvidia-ml.so.1)")


def test_one_worker_is_not_workers() -> None:
    run = views.run_view()
    assert run.loader is not None
    alone = msgspec.structs.replace(run, loader=msgspec.structs.replace(run.loader, num_workers=1), gaps=1)
    shown = text(views.view(runs=(alone,)), 160, 50)
    assert "1 worker " in shown
    assert "1 gap" in shown
    assert "1 gaps" not in shown


def test_the_next_run_is_offered_where_there_is_one() -> None:
    assert "next run" not in text(views.view(), 120, 40)
    assert "next run" in text(views.many_runs(), 120, 40)


def test_the_last_bucket_of_the_legend_is_told_whole() -> None:
    shares = [Share(phase="data", ms=2.0, pct=2.0), Share(phase="other", ms=91.0, pct=91.0)]
    whole = "D█ data 2 %  ·  other 91 %"
    assert plain(ledger.legend(shares, len(whole), short=True)) == whole


def test_a_mark_for_several_is_explained_as_the_letters_are() -> None:
    moment = views.NOW - 20 * views.SECOND
    both = tuple(Event(t=moment, run_id="r0", kind=kind) for kind in ("epoch", "checkpoint"))  # type: ignore[arg-type]
    view = views.view(events=both)
    assert "+" in ribbon.marks(view.runs[0], view, 60)
    assert "+ several" in ribbon.legend(view.runs[0], view, 60)
