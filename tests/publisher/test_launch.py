"""What `gputop run` does to a command: its environment, its exit status, its start-up file, the import hook."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gputop.publisher import launch
from gputop.publisher.importhook import when_imported


def test_the_folder_goes_first_and_what_was_there_stays() -> None:
    env = launch.prepare_env({"PYTHONPATH": "/a:/b", "X": "1"}, ["syncs", "loader"])
    assert env["PYTHONPATH"].split(os.pathsep) == [launch.INJECT, "/a", "/b"]
    assert env["GPUTOP_NO_HOOKS"] == "syncs,loader"
    assert env["X"] == "1"
    assert launch.prepare_env(env)["PYTHONPATH"] == env["PYTHONPATH"], "run inside run"
    assert launch.prepare_env({})["PYTHONPATH"] == launch.INJECT


def test_the_folder_holds_the_start_up_file_alone() -> None:
    names = [name for name in os.listdir(launch.INJECT) if name != "__pycache__"]
    assert names == ["sitecustomize.py"]


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (["python", "train.py"], None),
        (["python3.12", "-I", "train.py"], "-I"),
        (["/usr/bin/python3", "-u", "-sE", "train.py"], "-E"),
        (["python", "-S", "-m", "x"], "-S"),
        (["python", "-W", "ignore", "-I", "x.py"], "-I"),
        (["python", "-Wignore", "x.py", "-I"], None),
        (["python", "-m", "torch.distributed.run", "-I"], None),
        (["python", "-c", "print()", "-E"], None),
        (["torchrun", "-I"], None),
        ([], None),
    ],
)
def test_isolated_interpreters_are_named(argv: list[str], option: str | None) -> None:
    assert launch.isolating_option(argv) == option


def exec_in_child(argv: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    code = (
        f"import os; from gputop.publisher import launch; launch.exec_command({argv!r}, launch.prepare_env(os.environ))"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=150,
        check=False,
    )


def test_exit_status_and_output_are_the_commands_own(tmp_path: Path) -> None:
    assert exec_in_child(["sh", "-c", "echo out; echo err >&2; exit 5"]).returncode == 5
    done = exec_in_child(["sh", "-c", "kill -TERM $$"])
    assert done.returncode == -15
    missing = exec_in_child(["no-such-command-at-all"])
    assert (missing.returncode, missing.stderr.count("\n")) == (127, 1)
    plain = tmp_path / "plain.txt"
    plain.write_text("x")
    refused = exec_in_child([str(plain)])
    assert refused.returncode == 126
    assert "Traceback" not in refused.stderr + missing.stderr


def test_a_script_given_as_a_program_is_answered_with_how_it_is_run(tmp_path: Path) -> None:
    script = tmp_path / "my train.py"
    script.write_text("print('hi')")
    refused = exec_in_child([str(script), "--lr", "1"])
    assert (refused.returncode, refused.stderr.count("\n")) == (126, 1)
    assert f"gputop run -- python '{script}' --lr 1" in refused.stderr


def test_a_broken_pipe_ends_the_command_as_it_would_have() -> None:
    done = exec_in_child(["sh", "-c", "yes | head -n 1; echo ${PIPESTATUS:-ok}"])
    assert done.stderr == ""


def test_another_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['OTHER'] = 'ran'")
    code = """
import os, sys, sitecustomize
print(os.environ.get('OTHER'), sitecustomize.__file__, any('inject' in p for p in sys.path))
"""
    done = exec_in_child([sys.executable, "-c", code], PYTHONPATH=str(tmp_path))
    assert done.stdout.split() == ["ran", str(tmp_path / "sitecustomize.py"), "False"]


FAKE_TORCH = """
import sys
loaded_by = type(__loader__).__name__, type(__spec__.loader).__name__
"""


def test_where_gputop_is_missing_one_line_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    script = tmp_path / "script.py"
    script.write_text("import torch; print(torch.loaded_by)")
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if not bare.exists():
        pytest.skip("no interpreter without gputop here")
    done = subprocess.run(
        [str(bare), str(script)],
        env=launch.prepare_env({"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}),
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    assert done.stdout.strip() == "('SourceFileLoader', 'SourceFileLoader')"
    assert done.stderr.count("\n") == 1
    assert "-m pip install --upgrade gputop-live" in done.stderr
    assert os.path.realpath(str(bare)) in os.path.realpath(done.stderr.split("run:")[1].split()[0])


def test_a_script_without_torch_is_left_alone(tmp_path: Path) -> None:
    code = "import sys; print(sorted(m for m in sys.modules if m.startswith(('gputop', 'zmq', 'msgspec'))))"
    assert exec_in_child([sys.executable, "-c", code]).stdout.strip() == "[]"


def test_acting_after_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "gt_probe_one.py").write_text("value = 1")
    (tmp_path / "gt_probe_two.py").write_text("value = 2")
    seen: list[object] = []
    before = list(sys.meta_path)
    when_imported("gt_probe_one", lambda: seen.append(sys.modules["gt_probe_one"].value))  # type: ignore[attr-defined]
    undo = when_imported("gt_probe_two", lambda: seen.append("never"))
    undo()
    import gt_probe_one  # type: ignore[import-not-found]
    import gt_probe_two  # type: ignore[import-not-found]  # noqa: F401

    assert seen == [1]
    assert type(gt_probe_one.__loader__).__name__ == "SourceFileLoader"
    when_imported("gt_probe_one", lambda: seen.append("at once"))
    assert seen == [1, "at once"]
    assert sys.meta_path == before


def test_a_module_that_fails_to_import_fails_as_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "gt_probe_bad.py").write_text(textwrap.dedent("raise OSError('as written')"))
    undo = when_imported("gt_probe_bad", lambda: None)
    with pytest.raises(OSError, match="as written"):
        import gt_probe_bad  # type: ignore[import-not-found]  # noqa: F401
    undo()
