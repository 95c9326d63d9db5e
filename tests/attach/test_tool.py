"""What stands in the way of reading another process is said plainly, with how to allow it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gputop.samplers.attach import tool

DENIED = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'"
NO_PYTHON = "Error: Failed to find python version from target process\n\nStack backtrace:\n   0: anyhow"
GONE = (
    "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
    "    0: No such file or directory (os error 2)"
)


def refused(pid: int, program: str | None = "py-spy") -> tool.Refused:
    with pytest.raises(tool.Refused) as caught:
        tool.check(pid, program)
    return caught.value


def test_a_process_that_is_not_there() -> None:
    assert "no process 4194301" in str(refused(4_194_301))


def test_a_process_that_is_no_python() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        try:
            assert "is no Python process" in str(refused(child.pid))
        finally:
            child.kill()


def test_a_process_that_has_ended_and_was_not_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert "has ended" in str(refused(child.pid))


def test_without_py_spy_the_pip_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "find", lambda: None)
    assert "pip install 'gputop-live[attach]'" in str(refused(os.getpid(), None))


@pytest.mark.parametrize(
    ("scope", "why", "mend"),
    [
        (1, "only children may be traced", "sysctl kernel.yama.ptrace_scope=0"),
        (2, "only an administrator may trace", "sudo"),
        (3, "lets nobody read another process", "reboot"),
        (0, "a container", "--cap-add=SYS_PTRACE"),
        (None, "a container", "--cap-add=SYS_PTRACE"),
    ],
)
def test_a_refused_ptrace_says_by_what_rule_and_how_to_allow_it(
    monkeypatch: pytest.MonkeyPatch, scope: int | None, why: str, mend: str
) -> None:
    monkeypatch.setattr(tool, "ptrace_scope", lambda: scope)
    said = tool.refusal(DENIED, os.getpid())
    assert why in said.why
    assert mend in (said.mend or "")


def test_another_users_process_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert "not to you" in tool.refusal(DENIED, os.getpid()).why


def test_other_last_words() -> None:
    assert "has ended" in tool.refusal(GONE, 7).why
    assert tool.refusal(NO_PYTHON, 7).mend == "pip install --upgrade py-spy"
    assert "went wrong" in tool.refusal("Error: it went wrong\nStack backtrace:", 7).why
    assert "no reason" in tool.refusal("", 7).why


def test_progress_is_no_last_word() -> None:
    assert tool.last_words([b"py-spy> Sampling process\nError: x\n"]) == "Error: x"


def test_the_process_is_never_paused() -> None:
    words = tool.command("py-spy", 7, 2.0, "/x/out")
    assert "--nonblocking" in words
    assert words[words.index("--pid") + 1] == "7"
