"""`gputop record` and `gputop run --record`: what they promise about files, signals, exit codes and the command."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gputop.cli import amounts, detached, run
from gputop.cli.ending import Ending, started_by
from gputop.recording.reader import Recording
from gputop.records import Event, Run, Step, Verdict
from gputop.view import RunView, View
from tests.cli.processes import environment, gputop, without_privilege
from tests.recording.disks import fill

ROOT = Path(__file__).parents[2]
LOOP = Path(__file__).with_name("plain_loop.py")
TORCH_LOOP = ROOT / "tests" / "e2e" / "loop.py"
PAGE = ROOT / "docs" / "recording-jobs.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.gputop"


def until(true: object, *, seconds: float = 60) -> None:
    """Wait for something to be so."""
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def closed(path: Path) -> Recording:
    """A recording whose recorder has ended, which it must do soon: one plain file."""
    until(lambda: [one.name for one in path.parent.iterdir()] == [path.name])
    opened = Recording(path)
    assert opened.info().closed
    assert opened.warnings == []
    return opened


@contextlib.contextmanager
def recorder(directory: Path, *words: str, nohup: bool = False, **streams: object) -> Iterator[subprocess.Popen[str]]:
    """`gputop record`, in a session of its own, once it has said that it records."""
    line = [*(["nohup"] if nohup else []), sys.executable, "-m", "gputop", "record", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **streams}
    with subprocess.Popen(  # type: ignore[call-overload]
        line, env=environment(directory), stdin=subprocess.DEVNULL, text=True, start_new_session=True, **streams
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def first_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    while "recording" not in (line := child.stdout.readline()):
        assert line
    return line


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 129)], ids=["TERM", "INT", "HUP"]
)
def test_a_signal_ends_it_and_leaves_one_plain_file(short_dir: Path, file: Path, number: int, code: int) -> None:
    with recorder(short_dir, str(file)) as child:
        assert first_line(child).endswith(f"recording to {file}, until Ctrl+C or SIGTERM\n")
        until(lambda: Path(f"{file}-wal").exists())
        began = time.monotonic()
        child.send_signal(number)
        said = child.communicate(timeout=150)[0]
        assert time.monotonic() - began < 15
    assert child.returncode == code
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d recorded 0 steps of 0 runs in [\d.]+ s, \d+ kB$", said, re.M)
    closed(file).close()


def test_under_nohup_a_hangup_is_nothing(short_dir: Path, file: Path) -> None:
    with recorder(short_dir, str(file), nohup=True) as child:
        first_line(child)
        child.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=150)
    assert child.returncode == 0
    closed(file).close()


def test_a_log_that_cannot_be_written_ends_nothing(short_dir: Path, file: Path) -> None:
    with open("/dev/full", "w") as log, recorder(short_dir, str(file), "--seconds", "0.7", stdout=log) as child:
        assert child.wait(60) == 0
    closed(file).close()


@pytest.mark.slow
def test_a_reader_that_leaves_ends_nothing(short_dir: Path, file: Path) -> None:
    line = f"{sys.executable} -m gputop record {file} --seconds 0.7 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(short_dir), capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n0\n")
    assert done.stderr == ""
    closed(file).close()


def test_without_a_name_it_is_called_after_the_time(short_dir: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "gputop", "record", "--seconds", "0.5"]
    env = {**environment(short_dir), "PYTHONPATH": str(ROOT)}
    subprocess.run(line, cwd=tmp_path, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (made,) = tmp_path.iterdir()
    assert re.fullmatch(r"gputop-\d{8}-\d{6}\.gputop", made.name)


def test_it_is_continued_and_says_so(short_dir: Path, file: Path) -> None:
    assert gputop("record", str(file), "--seconds", "0.5", directory=short_dir).returncode == 0
    again = gputop("record", str(file), "--seconds", "0.5", directory=short_dir)
    assert f"going on with the recording {file}" in again.stdout


def test_a_file_that_is_being_recorded_is_refused(short_dir: Path, file: Path) -> None:
    with recorder(short_dir, str(file)) as child:
        first_line(child)
        other = gputop("record", str(file), "--seconds", "5", directory=short_dir)
        assert other.returncode == 1
        assert f"is being recorded by process {child.pid}" in other.stderr
        assert other.stderr.count("\n") == 1
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=150)
    closed(file).close()


@pytest.mark.slow
def test_of_many_that_begin_at_once_one_records(short_dir: Path, file: Path) -> None:
    with contextlib.ExitStack() as all_of_them:
        children = [all_of_them.enter_context(recorder(short_dir, str(file), "--seconds", "3")) for _ in range(3)]
        codes = sorted((child.communicate(timeout=150), child.returncode)[1] for child in children)
    assert codes == [0, 1, 1]
    closed(file).close()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("", 2, "is a folder"),
        ("no/such/run.gputop", 2, "there is no folder"),
        ("circle", 2, "circle is a link that leads back to itself"),
        ("circle/run.gputop", 2, "circle is a link that leads back to itself"),
        ("dangling", 2, "there is no folder"),
        ("foreign", 3, "is not a recording"),
        ("other.db", 3, "not a recording of gputop"),
    ],
)
def test_what_cannot_be_recorded_to_is_one_sentence(
    name: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "foreign").write_text("something else\n" * 100)
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "dangling").symlink_to("no/run.gputop")
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as db, db:
        db.execute("CREATE TABLE t (x)")
    before = sorted(tmp_path.iterdir())
    assert run(["record", str(tmp_path / name)]) == code
    words = capsys.readouterr().err
    assert said in words
    assert "Traceback" not in words
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "foreign").read_text().startswith("something else")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("x" * 300, 1, "file name too long"), ("fifo", 3, "no plain file; name a file to record")],
)
def test_a_name_that_cannot_be_a_recording_is_one_sentence(
    name: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert run(["record", str(tmp_path / name)]) == code
    words = capsys.readouterr().err
    assert said in words
    assert "--debug" not in words
    assert words.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["fifo"]


def test_a_working_folder_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    for words in (["record"], ["record", "run.gputop"]):
        assert run(words) == 1
        assert "the working folder is gone" in capsys.readouterr().err


def test_a_place_that_takes_no_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "/proc/run.gputop"]) == 1
    words = capsys.readouterr().err
    assert "can't record to /proc/run.gputop: " in words
    assert words.count("\n") == 1


def test_no_place_to_meet_leaves_no_file(tmp_path: Path, file: Path) -> None:
    (tmp_path / "taken").touch()
    done = gputop("record", str(file), directory=tmp_path / "taken" / "in")
    assert done.returncode == 1
    assert "set GPUTOP_DIR" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize("option", ["--max-size=big", "--keep=soon", "--keep=0s", "--min-free=-1", "--seconds=nan"])
def test_amounts_that_are_none_are_usage_errors(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", option]) == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "count"), [("2G", 2 * 10**9), ("2Gi", 2 * 1024**3), ("500M", 5 * 10**8), ("1.5kB", 1500), ("0", 0)]
)
def test_sizes(text: str, count: int) -> None:
    assert amounts.size(click.Context(click.Command("x")), click.Option(["--x"]), text) == count


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1h30m", 5400), ("24h", 86400), ("7d", 604800)]
)
def test_spans(text: str, seconds: int) -> None:
    assert amounts.span(click.Context(click.Command("x")), click.Option(["--x"]), text) == seconds * 10**9


def test_the_recorder_needs_no_screen() -> None:
    line = "import gputop.cli.record, gputop.cli.detached, sys; print([m for m in sys.modules if 'textual' in m])"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_full_disk_is_told_in_the_log_and_by_the_exit_code(short_dir: Path, small_disk: Path) -> None:
    file = small_disk / "run.gputop"
    with recorder(short_dir, str(file), "--min-free", "0") as child:
        first_line(child)
        until(lambda: Path(f"{file}-wal").exists())
        fill(small_disk)
        assert child.stdout is not None
        while "the disk is full" not in (line := child.stdout.readline()):
            assert line
        child.send_signal(signal.SIGTERM)
        said = child.communicate(timeout=150)[0]
    assert child.returncode == 1
    assert re.search(r"recorded 0 steps of 0 runs in [\d.]+ s, \d+ records lost, ", said)
    opened = Recording(file)
    assert not opened.info().closed
    opened.close()


def test_what_trains_is_recorded_with_its_end(short_dir: Path, file: Path) -> None:
    with recorder(short_dir, str(file)) as child:
        first_line(child)
        done = gputop("run", "--", sys.executable, str(LOOP), "1.5", directory=short_dir)
        assert (done.returncode, done.stdout) == (0, "trained\n")
        assert child.stdout is not None
        said = [child.stdout.readline()]
        while ": ended after" not in said[-1]:
            said.append(child.stdout.readline())
            assert said[-1]
        child.send_signal(signal.SIGTERM)
        last = child.communicate(timeout=150)[0]
    opened = closed(file)
    (span,) = opened.info().runs
    assert span.ended == "ended"
    assert span.steps > 50
    assert any(f"pid {span.run.pid}: WARMUP" in line for line in said)
    assert f"pid {span.run.pid}: ended after" in said[-1]
    assert re.search(r"recorded \d+ steps of 1 run in", last)
    kinds = {type(record) for record in opened.records()}
    assert {Run, Step, Verdict, Event} <= kinds
    opened.close()


def test_a_recording_continued_after_a_kill_holds_each_step_once(short_dir: Path, file: Path) -> None:
    line = [sys.executable, "-m", "gputop", "run", "--", sys.executable, str(LOOP), "60"]
    with subprocess.Popen(line, env=environment(short_dir), stdout=subprocess.DEVNULL) as training:
        for _ in range(2):
            before = newest_step(file)
            with recorder(short_dir, str(file)) as child:
                until(lambda before=before: newest_step(file) > before + 50)
                child.send_signal(signal.SIGKILL)
        done = gputop("record", str(file), "--seconds", "1.5", directory=short_dir)
        training.kill()
    opened = closed(file)
    steps = [record.n for record in opened.records() if isinstance(record, Step)]
    assert steps == list(range(len(steps)))
    (span,) = opened.info().runs
    assert span.steps == len(steps) == sum(tier.steps for tier in opened.minutes())
    assert all(seq < 20 for seq, record in opened.numbered() if isinstance(record, Run))
    opened.close()
    said = re.search(r"recorded (\d+) steps of 1 run", done.stdout)
    assert said is not None
    assert int(said[1]) < len(steps) - 100


def newest_step(path: Path) -> int:
    """The number of the newest step in a recording that may just begin; -1 without one."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as db:
            newest = db.execute("SELECT max(n) FROM step").fetchone()[0]
    except sqlite3.Error:
        return -1
    return -1 if newest is None else int(newest)


@pytest.mark.slow
def test_with_a_run_named_it_ends_when_that_ends(short_dir: Path, file: Path) -> None:
    env = environment(short_dir)
    line = [sys.executable, "-m", "gputop", "run", "--", sys.executable, str(LOOP), "2.5"]
    with subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL) as training:
        until(lambda: list(short_dir.glob("run-*.json")))
        (card,) = short_dir.glob("run-*.json")
        run_id = card.stem.removeprefix("run-")
        done = gputop("record", str(file), "--run", run_id, directory=short_dir)
        assert training.wait(60) == 0
    assert done.returncode == 0
    assert f"until run {run_id} ends" in done.stdout
    opened = closed(file)
    assert opened.info().runs[0].ended == "ended"
    opened.close()


def test_a_command_is_recorded_from_its_first_to_its_last_word(short_dir: Path, file: Path) -> None:
    done = gputop("run", "--record", str(file), "--", sys.executable, str(LOOP), "1.5", "7", directory=short_dir)
    assert (done.returncode, done.stdout, done.stderr) == (7, "trained\n", "")
    opened = closed(file)
    (span,) = opened.info().runs
    assert span.ended == "ended"
    assert span.meant
    numbers = [record.n for record in opened.records() if isinstance(record, Step)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 50
    assert opened.verdicts()
    opened.close()


def test_the_command_is_the_same_process_and_has_no_child(short_dir: Path, file: Path) -> None:
    script = "import os; print(os.getpid()); print(os.environ['GPUTOP_COMMAND']); os.waitpid(-1, 0)"
    line = [sys.executable, "-m", "gputop", "run", "--record", str(file), "--", sys.executable, "-c", script]
    with subprocess.Popen(
        line, env=environment(short_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        out, err = child.communicate(timeout=150)
    pid, mark = out.split()
    assert int(pid) == child.pid
    assert mark.startswith(f"{child.pid}:")
    assert "ChildProcessError" in err
    closed(file).close()


def test_the_recorder_has_a_session_of_its_own_and_holds_nothing_of_the_command(short_dir: Path, file: Path) -> None:
    reading, writing = os.pipe()
    line = [sys.executable, "-m", "gputop", "run", "--record", str(file), "--", "cat"]
    with subprocess.Popen(
        line, env=environment(short_dir), stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(writing,)
    ) as child:
        until(lambda: list(short_dir.glob("view-*.json")))
        (card,) = short_dir.glob("view-*.json")
        pid = int(re.findall(r'"pid":(\d+)', card.read_text())[0])
        assert os.getsid(pid) != os.getsid(0)
        held = set()
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a file closed meanwhile
                held.add(os.readlink(one))
        assert os.readlink(f"/proc/self/fd/{writing}") not in held
        assert {os.readlink(f"/proc/{pid}/fd/{k}") for k in range(3)} == {os.devnull}
        assert os.readlink(f"/proc/{child.pid}/fd/{writing}") == os.readlink(f"/proc/self/fd/{writing}")
        child.communicate()
    os.close(reading)
    os.close(writing)
    closed(file).close()


def test_a_recorder_that_cannot_start_is_one_line_and_the_training_goes_on(short_dir: Path, tmp_path: Path) -> None:
    words = ["run", "--record", str(tmp_path / "no" / "run.gputop"), "--", sys.executable, str(LOOP), "0.2", "5"]
    done = gputop(*words, directory=short_dir)
    assert (done.returncode, done.stdout) == (5, "trained\n")
    assert done.stderr == f"gputop: not recorded: there is no folder {tmp_path / 'no'}; make it first\n"


def test_a_file_that_may_not_be_read_is_one_line_and_the_training_goes_on(short_dir: Path, file: Path) -> None:
    file.write_bytes(b"mine")
    file.chmod(0)
    words = ["run", "--record", str(file), "--", sys.executable, str(LOOP), "0.2", "5"]
    done = gputop(*words, directory=short_dir, preexec_fn=without_privilege)
    assert (done.returncode, done.stdout) == (5, "trained\n")
    assert done.stderr == f"gputop: not recorded: {file} can't be read: permission denied; it is left as it is\n"
    assert file.stat().st_size == 4


@pytest.mark.parametrize(
    "words", [["report"], ["replay", "--plain"], ["scrub"], ["recover"], ["export", "--to", "csv", "-o", "-"], ["diff"]]
)
def test_input_that_may_not_be_read_is_code_3(words: list[str], short_dir: Path, file: Path) -> None:
    file.touch(0)
    twice = [str(file)] if words == ["diff"] else []
    done = gputop(*words, str(file), *twice, directory=short_dir, preexec_fn=without_privilege)
    assert done.returncode == 3
    assert done.stderr == f"gputop: {file} can't be read: permission denied; may you read it?\n"


@pytest.mark.parametrize(("command", "code"), [("/no/such/command", 127), ("/etc/hostname", 126)])
def test_a_command_that_cannot_be_started_leaves_neither_file_nor_recorder(
    command: str, code: int, short_dir: Path, file: Path
) -> None:
    done = gputop("run", "--record", str(file), "--", command, directory=short_dir)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    until(lambda: not list(file.parent.iterdir()))
    until(lambda: not list(short_dir.glob("view-*")))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_what_ends_it_before_the_command_leaves_neither_file_nor_recorder(
    number: signal.Signals, short_dir: Path, file: Path
) -> None:
    script = (
        "import os, time; from gputop.cli import detached, main\n"
        "def answer(ready):\n"
        f"    while not os.path.exists({str(file)!r}): time.sleep(0.01)\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        f"detached._answer = answer; main(['run', '--record', {str(file)!r}, '--', 'true'])"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment(short_dir), timeout=150, check=False)
    assert done.returncode == (130 if number == signal.SIGINT else -number)
    until(lambda: not list(file.parent.iterdir()))
    until(lambda: not list(short_dir.glob("view-*")))


def test_a_signal_in_its_first_moments_leaves_no_file_unless_the_command_began(short_dir: Path, tmp_path: Path) -> None:
    began, children = set(), []
    for number, delay_ms in zip([signal.SIGTERM, signal.SIGHUP, signal.SIGINT] * 2, range(50, 1000, 150), strict=False):
        line = [sys.executable, "-m", "gputop", "run", "--record", tmp_path / f"{delay_ms}.gputop", "--", "sleep", "60"]
        child = subprocess.Popen(line, env=environment(short_dir), stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(delay_ms / 1000)
        if Path(f"/proc/{child.pid}/cmdline").read_bytes() == b"sleep\x0060\0":
            began.add(f"{delay_ms}.gputop")
        os.killpg(child.pid, number)
        children.append(child)
    assert 0 not in [child.wait(60) for child in children]
    until(lambda: not list(short_dir.glob("view-*")))
    until(lambda: {one.name for one in tmp_path.iterdir()} == began)


def test_ctrl_c_reaches_the_training_and_the_recorder_hears_its_last_words(short_dir: Path, file: Path) -> None:
    line = [sys.executable, "-m", "gputop", "run", "--record", str(file), "--", sys.executable, str(LOOP), "60"]
    with subprocess.Popen(
        line, env=environment(short_dir), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        until(lambda: list(short_dir.glob("run-*.json")))
        time.sleep(0.7)
        os.killpg(child.pid, signal.SIGINT)
        assert child.communicate(timeout=150)[0] == "interrupted\n"
    assert child.returncode == 9
    opened = closed(file)
    assert opened.info().runs[0].ended == "ended"
    opened.close()


@pytest.mark.slow
def test_a_training_that_is_killed_is_recorded_as_lost(short_dir: Path, file: Path) -> None:
    line = [sys.executable, "-m", "gputop", "run", "--record", str(file), "--", sys.executable, str(LOOP), "60"]
    with subprocess.Popen(line, env=environment(short_dir), stdout=subprocess.DEVNULL) as child:
        until(lambda: list(short_dir.glob("run-*.json")))
        time.sleep(0.7)
        child.kill()
        child.wait()
    opened = closed(file)
    assert opened.info().runs[0].ended == "lost"
    opened.close()


def test_a_torch_loop_is_recorded_unchanged(short_dir: Path, file: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "gputop",
        "run",
        "--record",
        str(file),
        "--",
        sys.executable,
        str(TORCH_LOOP),
        "plain",
    ]
    with subprocess.Popen(line, env=environment(short_dir), stdout=subprocess.DEVNULL) as child:
        until(lambda: list(short_dir.glob("run-*.json")), seconds=60)
        time.sleep(2)
        child.terminate()
        assert child.wait(60) == -signal.SIGTERM
    opened = closed(file)
    (span,) = opened.info().runs
    assert span.steps > 10
    assert span.run.framework == "torch"
    assert opened.verdicts()
    opened.close()


@pytest.mark.slow
def test_both_ranks_of_torchrun_are_recorded(short_dir: Path, file: Path, tmp_path: Path) -> None:
    script = tmp_path.parent / f"{tmp_path.name}-train.py"
    script.write_text(
        "import torch, time\n"
        "torch.distributed.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for x in torch.utils.data.DataLoader(torch.randn(400, 8), batch_size=4):\n"
        "    model(x).sum().backward(); optimizer.step(); optimizer.zero_grad(); time.sleep(0.02)\n"
        "torch.distributed.destroy_process_group()\n"
    )
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    words = [torchrun, "--standalone", "--nproc-per-node", "2", str(script)]
    done = gputop("run", "--record", str(file), "--", *words, directory=short_dir, timeout=150)
    assert done.returncode == 0, done.stderr
    opened = closed(file)
    spans = opened.info().runs
    assert sorted(span.run.rank for span in spans if span.run.rank is not None) == [0, 1]
    assert all(span.ended == "ended" and span.steps > 50 for span in spans)
    opened.close()
    script.unlink()


def viewed(*runs: tuple[str, str, int]) -> View:
    """A view of runs by id, state and pid."""
    return View(
        now_ns=0,
        source="live",
        hostname="",
        column_ns=1,
        last_column=0,
        started_ns=0,
        runs=tuple(
            RunView(
                run=Run(t=0, run_id=run_id, pid=pid, host=os.uname().nodename),
                state=state,
                verdict=Verdict(t=0, run_id=run_id, cause="unknown", family="unknown", headline="", confidence=0.0),
            )
            for run_id, state, pid in runs
        ),
    )


def test_only_the_commands_own_runs_are_marked_and_each_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        ending = Ending(command=detached.token(child.pid))
        view = viewed(("neighbour", "training", os.getpid()), ("own", "training", child.pid))
        assert [(mark.kind, mark.run_id) for mark in ending.marks(view)] == [("recorded", "own")]
        assert ending.marks(view) == []
        child.communicate(b"\n")
    gone = Ending(command=f"{child.pid}:1")
    assert [mark.run_id for mark in gone.marks(view)] == ["own"], "it was over before it was first seen"
    assert Ending(seconds=1).marks(view) == []


def test_a_run_that_ends_or_is_gone_again_is_the_end() -> None:
    ending = Ending(run_id="a")
    assert not ending.over(viewed())
    assert not ending.over(viewed(("a", "training", 1)))
    assert ending.over(viewed(("a", "ended", 1)))
    assert ending.over(viewed())


def test_a_process_that_nobody_has_waited_for_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.cli.ending.SETTLE_S", 0.0)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        ending = Ending(command=detached.token(child.pid))
        assert not ending.over(viewed())
        assert child.stdin is not None
        child.stdin.close()
        until(lambda: ending.over(viewed()))
        assert child.returncode is None


def test_runs_that_a_command_started_outlive_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.cli.ending.SETTLE_S", 0.0)
    ending = Ending(command="999999999:1")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={detached.COMMAND: "999999999:1"}) as child:
        until(lambda: started_by(child.pid, "999999999:1"))
        own, other = ("a", "training", child.pid), ("b", "training", os.getpid())
        assert not ending.over(viewed(own, other))
        assert ending.over(viewed(("a", "lost", child.pid), other))
        child.kill()


def test_a_process_is_its_pid_and_start() -> None:
    assert started_by(os.getpid(), detached.token())
    assert not started_by(os.getpid(), f"{os.getpid()}:1")
    assert not started_by(2**22 + 1, "1:1")


@pytest.mark.parametrize("script", re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
def test_the_scripts_of_the_page_parse(script: str) -> None:
    assert script.startswith("#!/bin/bash\n#SBATCH ")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_the_unit_of_the_page_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    unit = tmp_path / "gputop-record.service"
    unit.write_text(found[1])
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, "gputop" in done.stderr) == (0, False), done.stderr
