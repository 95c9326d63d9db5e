"""Reading JSON Lines: a bad line costs itself, a bad file one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.codec import to_json
from gputop.records import Gpu, GpuProcess, Process, Run, Step
from gputop.sources.opening import open_recording
from gputop.sources.trace import NAMED_FAULTS, Unreadable, read

RUN = Run(t=1, run_id="a", pid=1, host="h", schema=1)
STEP = Step(t=2, run_id="a", n=0, dur_ns=5, phases_ns={})


def trace(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_records_come_in_time_order_runs_first(tmp_path: Path) -> None:
    late = Step(t=1, run_id="a", n=0, dur_ns=5, phases_ns={})
    path = trace(tmp_path / "t.jsonl", to_json(STEP), to_json(late), to_json(RUN))
    records, warnings = read(path)
    assert [record.t for record in records if isinstance(record, Step)] == [1, 2]
    assert isinstance(records[0], Run)
    assert warnings == []


def test_bad_lines_are_named_and_counted(tmp_path: Path) -> None:
    bad = [b"{broken"] * (NAMED_FAULTS + 3)
    records, warnings = read(trace(tmp_path / "t.jsonl", to_json(RUN), *bad, to_json(STEP)))
    assert records == [RUN, STEP]
    assert warnings[0].startswith("line 2 skipped")
    assert warnings[-1].startswith(f"{NAMED_FAULTS + 3} lines in all")


def test_unknown_types_and_blank_lines_are_no_faults(tmp_path: Path) -> None:
    records, warnings = read(trace(tmp_path / "t.jsonl", to_json(RUN), b"", b'{"type":"weather","t":1}'))
    assert records == [RUN]
    assert warnings == ["1 records of types that this version does not know were ignored"]


def test_steps_without_a_run_record_can_be_judged_all_the_same(tmp_path: Path) -> None:
    records, _ = read(trace(tmp_path / "t.jsonl", to_json(STEP)))
    assert [type(record) for record in records] == [Run, Step]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + to_json(RUN) + b"\r\n" + to_json(STEP) + b"\r\n")
    assert read(path) == ([RUN, STEP], [])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"hello\nworld\n", "is not a trace: none of its 2 lines"),
        (b"SQLite format 3\0rest", "is an SQLite file"),
        (b"\x89PNG\0\0\0", "binary data"),
        (to_json(Run(t=1, run_id="a", pid=1, host="h", schema=99)), "is of schema 99, this gputop reads up to 1"),
    ],
)
def test_what_is_no_trace_says_what_and_what_to_do(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=said):
        read(path)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="can't be read: no such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(Unreadable, match="is a directory"):
        read(tmp_path)


def test_a_gpu_and_a_process_alone_are_a_run_though_no_record_says_so(tmp_path: Path) -> None:
    board = Gpu(t=1, host="h", gpu_uuid="g", util_pct=20.0)
    training = Process(t=2, host="h", pid=7, main_thread_cpu_pct=99.0)
    desktop = Process(t=2, host="h", pid=8, cpu_pct=30.0)
    records, _ = read(trace(tmp_path / "t.jsonl", to_json(board), to_json(desktop), to_json(training)))
    assert [record.pid for record in records if isinstance(record, Run)] == [7]
    assert isinstance(records[0], Run)
    for lines in ([board, desktop], [training], [RUN, board, training]):
        found, _ = read(trace(tmp_path / "u.jsonl", *map(to_json, lines)))
        assert [record for record in found if isinstance(record, Run)] == [one for one in lines if one is RUN]


def test_one_process_that_the_driver_lists_again_and_again_is_a_run_in_reports_and_replays(tmp_path: Path) -> None:
    """A replay of such a trace showed no verdict, a report one."""

    def listed(t: int, *pids: int) -> str:
        return to_json(Gpu(t=t, host="h", gpu_uuid="g", processes=[GpuProcess(pid=pid) for pid in pids])).decode()

    for lines, found in (([(1, 7), (2, 7)], [7]), ([(1, 7), (2, 8)], []), ([(1, 7, 8), (2, 7, 8)], [])):
        path = tmp_path / "t.jsonl"
        path.write_text("".join(listed(*line) + "\n" for line in lines))
        assert [record.pid for record in read(path)[0] if isinstance(record, Run)] == found
        recording = open_recording(path)
        assert [record.pid for record in recording.records() if isinstance(record, Run)] == found
        recording.close()
