"""What is known of a recording that lies here."""

from __future__ import annotations

import msgspec


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One recording: what its file tells without being opened, and what is in it; `fault`: why it can't be read."""

    path: str
    size: int
    changed_s: float
    from_ns: int | None = None
    long_ns: int | None = None
    steps: int | None = None
    scripts: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    simulated: bool = False
    state: str = ""
    fault: str = ""
