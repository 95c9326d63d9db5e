"""`gputop export`: what is written, where, and what is left when it goes wrong."""

from __future__ import annotations

import csv
import errno
import io
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop import codec
from gputop import records as rec
from gputop.cli import run
from gputop.recording.writer import Writer
from gputop.simulation.trace import records as simulated
from tests.cli.processes import environment

T = 1_760_000_000_000_000_000
S = 1_000_000_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of half a minute."""
    path = tmp_path_factory.mktemp("recorded") / "run.gputop"
    writer = Writer(path, now_ns=T)
    for record in simulated("input-workers", seconds=30):
        writer.add(record)
        if isinstance(record, rec.Alive):
            writer.commit(record.t)
    writer.close(T + 40 * S)
    return path


def steps(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


@pytest.mark.parametrize("name", ["jsonl", "csv", "parquet", "perfetto"])
def test_every_format_makes_a_file_and_says_what_is_in_it(
    name: str, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    assert run(["export", str(recording), "--to", name, "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{out}: ")
    assert "records" in said.out
    assert said.err == ""
    assert out.stat().st_size > 1000
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_json_lines_come_back_as_the_same_recording(recording: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert run(["export", str(recording), "--to", "jsonl", "-o", str(first)]) == 0
    assert run(["export", str(first), "--to", "jsonl", "-o", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()
    assert [codec.from_json(line) for line in first.read_bytes().splitlines()] == list(
        simulated("input-workers", seconds=30)
    )


def test_a_trace_is_exported_as_it_lies_in_its_file(tmp_path: Path) -> None:
    """A loop of 1,000 steps/s, newest first: no step may be summed up on the way, nothing put in order or added."""
    trace, out = tmp_path / "fast.jsonl", tmp_path / "out"
    steps = [rec.Step(t=T + n * 10**6, run_id="r", n=n, dur_ns=10**6, phases_ns={}) for n in reversed(range(3000))]
    trace.write_bytes(b"".join(codec.to_json(step) + b"\n" for step in steps) + b"no record\n")
    assert run(["export", str(trace), "--to", "jsonl", "-o", str(out)]) == 0
    assert [codec.from_json(line) for line in out.read_bytes().splitlines()] == steps
    assert run(["export", str(trace), "--to", "jsonl", "-o", str(out), "--force", "--until", "1s"]) == 0
    assert len(out.read_bytes().splitlines()) == 1001


def test_a_stretch_of_it(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    words = ["export", str(recording), "--to", "csv", "-o", str(out), "--force"]
    assert run([*words, "--from", "10s", "--until", "20s"]) == 0
    times = [int(row["t_ns"]) - T for row in steps(out)]
    assert min(times) >= 10 * S
    assert max(times) <= 20 * S
    assert run([*words, "--from", "step 30", "--until", "step 35"]) == 0
    assert [int(row["n"]) for row in steps(out)] == list(range(30, 36))
    assert run([*words, "--from", "50%"]) == 0
    assert min(int(row["t_ns"]) for row in steps(out)) >= T + 14 * S


def test_several_tables_are_a_folder(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(["export", str(recording), "--to", "csv", "--types", "step,gpu", "--types", "host", "-o", str(out)]) == 0
    assert sorted(one.name for one in out.iterdir()) == ["gpu.csv", "host.csv", "step.csv"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "csv", "-o", "x", "--types", "stops"], "'stops' is no record type; they are run, alive"),
        (["--to", "parquet", "-o", "-"], "can't go to standard output"),
        (["--to", "csv", "-o", "-", "--types", "step,gpu"], "several types need a folder"),
        (["--to", "csv", "-o", "x", "--from", "soon"], "is no place in time"),
        (["--to", "csv", "-o", "x", "--from", "20s", "--until", "10s"], "--until must come after --from"),
        (["--to", "csv", "-o", "x", "--from", "step 999999"], "there is no step 999999"),
        (["--to", "xml", "-o", "x"], "'xml' is not one of"),
        (["--to", "csv"], "Missing option '-o'"),
    ],
)
def test_wrong_usage(
    words: list[str], said: str, recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(recording), *words]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_recording_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe nonsense\n")
    for path in (tmp_path / "none", tmp_path / "bad", tmp_path):
        assert run(["export", str(path), "--to", "csv", "-o", str(tmp_path / "out")]) == 3
        assert str(path) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("beside", ["", "-wal"])
@pytest.mark.parametrize("more", [[], ["--force"]])
def test_what_is_read_is_never_replaced(
    more: list[str], beside: str, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.gputop"
    path.write_bytes(recording.read_bytes())
    (tmp_path / "run.gputop-wal").touch()
    (tmp_path / "link").symlink_to(f"{path}{beside}")
    before = path.read_bytes()
    assert run(["export", str(path), "--to", "jsonl", "-o", str(tmp_path / "link"), *more]) == 1
    assert "is the file that is read; name another" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert Path(f"{path}-wal").read_bytes() == b""


def test_nor_as_one_of_a_folder(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.csv"
    path.write_bytes(recording.read_bytes())
    assert run(["export", str(path), "--to", "csv", "--types", "run,step", "-o", str(tmp_path), "--force"]) == 1
    assert f"{path} is the file that is read" in capsys.readouterr().err
    assert path.read_bytes() == recording.read_bytes()


def test_an_existing_file_is_kept(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    words = ["export", str(recording), "--to", "csv", "-o", str(out)]
    assert run(words) == 1
    assert "exists already; --force replaces it" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert run([*words, "--force"]) == 0
    assert out.stat().st_size > 1000


def test_a_place_that_cannot_be_written_is_one_sentence(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(recording), "--to", "csv", "-o", str(tmp_path / "no" / "out")]) == 1
    said = capsys.readouterr().err
    assert "is there such a folder?" in said
    assert said.count("\n") == 1


def command(recording: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "gputop", "export", str(recording), *words]


def test_a_disk_that_fills_up_leaves_nothing_behind(recording: Path, tmp_path: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        command(recording, "--to", "jsonl", "-o", str(tmp_path / "out")),
        env=environment(tmp_path), preexec_fn=small, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "could not be written: file too large; nothing was left behind" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == []
    full = subprocess.run(
        command(recording, "--to", "csv", "-o", "/dev/full"),
        env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert full.returncode == 1
    assert "no space left on device; nothing was left behind; free some space" in full.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_and_ends_with_130(number: signal.Signals, tmp_path: Path) -> None:
    """The file exported is a pipe's worth of lines that never ends: it is cut short while it is being written."""
    path = tmp_path / "long.jsonl"
    with open(path, "wb") as out:
        for n in range(15_000):
            step = rec.Step(t=T + n * 10**7, run_id="r", n=n, dur_ns=10**7, phases_ns={"data": 5, "backward": 10**6})
            out.write(codec.to_json(step) + b"\n")
    folder = tmp_path / "out"
    folder.mkdir()
    child = subprocess.Popen(
        command(path, "--to", "csv", "-o", str(folder / "out.csv")),
        env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not any(one.stat().st_size for one in folder.iterdir()) and child.poll() is None:
        continue
    child.send_signal(number)
    _, err = child.communicate(timeout=150)
    assert child.returncode == 130, err
    assert list(folder.iterdir()) == []
    assert "Traceback" not in err


def test_to_standard_output_come_the_data_alone_and_its_reader_may_leave(recording: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(recording, "--to", "jsonl", "-o", "-"), env=environment(tmp_path), capture_output=True, check=True
    )
    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert done.stderr == b""
    line = f"{' '.join(command(recording, '--to', 'csv', '-o', '-'))} | head -1; echo ${{PIPESTATUS[0]}}"
    cut = subprocess.run(["bash", "-c", line], env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert cut.stdout.splitlines()[-1] == "0"
    assert cut.stderr == ""


def test_without_pyarrow_the_command_that_installs_it_is_named(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(["export", str(recording), "--to", "parquet", "-o", str(tmp_path / "out")]) == 1
    assert "pip install 'gputop-live[parquet]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_stretch_is_said(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(recording), "--to", "csv", "--types", "sampler", "-o", str(tmp_path / "out")]) == 0
    assert "0 sampler records" in capsys.readouterr().out


def test_a_trace_too_big_for_a_browser_is_told_beforehand(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gputop.cli import export

    monkeypatch.setattr(export, "BIG_BYTES", 1000)
    words = ["export", str(recording), "--to", "perfetto", "-o", str(tmp_path / "out")]
    assert run(words) == 0
    said = capsys.readouterr().err
    assert "take a part of it, such as --from 50% --until 50." in said


class Clock:
    """Time that goes on when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def ticks(clock: Clock, seconds: int) -> Iterator[float]:
    for second in range(seconds):
        clock.now = float(second)
        yield second / seconds


def test_progress_is_a_bar_on_a_terminal_and_leaves_no_trace() -> None:
    from gputop.cli.progress import Progress

    clock, stream = Clock(), Stream(terminal=True)
    progress = Progress("exporting", stream=stream, clock=clock)
    for share in ticks(clock, 2):
        progress(share)
    progress.clear()
    assert stream.getvalue() == "", "nothing is said of what takes less than two seconds"
    for share in ticks(clock, 20):
        progress(share)
    assert "\r###" in stream.getvalue()
    assert "exporting  50 %, 10 s left" in stream.getvalue()
    progress.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_progress_elsewhere_is_a_line_now_and_then() -> None:
    from gputop.cli.progress import Progress

    clock, stream = Clock(), Stream(terminal=False)
    progress = Progress("exporting", stream=stream, clock=clock)
    for share in ticks(clock, 40):
        progress(share)
    progress.clear()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("gputop: exporting  38 %")
    assert "\x1b" not in stream.getvalue()


class Full(io.RawIOBase):
    """A disk that is full until there is room."""

    room = False

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(memoryview(data))  # type: ignore[arg-type]


NASTY = "\x1b[31mred\udcff\u202e.gputop"
"""A file's name as a careless or hostile tool may leave it: an escape, a byte that is no UTF-8, a turn of direction."""


@pytest.mark.parametrize(
    "words",
    [
        ["report", "FILE", "--html", "OUT"],
        ["report", "FILE"],
        ["replay", "FILE"],
        ["export", "FILE", "--to", "csv", "-o", "OUT"],
        ["export", "FILE", "--to", "csv", "--from", "step 999999", "-o", "OUT"],
        ["recover", "FILE", "-o", "OUT"],
        ["scrub", "FILE", "-o", "OUT"],
        ["diff", "FILE", "FILE"],
        ["report", "GONE"],
        ["record", "GONE/x", "--seconds", "1"],
    ],
)
def test_no_command_prints_a_files_name_as_it_is(
    words: list[str], recording: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / NASTY, tmp_path / f"out-{NASTY}"
    file.write_bytes(recording.read_bytes())
    names = {"FILE": str(file), "OUT": str(out), "GONE": f"{file}.gone", "GONE/x": f"{file}.gone/x"}
    assert run([names.get(word, word) for word in words]) in (0, 2, 3)
    said = "".join(capfd.readouterr())
    assert said
    assert not any(char in said for char in ("\x1b", "\u202e", "\udcff", "Error:  "))


@pytest.mark.parametrize(
    "words",
    [
        ["report", "FILE", "--html", "-"],
        ["replay", "FILE"],
        ["diff", "FILE", "FILE"],
        ["diff", "FILE", "FILE", "--json"],
        ["export", "FILE", "--to", "csv", "-o", "-"],
        ["export", "FILE", "--to", "csv", "-o", "OUT"],
        ["recover", "FILE", "-o", "OUT"],
        ["scrub", "FILE", "-o", "OUT"],
    ],
)
def test_an_answer_that_finds_no_room_is_one_sentence(
    words: list[str],
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"FILE": str(recording), "OUT": str(tmp_path / "out")}
    disk = Full()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(disk), write_through=True))
    assert run([names.get(word, word) for word in words]) == 1
    disk.room = True
    assert capsys.readouterr().err == "gputop: the answer can't be written: no space left on device\n"
