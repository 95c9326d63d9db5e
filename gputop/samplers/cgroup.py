"""The CPU limit of a process's control group, version 1 or 2: how many cores it may use, how long it was throttled."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gputop.samplers import proc

US = 1000


class Mount(NamedTuple):
    """Where a hierarchy is mounted, and which of its groups is the top of the mount (a container's own)."""

    folder: Path
    root: str
    version: int


class Limit(NamedTuple):
    """`quota_cores` None: unlimited. `throttled_ns` None: not told."""

    quota_cores: float | None
    throttled_ns: int | None


def mounts(mountinfo: str) -> list[Mount]:
    """The hierarchies that can limit CPUs (source: proc(5), mountinfo)."""
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        part, kind = left.split(), right.split()
        if len(part) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            found.append(Mount(Path(part[4]), part[3], 2))
        elif kind[0] == "cgroup" and "cpu" in kind[-1].split(","):
            found.append(Mount(Path(part[4]), part[3], 1))
    return found


def groups(mounted: list[Mount], membership: str) -> list[tuple[int, Path, Path]]:
    """(version, the process's group, the top of the mount) for each hierarchy, of a /proc/PID/cgroup text. None where
    mount and group are seen from different control group namespaces ("/.."): the path between them is not told."""
    found = []
    for line in membership.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "cpu" not in controllers.split(","):
            continue
        for mount in mounted:
            outside = mount.root.startswith("/..") or path.startswith("/..")
            if mount.version == version and not outside:
                inside = path.removeprefix(mount.root) if mount.root != "/" else path
                found.append((version, mount.folder / inside.lstrip("/"), mount.folder))
    return found


def limit(found: list[tuple[int, Path, Path]]) -> Limit:
    """The tightest limit from the process's group up to the top, with the throttling of the group that sets it (of the
    process's own group where none does)."""
    best: tuple[float, Path, int] | None = None
    own: int | None = None
    for version, group, top in found:
        for folder in (group, *group.parents):
            quota = _quota(folder, version)
            if quota is not None and (best is None or quota < best[0]):
                best = (quota, folder, version)
            if folder == top:
                break
        own = own if own is not None else _throttled_ns(group, version)
    if best is None:
        return Limit(None, own)
    return Limit(best[0], _throttled_ns(best[1], best[2]))


def _quota(folder: Path, version: int) -> float | None:
    try:
        if version == 2:
            quota, period = proc.read(str(folder / "cpu.max"), 64).split()
            return None if quota == b"max" else int(quota) / int(period)
        limit_us = int(proc.read(str(folder / "cpu.cfs_quota_us"), 32))
        return None if limit_us <= 0 else limit_us / int(proc.read(str(folder / "cpu.cfs_period_us"), 32))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _throttled_ns(folder: Path, version: int) -> int | None:
    name, unit = (b"throttled_usec", US) if version == 2 else (b"throttled_time", 1)
    try:
        for line in proc.read(str(folder / "cpu.stat"), 2048).splitlines():
            key, _, value = line.partition(b" ")
            if key == name:
                return int(value) * unit
    except (OSError, ValueError):
        return None
    return None


def of(pid: int | str = "self") -> Limit:
    """The limit that binds a process of this machine. Raises OSError where there is no such group or process."""
    mountinfo = proc.read("/proc/self/mountinfo", 1 << 18).decode("utf-8", "replace")
    membership = proc.read(f"/proc/{pid}/cgroup", 1 << 14).decode("utf-8", "replace")
    return limit(groups(mounts(mountinfo), membership))
