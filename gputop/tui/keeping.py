"""Keeping what is on the screen: the verdict as text, the screen as a picture, in the person's state folder."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from gputop.records import clean
from gputop.tui.draw.extras import threshold_text, value_text
from gputop.tui.draw.sight import name_of, rank_of
from gputop.tui.draw.verdict import outlook
from gputop.tui.options import Picture
from gputop.view import RunView, View


def folder() -> Path:
    """$XDG_STATE_HOME/gputop, else ~/.local/state/gputop; made if absent. Raises OSError."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = Path(base) / "gputop"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def folders() -> list[Path]:
    """Where recordings lie that were begun here or with R: the current folder and gputop's own."""
    out = []
    for place in (Path.cwd, folder):
        with suppress(OSError):
            out.append(place())
    return out


def verdict_text(run: RunView, view: View) -> str:
    """The verdict with its evidence and advice, as one would paste it into a ticket."""
    verdict = run.verdict
    title = " ".join(
        part for part in (name_of(run.run, 80), rank_of(run.run), f"on {clean(view.hostname, 80)}") if part
    )
    lines = [
        f"{title}: {verdict.cause}" + (" (simulated GPU)" if view.simulated or verdict.simulated else ""),
        clean(verdict.headline, 500),
        ", ".join(outlook(run, verdict, view.now_ns)),
    ]
    lines += [
        f"  {'+' if e.supports else '-'} {clean(e.signal, 200)}: {value_text(e)} {threshold_text(e)}".rstrip()
        for e in verdict.evidence
    ]
    for item in verdict.advice:
        lines.append(f"-> {clean(item.do, 300)}" + (f" ({clean(item.why, 300)})" if item.why else ""))
        if item.code:
            lines += [f"   {clean(row, 300)}" for row in item.code.splitlines()]
    lines += [f"note: {clean(notice, 300)}" for notice in verdict.notices]
    return "\n".join(lines) + "\n"


def keep_verdict(run: RunView, view: View) -> tuple[str, str]:
    """The text to copy, and a sentence that says where else it is."""
    text = verdict_text(run, view)
    try:
        path = folder() / "verdict.txt"
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        return text, f"copied; not written: {error.strerror}"
    return text, f"copied, and in {short(path)}"


def keep_picture(svg: str) -> str:
    """Writes the picture and says where it is."""
    try:
        path = folder() / time.strftime("screen-%Y%m%d-%H%M%S.svg")
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        return f"no snapshot: {error.strerror}"
    return f"saved {short(path)}"


def begin_recording(picture: Picture, *, cmdlines: bool) -> str:
    """Begins a recording of the picture and says where, or why it can't."""
    from gputop.recording.errors import Busy, Unreadable
    from gputop.recording.naming import default_path
    from gputop.recording.recorder import Recorder

    why = "no place to write to"
    for place in (Path.cwd, folder):
        try:
            path = default_path(time.time_ns(), place())
            picture.record(Recorder(path, cmdlines=cmdlines).start())
            return f"recording into {short(path)}; R ends it"
        except OSError as error:
            why = (error.strerror or "can't be written").lower()
        except (Busy, Unreadable) as error:
            return f"no recording: {error}"
        except Exception as error:  # whatever it is, it costs the recording only, not the screen
            return f"no recording: {type(error).__name__}: {error}"
    return f"no recording: {why}"


def why_no_profile(run: RunView | None, view: View) -> str:
    """Why the run can't be asked to profile itself; "" where it can."""
    if run is None:
        return "no training to profile yet"
    if view.cursor is not None and view.cursor.replay:
        return "a recording can't be asked for a profile; what it holds of one is on w"
    if run.run.sampled:
        return "it is watched from outside: only a training with a publisher can profile itself"
    return "" if run.state == "training" else f"no profile: this training is {clean(run.state, 20)}"


def short(path: Path) -> str:
    """A path that fits: from the home directory on where it is in there, and rather its end than its beginning."""
    home = os.path.expanduser("~")
    text = str(path)
    text = clean("~" + text[len(home) :] if text.startswith(home + os.sep) else text, 1000)
    if len(text) <= MOST_PATH:
        return text
    begins = [at for at, char in enumerate(text) if char == os.sep and len(text) - at < MOST_PATH]
    return "…" + (text[begins[0] :] if begins else text[1 - MOST_PATH :])


MOST_PATH = 44
"""Characters of a path in the last line: beside it there must be room for what was done. Of a longer one the folders
that fit are told whole."""
