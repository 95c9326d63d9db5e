"""`gputop doctor`: what works here and what doesn't, each with its mend."""

from __future__ import annotations

import importlib.metadata
import json
import locale
import os
import platform
import sys
from typing import Any

import click

from gputop.cli import characters
from gputop.cli.options import debug_option
from gputop.records import clean
from gputop.samplers.doctor import Check, checks
from gputop.wire import cards, places

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "info": "    "}


@click.command()
@debug_option
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--bundle", is_flag=True, help="Answer with all that a bug report needs, to be pasted into it.")
@click.option("--private", is_flag=True, help="With --bundle: leave user names, host names and paths in.")
def command(as_json: bool, bundle: bool, private: bool) -> int:
    """Check what works here and what doesn't; each finding comes with its mend.

    Exits with 1 when a check failed. A machine without a GPU is no failure.
    """
    if as_json and bundle:
        raise click.UsageError("--json and --bundle are two answers; choose one")
    if private and not bundle:
        raise click.UsageError("--private goes with --bundle")
    found = [*_versions(), *checks(), *_meeting(), *_publishers(), *_terminal()]
    failed = any(check.state == "fail" for check in found)
    if as_json:
        json.dump({"schema": 1, "ok": not failed, "checks": [_plain(check) for check in found]}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return int(failed)
    if bundle:
        from gputop.cli.bundle import Bundle

        click.echo(Bundle(found, private=private).text(), nl=False)
        return int(failed)
    width = max(len(check.name) for check in found)
    for check in found:
        click.echo(f"{MARKS[check.state]}  {check.name:{width}}  {clean(check.finding, 300)}")
        if check.mend:
            click.echo(f"      {'':{width}}  → {clean(check.mend, 300)}")
    return int(failed)


def _plain(check: Check) -> dict[str, Any]:
    return {"name": check.name, "state": check.state, "finding": check.finding, "mend": check.mend}


def _versions() -> list[Check]:
    from gputop import __version__

    parts = []
    for name in ("textual", "pyzmq", "msgspec", "psutil", "nvidia-ml-py"):
        try:
            parts.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            return [Check("installation", "fail", f"{name} is not installed", "pip install --upgrade gputop-live")]
    where = f"Python {platform.python_version()} on {platform.system()} {platform.release()}"
    return [Check("gputop", "ok", f"{__version__}, {where}; {', '.join(parts)}")]


def _meeting() -> list[Check]:
    found = []
    usable = False
    for path, source in places.candidates():
        place = places.inspect(path, source)
        if not place.usable and not path.exists():
            place = places.prepare(path, source) if not usable else place
        usable |= place.usable
        state = "ok" if place.usable else "info"
        found.append(Check("meeting place", state, f"{path} ({source})" + (f": {place.why}" if place.why else "")))
    if not usable:
        mend = "set GPUTOP_DIR to a short private directory, the same for the training and for gputop"
        found.append(Check("meeting place", "fail", "none can be used: no training can be found", mend))
    if os.environ.get("GPUTOP") == "0":
        mend = "unset GPUTOP in the training's environment"
        found.append(Check("GPUTOP", "warn", "is 0: trainings started from this shell publish nothing", mend))
    return found


def _publishers() -> list[Check]:
    directories = [place.path for place in places.reading_places()]
    runs = cards.find("run", directories)
    viewers = cards.find("view", directories)
    if not runs:
        mend = "start one with  gputop run -- python train.py  or add  import gputop; gputop.watch()  to the script"
        return [Check("trainings", "info", "no training with a publisher is running", mend)]
    found = []
    for one in runs:
        words = f"process {one.card.pid}" + (f", {os.path.basename(one.card.script)}" if one.card.script else "")
        version = f", gputop {one.card.version}" if one.card.version else ""
        found.append(Check("training", "ok", f"{words}{version} (in {one.path.parent})"))
    if viewers:
        found.append(Check("viewers", "info", f"{len(viewers)} open"))
    return found


def _terminal() -> list[Check]:
    term = os.environ.get("TERM", "")
    found = []
    tty = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if not tty:
        found.append(Check("terminal", "info", "none here (a pipe): gputop answers in plain text"))
    elif term in ("", "dumb"):
        mend = "set TERM to what the terminal is, e.g. xterm-256color"
        found.append(Check("terminal", "warn", f"TERM is {term or 'not set'}: plain text only", mend))
    else:
        size = os.get_terminal_size()
        colors = os.environ.get("COLORTERM") or "as TERM says"
        found.append(Check("terminal", "ok", f"{term}, {size.columns}x{size.lines}, colours: {colors}"))
    encoding = (sys.stderr.encoding or "").lower() if sys.stderr is not None else ""
    encoding = "ascii" if encoding == characters.ASCII else encoding  # our own, with the nearest characters
    if encoding.replace("-", "") != "utf8":
        mend = "export LC_ALL=C.UTF-8, or use --ascii"
        found.append(Check("locale", "warn", f"{locale.setlocale(locale.LC_CTYPE)} ({encoding}): drawn in ASCII", mend))
    else:
        found.append(Check("locale", "ok", f"{locale.setlocale(locale.LC_CTYPE)} ({encoding})"))
    return found
