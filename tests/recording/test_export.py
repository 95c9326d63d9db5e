"""Exports: each format reads back as what was put in, streams, and leaves a whole file or none."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gputop import codec
from gputop import records as rec
from gputop.recording.export import FORMATS, Missing, load, target
from gputop.recording.export.material import Material, of_records
from gputop.records import AnyRecord, Record
from gputop.simulation.trace import records as simulated

T = 1_760_000_000_000_000_000


@pytest.fixture(scope="module")
def trace() -> list[AnyRecord]:
    """A minute of a run with evaluation, and records that the simulation does not make."""
    found: list[Any] = list(simulated("evaluation", seconds=20))
    run_id = found[0].run_id
    found += [
        rec.Verdict(
            t=T + 5 * 10**9, run_id=run_id, cause="evaluation", family="episodic", headline="validation",
            confidence=0.9, advice=[rec.Advice(do="validate less often")], simulated=True,
            evidence=[rec.Evidence(signal="share", value=40.0, unit="%"), rec.Evidence(signal="why", value="text")],
        ),
        rec.Verdict(
            t=T + 9 * 10**9, run_id=run_id, cause="gpu-bound", family="device", headline="healthy", confidence=0.8
        ),
        rec.Event(t=T + 6 * 10**9, kind="marker", run_id=run_id, label="lr dropped"),
        rec.Event(t=T + 7 * 10**9, kind="clock"),
        rec.Fold(t=T, run_id=run_id, steps=10, dur_ns=10**9, phases_ns={"data": 5 * 10**8}, kind="train"),
        rec.Process(t=T, host="h", pid=1, cmdline="=cmd|' /C calc'!A1", name="-5+3", user="a,b\"c\nd"),
        rec.Sampler(t=T, host="h", backend="nvml", state="ok"),
        rec.Site(t=T, run_id=run_id, sites=[rec.SiteSample(phase="data", site="a.py:1", samples=3)]),
        rec.Profile(t=T, run_id=run_id, steps=3, copies={"h2d": 1.5}, top_ops=[{"name": "mm", "ns": 5}]),
    ]  # fmt: skip
    return found


def export(name: str, trace: Sequence[AnyRecord], *types: type[Record]) -> bytes:
    form, out = load(name), io.BytesIO()
    form.write(of_records(trace), types or form.TYPES, out)
    return out.getvalue()


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_json_lines_read_back_equal_and_in_order(trace: list[AnyRecord]) -> None:
    assert [codec.from_json(line) for line in export("jsonl", trace).splitlines()] == trace


def test_json_lines_of_some_types_hold_only_those(trace: list[AnyRecord]) -> None:
    found = [codec.from_json(line) for line in export("jsonl", trace, rec.Gpu, rec.Event).splitlines()]
    assert found == [one for one in trace if isinstance(one, (rec.Gpu, rec.Event))]


def test_every_type_makes_a_table(trace: list[AnyRecord]) -> None:
    for cls in load("jsonl").TYPES:
        found = rows(export("csv", trace, cls))
        assert len(found) == sum(isinstance(one, cls) for one in trace), cls


def test_csv_holds_phases_as_columns_with_units_and_nothing_for_unknown(trace: list[AnyRecord]) -> None:
    steps = [one for one in trace if isinstance(one, rec.Step)]
    for row, step in zip(rows(export("csv", trace)), steps, strict=True):
        assert int(row["t_ns"]) == step.t
        assert row["host_data_ns"] == str(step.phases_ns.get("data", ""))
        known = sum(
            int(value)
            for name, value in row.items()
            if name.startswith("host_") and name.endswith("_ns") and value and name != "host_cpu_ns"
        )
        assert known == step.dur_ns
        assert row["queue_empty"] == ("" if step.queue_empty is None else str(step.queue_empty))
        assert row["rank"] == "0"
    assert rows(export("csv", trace))[0]["time_utc"] == "2025-10-09T08:53:20.000000Z"


def test_the_scripts_own_phases_have_columns_even_if_they_come_late() -> None:
    some = [
        rec.Step(t=T + n, run_id="r", n=n, dur_ns=10, phases_ns={"data": 4} if n < 50 else {"my, phase": 3, "other": 1})
        for n in range(60)
    ]
    found = rows(export("csv", some))
    assert (found[0]["host_my, phase_ns"], found[59]["host_my, phase_ns"]) == ("", "3")
    assert [found[0]["host_other_ns"], found[59]["host_other_ns"]] == ["6", "7"]


def test_a_script_that_numbers_its_phases_makes_no_endless_table() -> None:
    some = [rec.Step(t=T, run_id="r", n=n, dur_ns=10, phases_ns={f"phase {n}": 4}) for n in range(2000)]
    assert len(rows(export("csv", some))[0]) < 350


def test_csv_is_rfc_4180_and_no_cell_is_a_formula(trace: list[AnyRecord]) -> None:
    data = export("csv", trace, rec.Process)
    assert data.count(b"\n") - data.count(b"\r\n") == 1, "only the line break within a cell stands alone"
    row = next(row for row in rows(data) if row["host"] == "h")
    assert row["user"] == 'a,b"c\nd'
    assert row["cmdline"] == "'=cmd|' /C calc'!A1"
    assert row["name"] == "'-5+3"
    odd = [rec.Event(t=2**63 - 1, kind="marker", label="a\x00b\x1b[31m"), rec.Event(t=0, kind="marker", label="\tx")]
    assert [one["label"] for one in rows(export("csv", odd, rec.Event))] == ["a\\x00b\\x1b[31m", "'\tx"]


def test_lists_in_csv_are_json(trace: list[AnyRecord]) -> None:
    row = rows(export("csv", trace, rec.Verdict))[0]
    assert json.loads(row["evidence"])[0] == {"signal": "share", "value": 40.0, "unit": "%"}
    assert json.loads(rows(export("csv", trace, rec.Burst))[0]["dt_ns"])[0] >= 0


def test_parquet_reads_back_with_types(trace: list[AnyRecord]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    steps = [one for one in trace if isinstance(one, rec.Step)]
    table = parquet.read_table(io.BytesIO(export("parquet", trace)))
    assert str(table.schema.field("t").type) == "timestamp[ns, tz=UTC]"
    assert [value.value for value in table["t"]] == [step.t for step in steps]
    assert table["host_data_ns"].to_pylist() == [step.phases_ns.get("data") for step in steps]
    assert table["first_of_epoch"].to_pylist() == [step.first_of_epoch for step in steps]
    assert str(table.schema.field("queue_empty").type) == "double"
    assert [field.name for field in table.schema if field.name.startswith("host_")][-1] == "host_cpu_ns"


def test_parquet_keeps_lists_maps_and_structs(trace: list[AnyRecord]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    def read(cls: type[Record]) -> list[dict[str, Any]]:
        table = parquet.read_table(io.BytesIO(export("parquet", trace, cls)))
        found: list[dict[str, Any]] = table.drop_columns(["t"]).to_pylist()
        return found

    bursts = [one for one in trace if isinstance(one, rec.Burst)]
    assert [row["util_pct"] for row in read(rec.Burst)] == [one.util_pct for one in bursts]
    verdict = read(rec.Verdict)[0]
    assert [piece["value"] for piece in verdict["evidence"]] == ["40.0", "text"], "numbers or text: told as text"
    assert verdict["advice"][0]["do"] == "validate less often"
    assert dict(read(rec.Model)[0]["devices"])["sim:0"] > 0
    assert json.loads(read(rec.Profile)[0]["top_ops"]) == [{"name": "mm", "ns": 5}]
    for cls in load("jsonl").TYPES:
        assert len(read(cls)) == sum(isinstance(one, cls) for one in trace), cls


def test_parquet_is_written_in_groups_and_gives_up_what_64_bits_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from gputop.recording.export import to_parquet

    monkeypatch.setattr(to_parquet, "GROUP", 10)
    some = [
        rec.Step(t=T + n, run_id="r", n=n, dur_ns=5, phases_ns={}, shapes=2**63 if n == 3 else n) for n in range(25)
    ]
    file = parquet.ParquetFile(io.BytesIO(export("parquet", some)))
    assert file.metadata.num_row_groups == 3
    assert file.read()["shapes"].to_pylist()[2:5] == [2, None, 4]


def test_without_pyarrow_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Missing, match=r"pip install 'gputop-live\[parquet\]'"):
        export("parquet", [])


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_at_all_is_a_valid_file(name: str) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    data = export(name, [])
    assert name != "perfetto" or json.loads(data)["traceEvents"] == []
    assert name != "csv" or len(data.splitlines()) == 1


@pytest.mark.parametrize("name", ["jsonl", "csv", "perfetto"])
def test_records_are_written_as_they_come_and_not_kept(name: str) -> None:
    """Out of a million records no more than a few exist at once, and what comes out follows what goes in."""
    alive = 0

    class Counted(rec.Step, frozen=True, kw_only=True, tag="step", gc=True, weakref=True):
        pass

    import weakref

    out, ahead, held, reads = io.BytesIO(), 0, 0, -1 if name == "csv" else 0

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def read(types: Sequence[type[Record]] | None) -> Iterator[AnyRecord]:
        nonlocal alive, ahead, held, reads
        for n in range(3000):
            step = Counted(t=T + n, run_id="r", n=n, dur_ns=1, phases_ns={"data": 1})
            alive += 1
            weakref.finalize(step, gone)
            held = max(held, alive)
            yield step  # type: ignore[misc]
            lag = n - out.getvalue().count(b"\n") if n % 500 == 0 and reads >= 0 else 0
            ahead = max(ahead, lag)
        reads += 1

    form = load(name)
    types: tuple[type[Record], ...] = (Counted,) if name == "csv" else form.TYPES
    form.write(Material(read=read, runs={}, from_ns=T), types, out)
    assert held < 10
    assert ahead < 500


def on(events: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [event for event in events if all(event.get(name) == value for name, value in wanted.items())]


REQUIRED = {
    "X": {"name", "ts", "dur", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
    "i": {"name", "ts", "pid", "tid", "s"},
    "M": {"name", "pid", "args"},
}
"""Phases of the Trace Event Format that are used, and what it requires of each."""


def ns(us: float) -> int:
    """Nanoseconds as Perfetto reads them: what is left of one is cut off."""
    return int(us * 1000.0)


def nests(slices: list[dict[str, Any]]) -> bool:
    """Whether slices of one track are disjoint or within each other to the nanosecond, as the format requires.

    Of those that begin together the outer one must come first in the file.
    """
    open_: list[int] = []
    for event in sorted(slices, key=lambda one: ns(one["ts"])):
        start, end = ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])
        while open_ and start >= open_[-1]:
            open_.pop()
        if open_ and end > open_[-1]:
            return False
        open_.append(end)
    return True


def test_trace_events_are_as_the_format_demands(trace: list[AnyRecord]) -> None:
    answer = json.loads(export("perfetto", trace))
    events = answer["traceEvents"]
    assert answer["otherData"]["epoch_ns_of_ts_0"] == str(T)
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        assert REQUIRED[event["ph"]] <= event.keys(), event
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
    assert len(tracks) == 4
    for track, slices in tracks.items():
        assert nests(slices), track
    owner: dict[int, int] = {}
    for event in events:
        assert owner.setdefault(event.get("tid", event["pid"]), event["pid"]) == event["pid"], (
            "a thread is of one process"
        )


def test_steps_gauges_events_and_verdicts_are_where_one_looks_for_them(trace: list[AnyRecord]) -> None:
    events = json.loads(export("perfetto", trace))["traceEvents"]
    steps = [one for one in trace if isinstance(one, rec.Step)]
    drawn = [event for event in on(events, ph="X") if event["name"].startswith("step ")]
    assert len(drawn) == len(steps)
    assert {(ns(event["ts"]), ns(event["dur"])) for event in drawn} == {(s.t - T, s.dur_ns) for s in steps}
    names = {event["args"]["name"] for event in on(events, ph="M") if event["name"].endswith("_name")}
    assert any("fixed order" in name for name in names), "phases have no positions, and it says so"
    assert any("simulated" in name for name in names)
    util = [one.util_pct for one in trace if isinstance(one, rec.Gpu)]
    assert [event["args"]["%"] for event in on(events, name="utilization")] == [round(one or 0, 4) for one in util]
    assert on(events, ph="i", name="marker lr dropped", s="p")
    assert on(events, ph="i", name="clock", s="g")
    held = [
        (event["name"], event["ts"], event["dur"])
        for event in on(events, ph="X")
        if "headline" in event.get("args", {})
    ]
    end = max(one.t + (one.dur_ns if isinstance(one, rec.Step) else 0) - T for one in trace) / 1000
    assert held[0] == ("evaluation", 5e6, 4e6)
    assert held[1] == ("gpu-bound", 9e6, pytest.approx(end - 9e6))


def test_device_work_runs_behind_but_never_over_itself() -> None:
    some = [
        rec.Step(
            t=T + n * 100, run_id="r", n=n, dur_ns=100, phases_ns={"forward": 90}, gpu_ns={"forward": 80, "data": 60}
        )
        for n in range(50)
    ]
    late = [some[20], *some[:10], *some[21:]]
    for order in (some, late):
        events = json.loads(export("perfetto", order))["traceEvents"]
        assert nests(on(events, ph="X", tid=12))
        assert sum(event["args"].get("ms", 0) > 0 for event in on(events, ph="X", tid=12) if "args" in event)


def test_no_nanosecond_is_lost_on_the_way_through_a_double() -> None:
    """0.57 us times 1000 is 569.99... in floating point: cut off, it would be a nanosecond short."""
    from gputop.recording.export.sheet import us

    day = 86_400 * 10**9
    for value in (*range(2000), *range(day, day + 2000), *range(7 * day, 7 * day + 2000), -570, -(10**9) - 570):
        assert ns(us(value)) == value
    assert any(ns(value / 1000) != value for value in range(2000)), "else there would be nothing to guard against"


def test_ids_of_many_ranks_never_meet() -> None:
    some: list[AnyRecord] = [rec.Run(t=T, run_id=f"r{rank}", pid=7, host="h") for rank in range(100)]
    some += [rec.Alive(t=T, run_id=f"r{rank}", steps=1) for rank in range(100)]
    some += [rec.Step(t=T, run_id=f"r{rank}", n=0, dur_ns=5, phases_ns={}) for rank in range(100)]
    owner: dict[int, int] = {}
    for event in json.loads(export("perfetto", some))["traceEvents"]:
        assert owner.setdefault(event.get("tid", event["pid"]), event["pid"]) == event["pid"]
    assert len(set(owner.values())) == 100


def test_ranks_are_processes_with_their_names() -> None:
    some: list[AnyRecord] = [
        rec.Run(t=T, run_id=f"r{rank}", pid=7, host="h", rank=rank, world_size=2, script="train.py")
        for rank in range(2)
    ]
    some += [rec.Step(t=T, run_id=f"r{rank}", n=0, dur_ns=5, phases_ns={}, had_backward=True) for rank in range(2)]
    events = json.loads(export("perfetto", some))["traceEvents"]
    named = {event["pid"]: event["args"]["name"] for event in on(events, name="process_name")}
    assert [named[event["pid"]] for event in on(events, ph="X")] == [
        f"rank {r} · train.py · pid 7 on h" for r in range(2)
    ]


class Full(io.RawIOBase):
    """A file on a disk that fills up after some bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(data)


@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_is_told_as_such(name: str, trace: list[AnyRecord]) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    form = load(name)
    with pytest.raises(OSError, match="No space left") as caught:
        form.write(of_records(trace), form.TYPES, Full(2000))  # type: ignore[arg-type]
    assert caught.value.errno == errno.ENOSPC


def write(path: Path, text: bytes, *, force: bool = False, fail: bool = False) -> None:
    with target.file(str(path), force=force) as out:
        out.write(text)
        if fail:
            raise KeyboardInterrupt


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", b"half", fail=True)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "out", b"whole")
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_nothing_is_overwritten_unless_forced_and_kept_when_forcing_fails(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, b"old")
    with pytest.raises(FileExistsError):
        write(path, b"new")
    with pytest.raises(KeyboardInterrupt):
        write(path, b"new", force=True, fail=True)
    assert path.read_bytes() == b"old"
    write(path, b"new", force=True)
    assert path.read_bytes() == b"new"


def test_a_link_is_followed_and_a_device_is_written_into(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"
    write(Path(os.devnull), b"x")
    assert not Path(os.devnull).is_file()


def folder(path: Path, *, force: bool = False, fail: Callable[[], None] = lambda: None) -> None:
    with target.folder(str(path), force=force) as inside:
        (inside / "step.csv").write_text("new")
        fail()


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        folder(tmp_path / "out", fail=fail)
    assert list(tmp_path.iterdir()) == []
    folder(tmp_path / "out")
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        folder(tmp_path / "out")
    folder(tmp_path / "out", force=True)
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["mine.txt", "step.csv"]


def test_unknown_formats_are_no_modules() -> None:
    with pytest.raises(KeyError):
        load("../etc")


def test_every_format_says_what_it_can() -> None:
    for name in FORMATS:
        form = load(name)
        assert form.SUFFIX.startswith(".")
        assert set(form.TYPES) <= set(rec.TYPES.values())
        assert (len(form.TYPES) == 1) >= form.TABLE
        assert isinstance(form.TO_STDOUT, bool)


ODD: tuple[AnyRecord, ...] = (
    rec.Step(t=0, run_id="", n=-1, dur_ns=0, phases_ns={"": 0, "a\x00\u202eb": 2**62, "other": 5}, gpu_ns={"x": 2**62}),
    rec.Step(t=2**63 - 1, run_id="\x1b[2J", n=2**62, dur_ns=2**62, phases_ns={"data": 2**62}, queue_empty=float("nan")),
    rec.Step(t=5, run_id="r", n=1, dur_ns=10, phases_ns={"data": 9, "backward": 9}, gpu_ns={}, gpu_idle_ns={"y": -3}),
    rec.Gpu(
        t=1, host="", gpu_uuid="", util_pct=float("inf"), mem_used_bytes=-1, throttled_ns={"": 1}, mig=[{"a": [1]}]
    ),
    rec.Burst(t=1, host="", gpu_uuid="", dt_ns=[1, 2], util_pct=[float("nan")]),
    rec.Fold(t=1, run_id="r", steps=0, dur_ns=0, phases_ns={}),
    rec.Verdict(t=9, run_id="r", cause="", family="", headline="\n", confidence=float("inf")),
    rec.Verdict(t=3, run_id="r", cause="b", family="", headline="", confidence=0.0),
    rec.Event(t=1, kind="", label="=1+1\r\n\x00"),
    rec.Run(t=1, run_id="r", pid=-1, host="h", argv=["", "\x00"], world_size=-5, rank=-1),
)
"""Records that nobody should send and somebody will."""


@pytest.mark.parametrize("name", FORMATS)
def test_odd_records_break_no_format(name: str) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    form = load(name)
    for types in [form.TYPES] if not form.TABLE else [(cls,) for cls in load("jsonl").TYPES]:
        out = io.BytesIO()
        count = form.write(of_records(ODD), types, out)
        assert count == sum(isinstance(one, types) for one in ODD)
        if name == "perfetto":
            events = json.loads(out.getvalue())["traceEvents"]
            tracks = {(event["pid"], event["tid"]) for event in on(events, ph="X")}
            assert all(nests(on(events, ph="X", pid=pid, tid=tid)) for pid, tid in tracks)
            assert "\x1b" not in out.getvalue().decode()
        if name == "csv":
            assert len(rows(out.getvalue())) == count
