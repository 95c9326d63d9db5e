"""The private directories where trainers and viewers of one user meet.

Written to the first usable one, read from all of them: cron, Slurm, sudo and containers disagree about the environment.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

MAX_SOCKET_PATH = 100
"""Bytes: a Unix socket's path must stay under sun_path's 108, with room for what ZeroMQ adds."""

SOCKET_NAME_BYTES = len("view-00000000.sock")


class Place(msgspec.Struct, frozen=True):
    """A directory as found: `usable` when ours and private, else `why` not, in words. `source` is who named it."""

    path: Path
    source: str
    usable: bool
    why: str | None = None


def candidates(uid: int | None = None, env: Mapping[str, str] = os.environ) -> list[tuple[Path, str]]:
    """The directories a user's parties may meet in, the preferred first, each with what names it."""
    uid = os.getuid() if uid is None else uid
    found: list[tuple[Path, str]] = []
    if named := env.get("GPUTOP_DIR"):
        found.append((Path(os.path.expanduser(named)).absolute(), "GPUTOP_DIR"))
        if alone(env):
            return found
    if runtime := env.get("XDG_RUNTIME_DIR"):
        found.append((Path(runtime) / "gputop", "XDG_RUNTIME_DIR"))
    found.append((Path(f"/run/user/{uid}/gputop"), "the user's runtime directory"))
    found.append((Path(f"/tmp/gputop-{uid}"), "/tmp"))
    seen: set[Path] = set()
    return [(path, source) for path, source in found if not (path in seen or seen.add(path))]  # type: ignore[func-returns-value]


def alone(env: Mapping[str, str]) -> bool:
    """Whether the named directory is the only one to meet in: a demo and its viewer keep to themselves."""
    return bool(env.get("GPUTOP_DIR")) and env.get("GPUTOP_DIR_ONLY") == "1"


def inspect(path: Path, source: str, uid: int | None = None) -> Place:
    """Whether an existing directory may be trusted: a real directory, the user's own, not writable by others."""
    uid = os.getuid() if uid is None else uid
    try:
        found = path.lstat()
    except OSError as error:
        return Place(path, source, usable=False, why=_reason(error))
    if stat.S_ISLNK(found.st_mode):
        return Place(path, source, usable=False, why="is a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        return Place(path, source, usable=False, why="is not a directory")
    if found.st_uid != uid:
        return Place(path, source, usable=False, why=f"belongs to user {found.st_uid}")
    if found.st_mode & 0o022:
        return Place(path, source, usable=False, why="others may write to it")
    return Place(path, source, usable=True)


def prepare(path: Path, source: str) -> Place:
    """Make the directory (0700) when it is missing and its parent is there, then say whether it can be written to."""
    if len(os.fsencode(path)) + 1 + SOCKET_NAME_BYTES > MAX_SOCKET_PATH:
        return Place(
            path, source, usable=False, why=f"its path is too long for a socket (over {MAX_SOCKET_PATH} bytes)"
        )
    try:
        if source == "GPUTOP_DIR":
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return Place(path, source, usable=False, why=_reason(error))
    place = inspect(path, source)
    if place.usable and not os.access(path, os.W_OK | os.X_OK):
        return Place(path, source, usable=False, why="can't be written to")
    return place


def writing_place(env: Mapping[str, str] = os.environ) -> Place | None:
    """The first directory that can be written to, made when it is missing; None when there is none."""
    return next((place for path, source in candidates(env=env) if (place := prepare(path, source)).usable), None)


def writing_places(env: Mapping[str, str] = os.environ) -> list[Place]:
    """Every directory a viewer should be found in: all of the user's that exist or can be made and written to.

    Root looks for every user's trainers, so it also takes the directories of other users that exist.
    """
    mine = [place for path, source in candidates(env=env) if (place := prepare(path, source)).usable]
    return mine if alone(env) or os.getuid() != 0 else mine + _others()


def reading_places(env: Mapping[str, str] = os.environ) -> list[Place]:
    """Every existing directory of the user's that can be trusted; as root also other users'."""
    mine = [place for path, source in candidates(env=env) if (place := inspect(path, source)).usable]
    return mine if alone(env) or os.getuid() != 0 else mine + _others()


def _others() -> list[Place]:
    """Other users' meeting directories, each checked against the user its name gives. For root."""
    return [place for path, uid in _named_by_uid() if (place := inspect(path, f"user {uid}", uid)).usable]


def _named_by_uid() -> Iterator[tuple[Path, int]]:
    for parent, prefix, suffix in ((Path("/tmp"), "gputop-", ""), (Path("/run/user"), "", "gputop")):
        try:
            names = os.listdir(parent)
        except OSError:
            continue
        for name in names:
            tail = name.removeprefix(prefix)
            if name.startswith(prefix) and tail.isdigit() and int(tail) != os.getuid():
                yield (parent / name / suffix if suffix else parent / name), int(tail)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
