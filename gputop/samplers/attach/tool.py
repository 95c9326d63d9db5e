"""py-spy, the program that reads another process's stacks: where it is, how it is run, and what its refusals mean."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from gputop.samplers import proc

RATE_HZ = 100
"""Samples a second: 3 to 4 % of a core, and steps from some 60 ms on are told apart."""

INSTALL = "pip install 'gputop-live[attach]'"

CAP_SYS_PTRACE = 19
"""The capability's bit (linux/capability.h): with it any process that is ours to see may be traced."""

SCOPES = {
    0: "any process of the same user may be traced",
    1: "only children may be traced",
    2: "only an administrator may trace",
    3: "nobody may trace until the next boot",
}
"""Yama's ptrace_scope (source: the kernel's admin-guide/LSM/Yama)."""


class Refused(Exception):  # noqa: N818
    """A process can't be sampled: why, and what to do about it."""

    def __init__(self, why: str, mend: str | None = None) -> None:
        super().__init__(f"{why}: {mend}" if mend else why)
        self.why = why
        self.mend = mend


def find() -> str | None:
    """The py-spy of this installation, else the one on PATH; None where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def command(tool: str, pid: int, seconds: float, out: str, *, rate_hz: int = RATE_HZ, idle: bool = True) -> list[str]:
    """The command that samples for some seconds and writes when each thread's stack changed.

    The process is never paused (`--nonblocking`): a torn sample is thrown away instead. `idle`: threads that wait too.
    """
    words = [tool, "record", "--pid", str(pid), "--duration", f"{max(1, round(seconds))}", "--rate", str(rate_hz)]
    words += ["--format", "chrometrace", "--threads", "--full-filenames", "--nonblocking", "--output", out]
    return [*words, "--idle"] if idle else words


def check(pid: int, tool: str | None = None) -> str:
    """The py-spy to use on a process. Raises Refused for what can be known without trying."""
    try:
        stat = proc.of(pid)
    except FileNotFoundError:
        raise Refused(f"there is no process {pid} here") from None
    except (OSError, ValueError):
        raise Refused(f"process {pid} can't be read", "run gputop as the user who trains") from None
    if stat.state == "Z":
        raise Refused(f"process {pid} has ended")
    if not _has_python(pid):
        raise Refused(f"process {pid} ({stat.name}) is no Python process", "name the pid of the training itself")
    tool = tool or find()
    if tool is None:
        raise Refused("py-spy, which reads the stacks of other processes, is not installed", INSTALL)
    return tool


def refusal(said: str, pid: int) -> Refused:
    """What py-spy's last words mean."""
    low = said.lower()
    if "permission denied" in low or "operation not permitted" in low:
        return not_allowed(pid)
    if "python version" in low or "interpreter" in low:
        return Refused(f"py-spy finds no Python that it knows in process {pid}", "pip install --upgrade py-spy")
    if "no such file" in low or "no such process" in low or "is running" in low:
        return Refused(f"process {pid} has ended")
    first = next((line for line in said.splitlines() if line.strip()), "no reason was given")
    return Refused(f"py-spy can't sample process {pid}: {first.removeprefix('Error: ').strip()}")


def not_allowed(pid: int) -> Refused:
    """Why the kernel forbids reading a process's memory, by what is known of the rules here."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        owner = os.getuid()
    if owner != os.getuid() and os.getuid() != 0:
        return Refused(
            f"process {pid} belongs to {proc.user(pid)}, not to you", "run gputop as that user, or with sudo"
        )
    scope = ptrace_scope()
    if scope == 3:
        return Refused("this system lets nobody read another process (kernel.yama.ptrace_scope is 3)", "reboot with 1")
    if scope:
        return Refused(
            f"reading another process is not allowed here: {SCOPES.get(scope, 'it is restricted')} "
            f"(kernel.yama.ptrace_scope is {scope})",
            "run it with sudo, or allow it until the next boot: sudo sysctl kernel.yama.ptrace_scope=0",
        )
    return Refused(
        "reading another process is not allowed here (a container, or a process that gave itself other rights)",
        "start the container with --cap-add=SYS_PTRACE, or run gputop outside of it with sudo",
    )


def ptrace_scope() -> int | None:
    """Yama's rule, None where the kernel has none."""
    try:
        return int(proc.read("/proc/sys/kernel/yama/ptrace_scope", 8))
    except (OSError, ValueError):
        return None


def has_capability(bit: int) -> bool:
    """Whether this process has a capability."""
    try:
        for line in proc.read("/proc/self/status", 4096).splitlines():
            if line.startswith(b"CapEff:"):
                return bool(int(line.split()[1], 16) >> bit & 1)
    except (OSError, ValueError):
        pass
    return False


def _has_python(pid: int) -> bool:
    """Whether the process runs Python, by its program or a library of that name; True where that can't be seen."""
    try:
        if "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe")).lower():
            return True
        with open(f"/proc/{pid}/maps", "rb") as file:
            return any(b"libpython" in line or b"/python" in line for line in file)
    except OSError:
        return True


def last_words(errors: Sequence[bytes]) -> str:
    """What was written to stderr, as text, without the progress."""
    text = b"".join(errors).decode("utf-8", "replace")
    return "\n".join(line for line in text.splitlines() if not line.startswith("py-spy>"))
