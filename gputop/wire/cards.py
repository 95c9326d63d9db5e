"""Card files: a run or a viewer says that it is there. Liveness is the pid and its start time, never a connection.

A card from another pid namespace (a container that shares the directory) is believed while its owner keeps touching it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

FOREIGN_STALE_S = 30.0
"""A card of another pid namespace untouched this long is taken for dead; owners touch theirs about once a second."""

MAX_CARD_BYTES = 16_384


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who it is. `kind` is "run" or "view"; `id` the run_id or the viewer's id; `endpoint` a viewer's socket path."""

    kind: str
    id: str
    pid: int
    start: int | None = None
    pidns: int | None = None
    endpoint: str | None = None
    script: str | None = None
    version: str | None = None


class Found(msgspec.Struct, frozen=True):
    """A card and the file it stands in."""

    card: Card
    path: Path


def foreign_proc() -> bool:
    """Whether /proc is another pid namespace's, as in one that was entered without a mount of its own (`unshare -p`, a
    chroot): there a number means another process than here."""
    try:
        return int(os.readlink("/proc/self")) != os.getpid()
    except (OSError, ValueError):
        return os.path.exists("/proc/stat")


def process_start(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (field 22 of /proc/PID/stat); None where that can't be read."""
    own = pid == os.getpid()
    if not own and foreign_proc():
        return None
    try:
        with open("/proc/self/stat" if own else f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def pid_namespace() -> int | None:
    """The inode of this process's pid namespace; None where there is no such thing."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def own_card(kind: str, id_: str, **more: str | None) -> Card:
    """A card for this process."""
    pid = os.getpid()
    return Card(kind=kind, id=id_, pid=pid, start=process_start(pid), pidns=pid_namespace(), **more)


def write(card: Card, directory: Path) -> Path:
    """Put a card into a directory, whole or not at all. Raises OSError."""
    path = directory / f"{card.kind}-{card.id}.json"
    scratch = directory / f".{card.kind}-{card.id}.{os.getpid()}.tmp"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(card))
        os.replace(scratch, path)
    except OSError:
        remove(scratch)
        raise
    return path


def remove(*paths: Path) -> None:
    """Take files away, whether or not they are there."""
    for path in paths:
        try:
            path.unlink()
        except OSError:
            continue


def touch(path: Path) -> bool:
    """Say that the owner still lives. False when the card has vanished."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def alive(found: Found, now: float | None = None) -> bool:
    """Whether a card's owner still runs."""
    card = found.card
    if card.pidns is not None and card.pidns != pid_namespace():
        try:
            age = (time.time() if now is None else now) - found.path.stat().st_mtime
        except OSError:
            return False
        return age < FOREIGN_STALE_S
    if (start := process_start(card.pid)) is not None:
        return card.start is None or start == card.start
    if Path("/proc/self/stat").exists() and not foreign_proc():
        return False
    return answers(card.pid)


def find(kind: str, directories: Iterable[Path], *, sweep: bool = True) -> list[Found]:
    """The cards of living owners in these directories, each id once; with `sweep`, those of the dead are taken away."""
    living: dict[str, Found] = {}
    for directory in directories:
        for path in _listed(directory, f"{kind}-", ".json"):
            card = _read(path)
            if card is None or card.kind != kind or path.name != f"{kind}-{card.id}.json":
                continue
            found = Found(card, path)
            if alive(found):
                living.setdefault(card.id, found)
            elif sweep:
                remove(path, path.with_suffix(".sock"))
    return list(living.values())


def _listed(directory: Path, prefix: str, suffix: str) -> list[Path]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [directory / name for name in sorted(names) if name.startswith(prefix) and name.endswith(suffix)]


def _read(path: Path) -> Card | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return msgspec.json.decode(file.read(MAX_CARD_BYTES), type=Card)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def answers(pid: int) -> bool:
    """Whether there is a process of this number, asked without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
