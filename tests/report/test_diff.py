"""Two runs compared: the sentence, what is named besides it, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop import records as rec
from gputop.figures import ms
from gputop.recording.reader import Recording
from gputop.recording.schema import Reading
from gputop.recording.writer import Writer
from gputop.records import AnyRecord
from gputop.report import diff_figures, diff_side, summary, words
from gputop.report.diff import Comparison, diff
from gputop.report.diff_json import of_comparison as as_data
from gputop.report.diff_pick import Choice, choose
from gputop.report.diff_sentence import sentence
from gputop.report.diff_side import Side, load
from gputop.report.diff_words import of_comparison as as_words
from gputop.report.judged import judge_trace
from gputop.report.reading import judge_file
from gputop.report.tables import rank_rows
from gputop.simulation.trace import records as simulated

T = 1_760_000_000_000_000_000
S = 1_000_000_000


def keep(path: Path, records: Iterable[Any]) -> Path:
    """A recording of these records, a transaction a second."""
    writer = Writer(path, now_ns=T)
    last = T
    for record in records:
        writer.add(record)
        if record.t - last > S:
            last = record.t
            writer.commit(last)
    writer.close(last + S)
    return path


def side(path: Path, wanted: str | None = None) -> Side:
    recording = Recording(path)
    try:
        return load(recording, wanted, "--run-a")
    finally:
        recording.close()


def steps(
    count: int = 400,
    *,
    ms: float = 100.0,
    rank: int = 0,
    world: int = 1,
    samples: int | None = 64,
    run_id: str | None = None,
    start: int = 0,
    first_n: int = 0,
    epoch: int = 100,
    opening_ms: float = 0.0,
    **run: Any,
) -> Iterator[AnyRecord]:
    """A run of equal steps that jitter a little; the first of each epoch takes `opening_ms` more."""
    name = run_id or f"r{rank}"
    t = T + start * S
    about = {"script": "train.py", "rank": rank, "world_size": world, **run}
    yield rec.Run(t=t, run_id=name, pid=10 + rank, host="h", schema=1, **about)
    for n in range(first_n, first_n + count):
        opens = n % epoch == 0
        ns = int(ms * 1e6 * (1 + 0.01 * ((n * 7919) % 11 - 5) / 5)) + (int(opening_ms * 1e6) if opens else 0)
        yield rec.Step(
            t=t, run_id=name, n=n, dur_ns=ns, phases_ns={"data": ns // 2, "forward": ns // 4, "backward": ns // 5},
            samples=samples, kind="train", had_backward=True, epoch=n // epoch, loader_id=0,
            first_of_epoch=opens or None,
        )  # fmt: skip
        t += ns


def both(tmp_path: Path, a: Iterable[Any], b: Iterable[Any]) -> Comparison:
    tmp_path.mkdir(exist_ok=True)
    return diff(side(keep(tmp_path / "a", a)), side(keep(tmp_path / "b", b)))


@pytest.fixture(scope="module")
def cured(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A planted bottleneck and its cure."""
    traces = (simulated("input-workers", seconds=60, fixed=fixed) for fixed in (False, True))
    return both(tmp_path_factory.mktemp("cured"), *traces)


def test_the_first_line_is_the_answer(cured: Comparison) -> None:
    said = sentence(cured)
    assert as_words(cured).splitlines()[0] == said
    assert "x faster: data wait" in said
    assert said.endswith("now gpu-bound")
    assert cured.mean is not None
    assert cured.mean.differs


def test_both_sides_stand_side_by_side(cured: Comparison) -> None:
    text = as_words(cured)
    assert "input-workers  gpu-bound" in text
    assert "changed: loader workers: 4 to 10" in text
    assert "GPU used, mean" in text
    assert text.count("simulated GPU") == 2
    assert "\x1b" not in text
    ledger = {phase.phase: phase for phase in cured.ledger}
    assert sum(phase.a_pct or 0 for phase in cured.ledger) == pytest.approx(100)
    assert sum(phase.b_ms or 0 for phase in cured.ledger) == pytest.approx(cured.b.figures.mean_ms)
    assert (ledger["data"].a_pct or 0) > 50
    assert (ledger["data"].b_pct or 100) < 10


def test_the_other_way_round_it_is_slower(cured: Comparison) -> None:
    back = diff(cured.b, cured.a)
    assert "x slower: data wait" in sentence(back)
    assert back.regressed(5)
    assert not back.regressed(99)
    assert not cured.regressed(5)


def test_a_run_against_itself_and_another_like_it_is_no_difference(tmp_path: Path) -> None:
    found = both(tmp_path, *(simulated("gpu-bound", seconds=60, seed=seed) for seed in (0, 1)))
    assert sentence(found).startswith("no difference beyond the noise: ")
    assert sentence(found).endswith("(±2 %)")
    assert not found.regressed(0)
    assert sentence(diff(found.a, found.a)).startswith("no difference beyond the noise: ")


def test_small_changes_are_told_in_percent_and_by_the_phase_that_moved(tmp_path: Path) -> None:
    found = both(tmp_path, steps(ms=100), steps(ms=106))
    assert sentence(found).startswith("6 % slower: data wait 50 ms to 53 ms")
    assert found.regressed(5)
    assert not found.regressed(6)


def test_the_job_that_was_recorded_is_compared_and_not_a_neighbour_that_trained_for_longer(tmp_path: Path) -> None:
    mark = rec.Event(t=T + S, kind="recorded", run_id="own")
    trace = [*steps(700, run_id="neighbour"), *steps(300, run_id="own", start=1, script="mine.py"), mark]
    path = keep(tmp_path / "several", trace)
    found = side(path)
    assert found.run.run_id == "own"
    (said,) = found.warnings
    assert "the one that it was recorded for is compared, --run-a chooses: " in said
    assert "neighbour (700 steps)" in said
    assert side(path, "neigh").run.run_id == "neighbour"
    judged, _ = judge_file(path)
    report = summary.of_trace(judged)
    assert [(run["run_id"], run["recorded_for"]) for run in report["runs"]] == [("own", True), ("neighbour", False)]
    told = words.of_report(report)
    assert "2 jobs in it: the first is what it was recorded for, 1 went on beside" in told.splitlines()
    assert told.index("mine.py") < told.index("train.py")
    assert all(mark["kind"] != "recorded" for mark in report["events"])


def test_a_report_begins_with_what_was_recorded_and_not_with_what_describes_the_run() -> None:
    run, *rest = steps(100, ms=100)
    late = [
        msgspec.structs.replace(run, t=T - 60 * S),
        rec.Sampler(t=T - S, host="h", backend="nvml", state="ok"),
        *rest,
    ]
    judged = judge_trace(late, "late")
    assert judged.from_ns == T
    assert judged.to_ns - judged.from_ns < 11 * S


def test_a_side_that_is_too_short_is_named_with_what_it_has(tmp_path: Path) -> None:
    found = both(tmp_path, steps(400, ms=100), steps(80, ms=100))
    said = sentence(found)
    assert found.mean is None
    assert said.startswith("too short to compare: B has ")
    assert re.search(r"B has [1-7] of the 8 stretches of 2 s and 5 steps", said)
    assert re.search(r"A has \d and B has \d of the 8", sentence(both(tmp_path / "short", steps(80), steps(80))))


def test_what_a_rate_leaves_out_stands_beside_it(tmp_path: Path) -> None:
    text = as_words(both(tmp_path, steps(400, ms=100), steps(400, ms=50)))
    assert "samples/s, steady" in text
    assert "steps/s, whole run" in text
    ranks = (iter([*steps(400, rank=0, world=2), *steps(400, rank=1, world=2)]) for _ in "ab")
    assert "samples/s, all ranks, steady" in as_words(both(tmp_path / "ranks", *ranks))


def test_too_few_steps_give_no_verdict_and_no_regression(tmp_path: Path) -> None:
    found = both(tmp_path, steps(400), steps(20, ms=900))
    assert sentence(found).startswith("too few steps to compare: B has 19 after warm-up")
    assert found.mean is None
    assert not found.regressed(1)
    assert "A  " in as_words(found), "the figures are shown all the same"
    assert as_data(found)["beyond_noise"] is None


def test_with_another_batch_the_time_for_a_sample_is_compared(tmp_path: Path) -> None:
    found = both(tmp_path, steps(ms=100, samples=64), steps(ms=150, samples=128))
    assert found.unit == "sample"
    assert sentence(found).startswith("33 % more samples/s: batch 64 to 128")
    assert not found.regressed(5)
    assert found.change_pct == pytest.approx(33.3, abs=0.5)


def test_with_more_ranks_the_samples_of_all_are_compared(tmp_path: Path) -> None:
    one = steps(ms=100, world=1)
    many = [record for rank in range(4) for record in steps(ms=125, rank=rank, world=4)]
    found = both(tmp_path, one, sorted(many, key=lambda record: record.t))
    assert sentence(found).startswith("3.2x the samples/s: 1 to 4 ranks")
    assert any(change.what == "world size" for change in found.changes)


def test_warm_up_and_first_steps_of_epochs_are_left_out_and_told(tmp_path: Path) -> None:
    found = both(tmp_path, steps(ms=100, opening_ms=6000), steps(ms=100))
    assert found.mean is not None
    assert not found.mean.differs
    assert (found.a.figures.warmup_steps, found.a.figures.epoch_starts) == (1, 3)
    assert found.a.figures.epoch_start_ms == pytest.approx(6100, rel=0.02)
    assert any(warning.startswith("first steps of epochs, which are left out") for warning in found.warnings)
    assert "note: first steps of epochs" in as_words(found)
    assert re.search(r"; but the first steps of epochs take 0\.\d % of the time, not \d\d %$", sentence(found))


def test_what_starts_of_epochs_take_of_a_gain_is_in_the_first_sentence(tmp_path: Path) -> None:
    """Three of 399 steps open an epoch; on one side they take 2.5 s more: 0.2 s a step become 0.119 s, not 0.1 s."""
    found = both(tmp_path, steps(ms=200), steps(ms=100, opening_ms=2500))
    assert sentence(found).startswith("2.0x faster (1.7x faster with the first steps of epochs): ")


def test_settings_that_mean_nothing_or_read_alike_are_no_change(tmp_path: Path) -> None:
    def about(workers: int, params: dict[str, int]) -> list[AnyRecord]:
        trace = list(steps(30))
        loader = rec.Loader(
            t=T, run_id="r0", loader_id=0, num_workers=workers, prefetch_factor=2 if workers else None,
            start_method="fork" if workers else None, pin_memory=bool(workers),
        )  # fmt: skip
        model = rec.Model(t=T, run_id="r0", param_count=sum(params.values()), dtypes=params)
        return [trace[0], loader, model, *trace[1:]]

    text = as_words(both(tmp_path, about(0, {"float32": 10}), about(4, {"float32": 20})))
    assert "changed: loader workers: 0 to 4" in text
    assert "changed: pin_memory: no to yes" in text
    assert "changed: parameters: 10 to 20" in text
    assert text.count("changed:") == 3
    mixed = as_words(both(tmp_path / "mixed", about(4, {"float32": 10}), about(4, {"bfloat16": 90, "float32": 10})))
    assert "changed: parameter types: float32 to 90 % bfloat16, 10 % float32" in mixed


def test_simulated_against_real_is_said(tmp_path: Path) -> None:
    found = both(tmp_path, steps(simulated=True), steps())
    assert any("A ran on a simulated GPU, B on a real machine" in warning for warning in found.warnings)


def test_settings_that_changed_are_named(tmp_path: Path) -> None:
    def with_settings(**changed: Any) -> list[Any]:
        loader = {"num_workers": 4, "pin_memory": False, "batch_size": 64} | changed.get("loader", {})
        model = {"compiled": False, "param_count": 1000, "dtypes": {"float32": 5}} | changed.get("model", {})
        return [
            *steps(python="3.11.2", framework="torch", framework_version="2.1", **changed.get("run", {})),
            rec.Loader(t=T, run_id="r0", loader_id=0, **loader),
            rec.Loader(t=T, run_id="r0", loader_id=1, num_workers=77),
            rec.Model(t=T, run_id="r0", **model),
        ]

    found = both(
        tmp_path,
        with_settings(run={"gpu_name": "A100"}),
        with_settings(
            run={"gpu_name": "H100", "label": "x"},
            loader={"num_workers": 8, "pin_memory": True},
            model={"compiled": True},
        ),
    )
    assert [(one.what, one.a, one.b) for one in found.changes] == [
        ("loader workers", 4, 8),
        ("pin_memory", False, True),
        ("compiled", False, True),
        ("GPU", "A100", "H100"),
    ]
    assert "changed: pin_memory: no to yes" in as_words(found)


def test_ranks_are_matched_and_one_that_changed_unlike_the_first_is_named(tmp_path: Path) -> None:
    def job(slow: float) -> list[AnyRecord]:
        ranks = [steps(ms=slow if rank == 2 else 100, rank=rank, world=3) for rank in range(3)]
        return sorted((record for rank in ranks for record in rank), key=lambda record: record.t)

    found = both(tmp_path, job(100), job(140))
    assert [pair.rank for pair in found.ranks] == [0, 1, 2]
    assert found.a.run.rank == 0
    assert "rank 2 100 ms to 140 ms" in as_words(found)


def test_of_several_jobs_the_longest_is_compared_and_the_others_are_named(tmp_path: Path) -> None:
    path = keep(tmp_path / "a", [*steps(50, run_id="short"), *steps(300, run_id="long", start=60)])
    found = side(path)
    assert found.run.run_id == "long"
    assert "--run-a chooses: " in found.warnings[0]
    assert side(path, "sh").run.run_id == "short"
    recording = Recording(path)
    with pytest.raises(Choice, match=r"no run of .* begins so; it holds"):
        choose(path, recording.info(), "nothing", "--run-a")
    with pytest.raises(Choice, match="more than one run"):
        choose(path, recording.info(), "", "--run-a")
    recording.close()


def test_a_recording_without_steps_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Choice, match="holds no training step"):
        side(keep(tmp_path / "a", [rec.Host(t=T, host="h", cpu_pct=1.0)]))


def test_evaluation_steps_are_not_compared(tmp_path: Path) -> None:
    def mixed() -> Iterator[AnyRecord]:
        for record in steps(300):
            yield record
            if isinstance(record, rec.Step):
                yield msgspec.structs.replace(record, kind="eval", dur_ns=5 * S, had_backward=False, loader_id=1)

    assert both(tmp_path, steps(300), mixed()).b.figures.mean_ms == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("seconds_ns", [diff_figures.SECONDS_NS, 0], ids=["by the second", "by the minute"])
def test_long_recordings_are_compared_by_their_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds_ns: int
) -> None:
    a, b = keep(tmp_path / "a", steps(6000)), keep(tmp_path / "b", steps(6000, ms=110))
    nothing = judge_trace([], "")
    monkeypatch.setattr(diff_side, "judge_trace", lambda records, source, progress: nothing)
    exact = diff(side(a), side(b))
    monkeypatch.setattr(diff_side, "EXACT_STEPS", 10)
    monkeypatch.setattr(diff_figures, "SECONDS_NS", seconds_ns)
    summed = diff(side(a), side(b))
    assert not summed.a.figures.exact
    assert summed.typical is None
    assert summed.mean is not None
    assert exact.mean is not None
    assert summed.mean.differs
    assert summed.mean.ratio == pytest.approx(exact.mean.ratio, rel=0.005)
    for name in ("p50", "p95", "p99"):
        assert summed.a.figures.step_ms[name] == pytest.approx(exact.a.figures.step_ms[name], rel=0.02)
    assert summed.a.figures.phases_ms["data"] == pytest.approx(exact.a.figures.phases_ms["data"], rel=0.01)
    assert any("is long" in warning for warning in summed.warnings) == (seconds_ns == 0)


def test_a_thinned_loop_is_compared_by_its_sums(tmp_path: Path) -> None:
    """Above 200 steps/s a recording keeps some steps singly: alone they would be a biased choice."""
    found = side(keep(tmp_path / "a", steps(20_000, ms=1.0, epoch=10**9)))
    assert not found.figures.exact
    assert found.figures.steps == 20_000
    assert found.figures.steady_steps > 18_000
    assert found.figures.mean_ms == pytest.approx(1.0, rel=0.01)


def test_text_from_outside_cannot_reach_the_terminal(tmp_path: Path) -> None:
    found = both(tmp_path, steps(script="a\x1b[2J.py", gpu_name="x\x07"), steps(script="b\x1b]0;x\x07.py"))
    assert "\x1b" not in as_words(found)
    assert "\x07" not in as_words(found)


def test_the_json_holds_the_same_figures(cured: Comparison) -> None:
    answer = json.loads(json.dumps(as_data(cured), allow_nan=False))
    assert answer["sentence"] == sentence(cured)
    assert answer["beyond_noise"] is True
    assert answer["throughput_change_pct"] == cured.change_pct
    assert answer["time_ratio"]["low"] < answer["time_ratio"]["value"] < answer["time_ratio"]["high"]
    assert answer["a"]["verdict"]["cause"] == "input-workers"
    assert answer["a"]["gpu"]["util_mean_pct"] < answer["b"]["gpu"]["util_mean_pct"]
    assert answer["changes"] == [{"what": "loader workers", "a": 4, "b": 10}]


def test_every_key_of_the_json_has_its_line(cured: Comparison) -> None:
    page = (
        (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text(encoding="utf-8").partition("## Diff")[2]
    )

    def keys(value: Any) -> Iterator[str]:
        for key, one in value.items() if isinstance(value, dict) else ():
            yield key
            if key != "verdict":
                yield from keys(one)
        for one in value if isinstance(value, list) else ():
            yield from keys(one)

    assert {key for key in keys(as_data(cured)) if f"`{key}`" not in page} == set()


def test_of_a_short_run_each_step_is_read_twice_of_a_long_one_only_a_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a comparison costs, without a clock: once to judge and once to compare, and of a long run its sums."""
    read: list[object] = []
    monkeypatch.setattr(
        Reading, "record", lambda self, *row, plain=Reading.record: read.append(row) or plain(self, *row)
    )

    def count(minutes: int) -> int:
        path = keep(tmp_path / f"{minutes} min", steps(600 * minutes))
        read.clear()
        side(path)
        return len(read)

    assert 2 * 1200 <= count(2) <= 2 * 1200 + 50
    monkeypatch.setattr(diff_side, "EXACT_STEPS", 10)
    monkeypatch.setattr(diff_side, "SHORT_STEPS", 10)
    ten, twenty = count(10), count(20)
    assert 0 < twenty < 1.1 * ten
    assert twenty < 0.7 * 600 * 20


def test_the_ranks_of_a_report_say_that_their_lengths_are_of_steady_steps(tmp_path: Path) -> None:
    ranks = [steps(400, rank=rank, world=2, opening_ms=400) for rank in range(2)]
    judged = judge_trace(sorted((one for rank in ranks for one in rank), key=lambda one: one.t), "x")
    figures = summary.of_trace(judged)
    rows = rank_rows(figures["runs"], figures["jobs"][0])
    assert rows[0][2:4] == ["steady p50", "steady p95"]
    assert [row[3] for row in rows[1:]] == [ms(one["steady_ms"]["p95"]) for one in figures["runs"]]
    for one in figures["runs"]:
        one["steady_ms"] = dict.fromkeys(one["steady_ms"])
    assert rank_rows(figures["runs"], figures["jobs"][0])[0][2:4] == ["p50", "p95"]
