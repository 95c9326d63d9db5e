"""The command line's promises: help, exit codes, one sentence for whatever goes wrong, never an escape in a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputop import __version__
from gputop.cli import run
from gputop.cli.commands import COMMANDS
from tests.cli.processes import environment, gputop

PLANNED = ("serve", "agent")


def test_help_lists_every_command_that_works_and_none_that_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    listed = shown.partition("Commands:")[2]
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert not any(f"  {name} " in listed for name in PLANNED)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: gputop " + name in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demp"], "did you mean 'demo'"),
        (["xyzzy"], "the commands are demo"),
        (["--nonsense"], "No such option"),
        (["report"], "Missing argument"),
        (["once", "--seconds", "soon"], "is not a valid number"),
        (["once", "--fail-on", "gremlins"], "no such cause"),
        (["demo", "atlantis"], "no scenario 'atlantis'"),
        (["run"], "say what to run"),
        (["run", "--"], "say what to run"),
        (["run", "--bogus", "--", "true"], "No such option"),
        (["run", "--no-hooks", "sync", "--", "true"], "no such hook"),
        (["once", "--seconds", "nan"], "not a number of use"),
        (["demo", "--speed", "nan"], "not a number of use"),
    ],
)
def test_usage_errors_are_2_and_say_what_is_wrong(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_3_and_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe nonsense\n")
    for path in (tmp_path / "none.jsonl", tmp_path, tmp_path / "bad"):
        assert run(["report", str(path)]) == 3
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert str(path) in said


def test_once_with_nothing_training_is_idle(short_dir: Path) -> None:
    done = gputop("once", "--seconds", "1", directory=short_dir)
    assert done.returncode == 0, done.stderr
    assert "IDLE" in done.stdout
    assert gputop("once", "--seconds", "0.3", "--fail-on", "idle", directory=short_dir).returncode == 1


@pytest.mark.parametrize("term", [pytest.param("dumb", marks=pytest.mark.slow), "xterm-256color"])
def test_without_a_terminal_there_is_plain_text_and_an_end(short_dir: Path, term: str) -> None:
    done = gputop(directory=short_dir, env={"TERM": term})
    assert done.returncode == 0, done.stderr
    assert "IDLE" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_reader_that_leaves_is_no_error(short_dir: Path) -> None:
    line = f"{sys.executable} -m gputop --help | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(short_dir), capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n0\n")
    assert done.stderr == ""


def test_no_place_to_meet_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = gputop("once", "--seconds", "0.5", directory=tmp_path / "file" / "in")
    assert done.returncode == 1
    assert "set GPUTOP_DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_in_a_question_is_130(short_dir: Path) -> None:
    import signal

    child = subprocess.Popen(
        [sys.executable, "-m", "gputop", "once", "--seconds", "30"],
        env=environment(short_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(short_dir.glob("view-*.json")):
        if child.poll() is not None:
            break
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=150)
    assert (child.returncode, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_stream_ends_normally_on_a_signal(short_dir: Path, number: str) -> None:
    import signal

    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "gputop", "--plain"],
        env=environment(short_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(getattr(signal, number))
    _, err = child.communicate(timeout=150)
    assert (child.returncode, err) == (0, "")
    assert not list(short_dir.glob("view-*"))


def test_imports_of_the_command_line_leave_the_screen_and_torch_alone() -> None:
    heavy = ("textual", "torch", "zmq", "psutil")
    script = f"import sys, gputop.cli.commands; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], ["doctor"], ["demo", "--list"]])
def test_the_reader_of_a_pipe_may_leave_early(short_dir: Path, words: list[str]) -> None:
    line = f"{sys.executable} -m gputop {' '.join(words)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(short_dir), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), ("<&-", 0)])
def test_closed_streams_are_no_error(short_dir: Path, closed: str, code: int) -> None:
    line = f"{sys.executable} -m gputop demo --list {closed}"
    done = subprocess.run(["bash", "-c", line], env=environment(short_dir), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_training_that_does_not_answer_is_not_called_idle(short_dir: Path) -> None:
    from gputop.wire import cards

    cards.write(cards.own_card("run", "silent"), short_dir)
    done = gputop("once", "--seconds", "2", directory=short_dir)
    assert "UNKNOWN" in done.stdout
    assert "does not answer" in done.stdout


def test_a_demo_with_an_end_ends(short_dir: Path) -> None:
    from tests.tui.ptys import Terminal

    with Terminal("demo", "--seconds", "2", module="gputop", env=environment(short_dir)) as terminal:
        assert terminal.ended(15)[0] == 0


def test_a_folder_that_is_gone_is_no_obstacle(short_dir: Path, tmp_path: Path) -> None:
    line = 'import os, sys; os.mkdir("x"); os.chdir("x"); os.rmdir("../x"); os.execv(sys.executable, sys.argv[1:])'
    command = [sys.executable, "-m", "gputop", "doctor", "--json"]
    env = {**environment(short_dir), "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(
        [sys.executable, "-c", line, *command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_doctor_calls_a_locale_by_its_own_encoding(short_dir: Path) -> None:
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    said = gputop("doctor", directory=short_dir, env=plain)
    assert "(ascii): drawn in ASCII" in said.stdout
    assert said.stdout.isascii()


def test_without_a_home_or_any_other_variable_the_machine_is_looked_at_all_the_same(short_dir: Path) -> None:
    bare = {"PYTHONPATH": str(Path(__file__).parents[2]), "GPUTOP_DIR": str(short_dir), "GPUTOP_DIR_ONLY": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "gputop", "once", "--seconds", "0.2", "--json"],
        env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["schema"] == 1
