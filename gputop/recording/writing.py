"""Who writes a recording: one recorder at a time, known by its process, or elsewhere by its last sign of life."""

from __future__ import annotations

import os
import secrets
import sqlite3

import msgspec

from gputop.recording.errors import Busy
from gputop.wire.cards import pid_namespace, process_start

S = 1_000_000_000

FOREIGN_STALE_NS = 30 * S
"""A recorder of another machine or container that has not committed for this long is taken for dead."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A recorder's claim on a file, as it stands in `meta`. `token` tells the writers of one process apart."""

    token: str = ""
    pid: int
    start: int | None
    pidns: int | None
    host: str
    beat_ns: int


_open: set[str] = set()
"""Tokens of the writers that are open in this process: a claim of one that could not give it up does not count."""


def new_token() -> str:
    """A name for a writer that opens now; `forget` it when it is closed."""
    token = secrets.token_hex(8)
    _open.add(token)
    return token


def forget(token: str) -> None:
    """A writer is closed, whatever its file says."""
    _open.discard(token)


def own_claim(token: str, now_ns: int) -> Claim:
    """A claim of this process."""
    return Claim(
        token=token, pid=os.getpid(), start=process_start(os.getpid()), pidns=pid_namespace(),
        host=os.uname().nodename, beat_ns=now_ns,
    )  # fmt: skip


def holds(claim: Claim, now_ns: int) -> bool:
    """Whether the recorder that made a claim still writes."""
    if claim.host != os.uname().nodename or claim.pidns != pid_namespace():
        return now_ns - claim.beat_ns < FOREIGN_STALE_NS
    if claim.pid == os.getpid():
        return process_start(claim.pid) == claim.start and claim.token in _open
    return process_start(claim.pid) == claim.start


def read_claim(db: sqlite3.Connection) -> Claim | None:
    """The claim on a file, None when there is none."""
    row = db.execute("SELECT value FROM meta WHERE key = 'writer'").fetchone()
    try:
        return msgspec.json.decode(row[0], type=Claim) if row is not None else None
    except (msgspec.MsgspecError, TypeError):
        return None


def claim(db: sqlite3.Connection, token: str, now_ns: int, name: str) -> None:
    """Claim a file within the open transaction. Raises Busy when another recorder writes it."""
    held = read_claim(db)
    if held is not None and holds(held, now_ns):
        where = f"process {held.pid}" + ("" if held.host == os.uname().nodename else f" on {held.host}")
        raise Busy(f"{name} is being recorded by {where}; choose another name, or end that recorder first")
    beat(db, token, now_ns)
    db.execute("DELETE FROM meta WHERE key = 'closed_ns'")


def beat(db: sqlite3.Connection, token: str, now_ns: int) -> None:
    """Renew a writer's claim."""
    text = msgspec.json.encode(own_claim(token, now_ns)).decode()
    db.execute("INSERT OR REPLACE INTO meta VALUES ('writer', ?)", (text,))


def release(db: sqlite3.Connection, now_ns: int) -> None:
    """Give the claim up: the recording ended cleanly."""
    db.execute("DELETE FROM meta WHERE key = 'writer'")
    db.execute("INSERT OR REPLACE INTO meta VALUES ('closed_ns', ?)", (now_ns,))
