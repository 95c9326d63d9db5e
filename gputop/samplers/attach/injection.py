"""Loading the publisher into a process that runs already: Python 3.14's own way to run a file in another process.

It changes the process, so it is done only on request. The process runs the file between two of its own instructions, in
its main thread, and must have gputop in its own environment.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from gputop.samplers.attach import identity, tool

PATIENCE_S = 10.0
"""How long the process may take to get there: it must leave what it does in C first (a long kernel, a wait)."""

DISABLED = "PYTHON_DISABLE_REMOTE_DEBUG"

SCRIPT = """
def _gputop_arm(report):
    import json
    import os

    try:
        import gputop

        gputop.watch()
        said = {{"ok": True}}
    except ImportError:
        said = {{"ok": False, "why": "gputop is not installed in its environment", "mend": "pip install gputop-live"}}
    except BaseException as error:
        said = {{"ok": False, "why": repr(error)[:300]}}
    with open(report + ".new", "w") as file:
        json.dump(said, file)
    os.replace(report + ".new", report)


try:
    _gputop_arm({report!r})
except BaseException:
    pass
finally:
    del _gputop_arm
"""


def obstacle(pid: int) -> tool.Refused | None:
    """What stands in the way, as far as that can be known without trying; None where nothing does."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not hasattr(sys, "remote_exec"):
        return tool.Refused(f"gputop runs under Python {here}; a publisher can be injected from 3.14 on")
    there = identity.python(pid)
    if there is not None and there != here:
        return tool.Refused(f"process {pid} runs Python {there}, gputop {here}", "run gputop from its environment")
    if identity.environment(pid).get(DISABLED):
        return tool.Refused(f"process {pid} was started with {DISABLED}")
    return None


def inject(
    pid: int, *, run: Callable[[int, str], Any] | None = None, pause: Callable[[float], None] = time.sleep
) -> None:
    """Have a process load the publisher; waits until it has. Raises Refused."""
    if run is None:
        if (refused := obstacle(pid)) is not None:
            raise refused
        run = sys.remote_exec  # type: ignore[attr-defined,unused-ignore]
    folder = tempfile.mkdtemp(prefix="gputop-inject-")
    try:
        script, report = os.path.join(folder, "arm.py"), os.path.join(folder, "report")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(report=report))
        try:
            run(pid, script)
        except PermissionError:
            raise tool.not_allowed(pid) from None
        except (OSError, RuntimeError, ValueError) as error:
            raise tool.Refused(f"process {pid} can't be told to load anything: {error}") from None
        said = _await(report, pid, pause)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not said.get("ok"):
        raise tool.Refused(f"process {pid} could not load the publisher: {said.get('why')}", said.get("mend"))


def _await(report: str, pid: int, pause: Callable[[float], None]) -> dict[str, Any]:
    for _ in range(int(PATIENCE_S / 0.05)):
        if os.path.exists(report):
            with open(report, encoding="utf-8") as file:
                said: dict[str, Any] = json.load(file)
                return said
        pause(0.05)
    raise tool.Refused(f"process {pid} has not come to it in {PATIENCE_S:g} s: it is in one long call, or stopped")
