"""The publisher loaded into a running process: what it says back, and what stands in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.samplers.attach import identity, injection, tool


def process_with(folder: Path, gputop: str | None) -> Callable[[int, str], None]:
    """Runs the script as the other process would, in a Python of its own whose gputop is this text (None: none)."""
    if gputop is not None:
        (folder / "gputop.py").write_text(gputop)

    def run(_pid: int, script: str) -> None:
        code = f"exec(open({script!r}).read()); assert '_gputop_arm' not in globals()"
        subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(folder)}, check=True, cwd=folder)

    return run


def refused(**more: object) -> tool.Refused:
    with pytest.raises(tool.Refused) as caught:
        injection.inject(os.getpid(), pause=lambda _s: None, **more)  # type: ignore[arg-type]
    return caught.value


def test_a_process_that_loads_it_is_watched(tmp_path: Path) -> None:
    armed = tmp_path / "armed"
    run = process_with(tmp_path, f"def watch(): open({str(armed)!r}, 'w').close()")
    injection.inject(os.getpid(), run=run)
    assert armed.exists()


def test_without_gputop_in_its_environment_the_pip_command_is_named(tmp_path: Path) -> None:
    said = refused(run=process_with(tmp_path, None))
    assert "not installed in its environment" in said.why
    assert said.mend == "pip install gputop-live"


def test_a_fault_in_it_is_told_and_never_raised_into_the_process(tmp_path: Path) -> None:
    assert "RuntimeError('odd')" in refused(run=process_with(tmp_path, "def watch(): raise RuntimeError('odd')")).why


def test_a_process_that_never_comes_to_it(tmp_path: Path) -> None:
    assert "one long call" in refused(run=lambda _pid, _script: None).why


@pytest.mark.parametrize("error", [PermissionError(), OSError("no such process"), RuntimeError("no debug offsets")])
def test_a_refusal_of_the_interpreter_is_a_sentence(error: Exception) -> None:
    def run(_pid: int, _script: str) -> None:
        raise error

    assert refused(run=run).why


def test_what_stands_in_the_way_is_known_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "remote_exec", raising=False)
    assert "from 3.14 on" in str(injection.obstacle(os.getpid()))
    monkeypatch.setattr(sys, "remote_exec", print, raising=False)
    monkeypatch.setattr(identity, "python", lambda _pid: "2.7")
    assert "runs Python 2.7" in str(injection.obstacle(os.getpid()))
    monkeypatch.setattr(identity, "python", lambda _pid: None)
    monkeypatch.setattr(identity, "environment", lambda _pid: {"PYTHON_DISABLE_REMOTE_DEBUG": "1"})
    assert "DISABLE" in str(injection.obstacle(os.getpid()))
    monkeypatch.setattr(identity, "environment", lambda _pid: {})
    assert injection.obstacle(os.getpid()) is None
