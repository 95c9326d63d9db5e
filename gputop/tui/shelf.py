"""The recordings that lie at hand: found in the current folder and in gputop's own, and opened beside what is live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from gputop.feed import Feed
from gputop.recording.errors import Unreadable
from gputop.recording.reader import Recording
from gputop.sources.opening import open_recording
from gputop.sources.replay import ReplaySource
from gputop.tui.draw.sight import name_of
from gputop.tui.kept import Kept

MOST = 200
"""Recordings listed, the newest."""

FIRST_S = 0.3
"""How long the first picture of a recording is waited for."""


def found(folders: Iterable[Path]) -> Iterator[list[Kept]]:
    """The recordings in these folders, the newest first: at once by name and size, then again as each was read."""
    files = _files(folders)
    shelf = [Kept(path=str(path), size=size, changed_s=changed) for path, size, changed in files]
    yield list(shelf)
    for index, kept in enumerate(shelf):
        shelf[index] = read(kept)
        yield list(shelf)


def _files(folders: Iterable[Path]) -> list[tuple[Path, int, float]]:
    out: dict[Path, tuple[int, float]] = {}
    for folder in folders:
        with suppress(OSError):
            for path in folder.glob("*.gputop"):
                with suppress(OSError):
                    status = path.stat()
                    out.setdefault(path.resolve(), (status.st_size, status.st_mtime))
    newest = sorted(out.items(), key=lambda one: (-one[1][1], str(one[0])))[:MOST]
    return [(path, size, changed) for path, (size, changed) in newest]


def read(kept: Kept) -> Kept:
    """The same with what is in it."""
    try:
        recording = Recording(Path(kept.path))
        try:
            info = recording.info()
        finally:
            recording.close()
    except Unreadable as error:
        return msgspec.structs.replace(kept, fault=str(error).replace(kept.path, Path(kept.path).name))
    except OSError as error:
        return msgspec.structs.replace(kept, fault=(error.strerror or str(error)).lower())
    except Exception as error:  # whatever ails one file, the others are listed
        return msgspec.structs.replace(kept, fault=f"{type(error).__name__}: {error}")
    scripts = dict.fromkeys(name_of(one.run, 60) for one in info.runs)
    state = "being written" if info.being_written else "" if info.closed else "cut off"
    return msgspec.structs.replace(
        kept, from_ns=info.from_ns, long_ns=max(0, info.to_ns - info.from_ns), steps=info.steps,
        scripts=tuple(scripts), hosts=info.hosts, simulated=info.simulated,
        state=state if info.records else "empty",
    )  # fmt: skip


def open_replay(path: Path, refresh_s: float) -> Feed:
    """A recording as a picture that plays from its beginning. Raises Unreadable, with a sentence."""
    recording = open_recording(path)
    try:
        info = recording.info()
        if info.records == 0:
            raise Unreadable(f"{path.name} holds no record yet")
        source = ReplaySource(recording)
    except BaseException:
        recording.close()
        raise
    feed = Feed(source, hostname=", ".join(info.hosts), refresh_s=refresh_s).start()
    feed.wait(feed.view(), FIRST_S)
    return feed
