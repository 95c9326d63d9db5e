"""What the screen offers to watch from outside: this user's Python processes that publish nothing, on a GPU, or busy
with a framework loaded."""

from __future__ import annotations

import os
from typing import NamedTuple

from gputop.pids import Pid
from gputop.records import clean
from gputop.samplers import proc
from gputop.sources.unannounced import PREFIX
from gputop.view import RunView, View, run_shown

PROGRAMS = ("python", "torchrun")


class Found(NamedTuple):
    """A process that can be attached to, the GPU that it is on or the framework that it has loaded. Its command line is
    not told: it may be private."""

    pid: int
    name: str
    gpu: int | None
    framework: str | None = None


def attachable(view: View, run_id: str | None = None) -> Found | None:
    """The run shown, where it is known from outside only; else the first process on a GPU that is not watched yet, then
    the first that computes without one. None where there is none, or the moment shown is past."""
    if view.cursor is not None and (view.cursor.replay or not view.cursor.live):
        return None
    shown = run_shown(view, run_id)
    if shown is not None and silent(shown):
        return Found(shown.run.pid, clean(shown.run.script or "process", 16), None)
    watched = [Pid(run.run.pid, run.run.start_ticks) for run in view.runs if not silent(run)]
    for gpu in view.gpus:
        for process in gpu.gpu.processes or ():
            name = (process.name or process.cmdline or "").split(" ")[0].rpartition("/")[2]
            pid = Pid(process.pid, process.start_ticks)
            known = any(pid.agrees(one) for one in watched)
            if name.startswith(PROGRAMS) and not known and may_trace(process.user):
                return Found(process.pid, clean(name, 16), gpu.gpu.gpu_index)
    for one in view.unwatched:
        pid = Pid(one.pid, one.start_ticks)
        if one.framework and not any(pid.agrees(run) for run in watched) and may_trace(one.user):
            return Found(one.pid, clean(one.name or "process", 16), None, clean(one.framework, 16))
    return None


def silent(run: RunView) -> bool:
    """Whether a run that goes on has no publisher and is not sampled: only the driver tells of it."""
    return run.run.run_id.startswith(PREFIX) and run.state not in ("ended", "lost")


def why_none(view: View) -> str:
    """Why there is nothing to attach to."""
    if view.cursor is not None and view.cursor.replay:
        return "a recording can't be attached to"
    return "no Python process of yours without a publisher is on a GPU or computes here; gputop attach PID takes any"


def may_trace(owner: str | None, uid: int | None = None) -> bool:
    """Whether a user (by default the one who looks) may trace a process, as far as its owner's name tells."""
    uid = os.getuid() if uid is None else uid
    return uid == 0 or owner is None or owner == proc.name_of(uid)
