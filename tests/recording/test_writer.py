"""A recording gives back what was put into it, in the order it came, whatever happens to the writer."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
from pathlib import Path

import pytest

from gputop import records as rec
from gputop.recording.errors import Busy, Unreadable
from gputop.recording.reader import Recording
from gputop.recording.sqlite import Connection
from gputop.recording.writer import Writer
from gputop.simulation.trace import records as simulated

S = 1_000_000_000
T0 = 1_760_000_000 * S


def step(n: int, *, run_id: str = "r", dur_ns: int = S // 10, t: int | None = None, **more: object) -> rec.Step:
    fields = {"phases_ns": {"data": dur_ns // 2, "backward": dur_ns // 4}, "had_backward": True, **more}
    return rec.Step(t=T0 + n * dur_ns if t is None else t, run_id=run_id, n=n, dur_ns=dur_ns, **fields)  # type: ignore[arg-type]


def run(run_id: str = "r", **more: object) -> rec.Run:
    return rec.Run(t=T0, run_id=run_id, pid=1, host="box", **more)  # type: ignore[arg-type]


def write(path: Path, records: list[rec.Record], *, batch: int = 10, close: bool = True) -> Writer:
    writer = Writer(path, now_ns=T0)
    for at in range(0, len(records), batch):
        for record in records[at : at + batch]:
            writer.add(record)
        writer.commit(T0 + at)
    if close:
        writer.close(T0 + len(records))
    return writer


def of_every_type() -> list[rec.Record]:
    return [
        run(argv=["train.py", "--lr", "1"], simulated=False),
        rec.Loader(t=T0, run_id="r", loader_id=0, num_workers=4, pin_memory=True, worker_pids=[7, 8]),
        rec.Model(t=T0, run_id="r", devices={"cuda:0": 5}, on_cpu=[], compiled=False),
        step(0, gpu_ns={"forward": 5}, gpu_idle_ns={"other": 7, "mine": 8}, queue_empty=0.5, first_of_epoch=True),
        step(1, phases_ns={"my own": 4, "data": 2}, sync_sites=[rec.SyncSite(site="a.py:3", call="x", count=2, ns=9)]),
        step(2, phases_ns={}, gpu_ns={}, partial=True, optimizer_step=False),
        rec.Alive(t=T0, run_id="r", steps=3, stack=["a", "b"]),
        rec.Fold(t=T0, run_id="r", steps=9, dur_ns=90, phases_ns={"data": 5, "mine": 1}, min_ns=1, max_ns=20),
        rec.Site(t=T0, run_id="r", sites=[rec.SiteSample(phase="other", site="a.py:9", samples=3)]),
        rec.Profile(t=T0, run_id="r", steps=5, top_ops=[{"name": "mm", "ns": 5}], gpu_busy_pct=12.5),
        rec.Gpu(t=T0, host="box", gpu_uuid="GPU-1", util_pct=12.0, processes=[rec.GpuProcess(pid=1)], throttle=[]),
        rec.Burst(t=T0, host="box", gpu_uuid="GPU-1", dt_ns=[0, 5], util_pct=[1.0, 99.5]),
        rec.Host(t=T0, host="box", cpu_pct=3.25, per_core_pct=[1.0, 5.5], cores=2),
        rec.Process(t=T0, host="box", pid=1, run_id="r", cmdline="python x", workers=[rec.Worker(pid=7, cpu_pct=99.0)]),
        rec.Process(t=T0, host="box", pid=2, name="other"),
        rec.Sampler(t=T0, host="box", backend="nvml", state="ok"),
        rec.Event(t=T0, kind="marker", label="lr dropped"),
        rec.Verdict(
            t=T0, run_id="r", cause="gpu-bound", family="device", headline="fine", confidence=0.9,
            evidence=[rec.Evidence(signal="x", value=1.5, unit="%")],
            runner_up=rec.RunnerUp(cause="sync", share_pct=3),
        ),
    ]  # fmt: skip


def test_every_type_comes_back_equal(tmp_path: Path) -> None:
    given = of_every_type()
    write(tmp_path / "a.gputop", given)
    assert list(Recording(tmp_path / "a.gputop").records()) == given
    assert {type(record) for record in given} == set(rec.TYPES.values()) - {rec.Request, rec.Reply}


def test_a_simulated_hour_comes_back_equal_and_in_order(tmp_path: Path) -> None:
    given = list(simulated("input-workers", seconds=120))
    write(tmp_path / "a.gputop", given, batch=13)
    assert list(Recording(tmp_path / "a.gputop").records()) == given


def test_a_clean_close_leaves_one_plain_file(tmp_path: Path) -> None:
    write(tmp_path / "a.gputop", [run(), step(0)])
    assert os.listdir(tmp_path) == ["a.gputop"]
    with contextlib.closing(sqlite3.connect(tmp_path / "a.gputop")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    info = Recording(tmp_path / "a.gputop").info()
    assert info.closed
    assert not info.being_written


def test_what_nobody_closed_is_closed_with_it(tmp_path: Path) -> None:
    """From Python 3.13 on a connection that is forgotten is warned of."""
    closed = []

    class Watched(Connection):
        def close(self) -> None:
            closed.append(self.total_changes)
            super().close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gputop.recording.writer.Connection", Watched)
        patch.setattr("gputop.recording.reader.Connection", Watched)
        write(tmp_path / "a.gputop", [run(), step(0)], close=False)
        assert len(list(Recording(tmp_path / "a.gputop").records())) == 2
    gc.collect()
    assert len(closed) == 2


def test_a_new_recording_is_its_owners_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.gputop", [run(), step(0)])
    assert (tmp_path / "a.gputop").stat().st_mode & 0o777 == 0o600


def test_a_recording_is_read_while_it_is_written(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.gputop", [run(), step(0)], close=False)
    reader = Recording(tmp_path / "a.gputop")
    assert reader.info().being_written
    seen = reader.last_seq()
    writer.add(step(1))
    writer.commit(T0)
    assert [number for number, _ in reader.numbered(after_seq=seen)] == [3]
    writer.close(T0)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.gputop", [run()], close=False)
    with pytest.raises(Busy, match=f"process {os.getpid()}"):
        Writer(tmp_path / "a.gputop", now_ns=T0)
    writer.close(T0)
    Writer(tmp_path / "a.gputop", now_ns=T0).close(T0)


def test_a_recorder_of_another_machine_is_believed_while_it_commits(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.gputop", [run()], close=False)
    writer._db.execute("UPDATE meta SET value = json_set(value, '$.host', 'elsewhere') WHERE key = 'writer'")
    with pytest.raises(Busy, match="elsewhere"):
        Writer(tmp_path / "a.gputop", now_ns=T0 + 10 * S)
    Writer(tmp_path / "a.gputop", now_ns=T0 + 60 * S).close(T0 + 60 * S)


def test_a_recording_is_continued(tmp_path: Path) -> None:
    first, second = [run(), step(0), step(1)], [step(2), rec.Event(t=T0, kind="exit", run_id="r")]
    write(tmp_path / "a.gputop", list(first))
    write(tmp_path / "a.gputop", list(second))
    recording = Recording(tmp_path / "a.gputop")
    assert list(recording.records()) == [*first, *second]
    assert recording.info().steps == 3
    assert recording.info().runs[0].ended == "ended"


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + bytes(200)])
def test_a_foreign_file_is_never_written_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(Unreadable, match="left as it is"):
        Writer(tmp_path / "a", now_ns=T0)
    assert (tmp_path / "a").read_bytes() == content


def test_a_full_disk_keeps_what_waits_for_the_next_commit(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.gputop", [run(), step(0)], close=False)
    pages = writer._db.execute("PRAGMA page_count").fetchone()[0]
    writer._db.execute(f"PRAGMA max_page_count = {pages}")
    more = [step(n, phases_ns={f"phase {n} {i}": 1 for i in range(50)}) for n in range(1, 200)]
    for one in more:
        writer.add(one)
    with pytest.raises(OSError, match="no space left"):
        writer.commit(T0)
    assert writer.pending() == len(more)
    writer._db.execute("PRAGMA max_page_count = 100000")
    writer.commit(T0)
    writer.close(T0)
    recording = Recording(tmp_path / "a.gputop")
    assert list(recording.records(types=[rec.Step])) == [step(0), *more]
    assert sum(tier.steps for tier in recording.minutes()) == 200


def test_figures_that_no_column_holds_are_given_up_alone(tmp_path: Path) -> None:
    odd = step(0, h2d_bytes=2**70, samples=5)
    name = rec.Event(t=T0, kind="marker", label="bad \udcff name")
    write(tmp_path / "a.gputop", [run(), odd, name])
    found = list(Recording(tmp_path / "a.gputop").records(types=[rec.Step, rec.Event]))
    assert found == [step(0, samples=5), rec.Event(t=T0, kind="marker", label="bad ? name")]


def test_command_lines_are_left_out_on_request(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.gputop", now_ns=T0, cmdlines=False)
    writer.add(run(argv=["secret"], user="bob"))
    writer.add(rec.Process(t=T0, host="box", pid=1, cmdline="secret", user="bob"))
    writer.add(rec.Gpu(t=T0, host="box", gpu_uuid="G", processes=[rec.GpuProcess(pid=1, cmdline="secret", user="bob")]))
    writer.close(T0)
    content = (tmp_path / "a.gputop").read_bytes()
    assert b"secret" not in content
    assert b"bob" not in content


def test_what_is_older_is_forgotten_and_its_room_used_again(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.gputop", now_ns=T0)
    writer.add(run())
    sizes = []
    for n in range(6000):
        writer.add(step(n))
        if n % 10 == 9:
            writer.commit(T0 + n * S // 10)
        if n % 600 == 599:
            writer.forget_before(T0 + (n - 600) * S // 10)
            writer._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            sizes.append(os.path.getsize(tmp_path / "a.gputop"))
    writer.close(T0 + 600 * S)
    assert sizes[-1] < 1.2 * sizes[2]
    kept = list(Recording(tmp_path / "a.gputop").records(types=[rec.Step]))
    assert 600 <= len(kept) <= 1300
    assert Recording(tmp_path / "a.gputop").info().runs[0].run.run_id == "r"


def test_a_very_fast_run_is_thinned_but_no_figure_is_lost(tmp_path: Path) -> None:
    steps = [step(n, dur_ns=S // 1000, samples=4) for n in range(3000)]
    steps[777] = step(777, dur_ns=50 * S // 1000, t=steps[777].t, samples=4)
    write(tmp_path / "a.gputop", [run(), *steps], batch=1000)
    recording = Recording(tmp_path / "a.gputop")
    exact = list(recording.records(types=[rec.Step]))
    folds = [one for one in recording.records(types=[rec.Fold]) if isinstance(one, rec.Fold)]
    assert 150 <= len(exact) <= 500
    assert steps[777] in exact
    assert len(exact) + sum(fold.steps for fold in folds) == 3000
    assert recording.info().steps == 3000
    (tier,) = recording.minutes()
    assert tier.dur_ns == sum(one.dur_ns for one in steps)
    assert tier.samples == 12000
    assert tier.max_ns == 50 * S // 1000
    assert tier.sketch is not None
    assert tier.sketch.quantile(0.5) == pytest.approx(S / 1000, rel=0.02)


def test_tiers_count_train_steps_alone(tmp_path: Path) -> None:
    mine = [
        step(0, phases_ns={"data": 5, "augment": 7, "backward": 1}),
        step(1, loader_id=1, had_backward=False, kind="eval"),
        step(2, partial=True),
    ]
    write(tmp_path / "a.gputop", [run(), *mine])
    (tier,) = Recording(tmp_path / "a.gputop").minutes("r")
    assert (tier.steps, tier.phases_ns) == (1, {"data": 5, "augment": 7, "backward": 1})


def test_a_temporary_recording_reads_like_any_other() -> None:
    writer = Writer(None, now_ns=T0)
    given = of_every_type()
    for record in given:
        writer.add(record)
    writer.commit(T0)
    assert list(writer.recording().records()) == given


def test_the_order_in_which_workers_are_written_never_changes() -> None:
    """Fields of a worker are written without their names: new ones only ever go to the end."""
    known = ("pid", "cpu_pct", "system_pct", "threads", "state", "read_bytes_s", "rss_bytes")
    assert rec.Worker.__struct_fields__[: len(known)] == known


def test_steps_that_come_unordered_are_not_taken_for_fast_ones(tmp_path: Path) -> None:
    steps = [step(n) for n in reversed(range(400))]
    write(tmp_path / "a.gputop", [run(), *steps], batch=1000)
    assert list(Recording(tmp_path / "a.gputop").records(types=[rec.Step])) == steps


def test_a_temporary_recording_keeps_every_step() -> None:
    writer = Writer(None, now_ns=T0)
    for n in range(2000):
        writer.add(step(n, dur_ns=S // 1000))
    writer.commit(T0)
    assert len(list(writer.recording().records(types=[rec.Step]))) == 2000


def test_steps_that_come_summed_are_counted_as_steps(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.gputop", now_ns=T0)
    writer.add(rec.Fold(t=T0, run_id="r", steps=900, dur_ns=S, phases_ns={"data": S // 2}, counted=True))
    writer.add(step(900, t=T0 + S))
    writer.commit(T0 + 2 * S)
    assert writer.steps == 901
    writer.close(T0 + 2 * S)
    assert Recording(tmp_path / "a.gputop").info().steps == 901


def test_what_is_said_to_be_recorded_are_train_steps(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.gputop", now_ns=T0)
    for n in range(10):
        writer.add(step(n, loader_id=1))
    for n in range(3):
        writer.add(step(n, t=T0 + 2 * S, loader_id=2, kind="eval", had_backward=False))
    writer.commit(T0 + 3 * S)
    assert writer.steps == 10
    writer.close(T0 + 3 * S)
    assert Recording(tmp_path / "a.gputop").info().steps == 10


def test_what_few_steps_have_takes_no_room_in_the_others(tmp_path: Path) -> None:
    given = [
        run(), step(0),
        step(1, partial=True, kind="train"),
        step(2, phases_ns={"data": 5, "eval": 7, "checkpoint": 9, "its own": 3}, profiled=True),
        step(3, gpu_idle_ns={"forward": 3, "data": 4}, sampled="py-spy", first_of_epoch=True),
        step(4),
    ]  # fmt: skip
    write(tmp_path / "a.gputop", given)
    assert list(Recording(tmp_path / "a.gputop").records()) == given
    with sqlite3.connect(tmp_path / "a.gputop") as db:
        columns = {row[1] for row in db.execute("PRAGMA table_info(step)")}
        packed = [n for (n,) in db.execute("SELECT n FROM step WHERE more IS NOT NULL ORDER BY n")]
    db.close()
    assert columns & {"partial", "host_eval_ns", "idle_forward_ns", "sampled"} == set()
    assert packed == [1, 2, 3]


def test_ranks_whose_steps_come_mixed_are_kept_in_order_and_summed_apart(tmp_path: Path) -> None:
    def one(n: int, rank: int) -> rec.Step:
        more = {"first_of_epoch": True} if n == 7 and rank == 1 else {}
        kind = "eval" if n % 5 == 4 else None
        return step(n, run_id=f"r{rank}", kind=kind, samples=32, partial=n == 18 or None, **more)

    given: list[rec.Record] = [one(n, rank) for n in range(20) for rank in range(3)]
    given.insert(31, rec.Event(t=T0, kind="marker", label="between"))
    write(tmp_path / "a.gputop", given, batch=16)
    recording = Recording(tmp_path / "a.gputop")
    assert list(recording.records()) == given
    assert [span.steps for span in recording.info().runs] == [15] * 3
    minutes = [tier for rank in range(3) for tier in recording.minutes(f"r{rank}")]
    assert [(tier.steps, tier.samples) for tier in minutes] == [(15, 15 * 32)] * 3
    assert [tier.sketch.count for tier in minutes if tier.sketch is not None] == [15] * 3


def test_a_step_whose_figures_cant_be_meant_is_left_out_of_many(tmp_path: Path) -> None:
    good: list[rec.Record] = [step(n) for n in range(10)]
    odd = [step(10, samples=-1), step(11, phases_ns={"data": -5}), step(12, dur_ns=2**63, t=T0), step(13, t=-1)]
    write(tmp_path / "a.gputop", [*good[:5], *odd, *good[5:]], batch=100)
    assert list(Recording(tmp_path / "a.gputop").records()) == good


def test_a_minute_goes_on_where_another_recorder_left_it(tmp_path: Path) -> None:
    for first in (0, 10):
        write(tmp_path / "a.gputop", [step(n, phases_ns={"data": 5, "mine": 2}) for n in range(first, first + 10)])
    minute = next(iter(Recording(tmp_path / "a.gputop").minutes("r")))
    assert (minute.steps, minute.phases_ns) == (20, {"data": 100, "mine": 40})
    assert minute.sketch is not None
    assert minute.sketch.count == 20


def test_a_commit_that_failed_counts_once_in_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path / "a.gputop", now_ns=T0)
    for n in range(5):
        writer.add(step(n))
    writer.commit(T0)
    committed = writer._minutes.write

    def fails(*given: object, **more: object) -> None:
        committed(*given, **more)  # type: ignore[arg-type]
        raise sqlite3.OperationalError("database or disk is full")

    for n in range(5, 9):
        writer.add(step(n))
    monkeypatch.setattr(writer._minutes, "write", fails)
    with pytest.raises(OSError, match="no space"):
        writer.commit(T0 + S)
    monkeypatch.undo()
    writer.add(step(9, phases_ns={"mine": 5, "data": 7}))
    writer.commit(T0 + 2 * S)
    writer.close(T0 + 3 * S)
    recording = Recording(tmp_path / "a.gputop")
    (minute,) = recording.minutes()
    assert (minute.steps, minute.dur_ns, minute.min_ns) == (10, S, S // 10)
    assert minute.phases_ns == {"data": 9 * S // 20 + 7, "backward": 9 * S // 40, "mine": 5}
    assert minute.sketch is not None
    assert minute.sketch.count == 10
    assert sum(one.steps for one in recording.seconds("r", T0, T0 + S)) == 10
    recording.close()


def test_steps_of_many_kinds_in_one_commit_come_back_as_they_were(tmp_path: Path) -> None:
    records: list[rec.Record] = [run()]
    for n in range(60):
        more: dict[str, object] = {"samples": n} if n % 2 else {}
        more |= {"gpu_ns": {"forward": n} | ({"odd": 3} if n % 4 == 0 else {})} if n % 3 else {}
        more |= {"partial": n % 5 == 0} if n % 7 else {}
        more |= {"phases_ns": {}} if n % 11 == 0 else {"phases_ns": {"backward": n, "data": 1}} if n % 13 == 0 else {}
        records.append(step(n, run_id="r" if n % 3 else "q", **more))
    write(tmp_path / "a.gputop", records, batch=len(records))
    recording = Recording(tmp_path / "a.gputop")
    assert list(recording.records()) == records
    recording.close()
