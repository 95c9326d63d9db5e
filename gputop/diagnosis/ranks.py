"""The ranks of one job side by side: what each does before the collective that makes them wait for each other.

Steps of all ranks are equally long, since the exchange ends for all at once. So what a rank does of its own is the step
less its exchange, and the late one is the one that waits least in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from gputop.diagnosis.apart import lone_step, set_apart
from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.loop import train_and_eval
from gputop.diagnosis.numbers import median
from gputop.diagnosis.phases import COMPUTE, EPISODIC, HOST, in_columns, role
from gputop.diagnosis.timed import device_times
from gputop.records import Process, Step, Worker
from gputop.window import Peer

OWN = ("data", "h2d", "forward", HOST, *EPISODIC)
"""What a rank does by itself. Backward is left out: the exchange inside it makes it equally long on every rank."""

MARKED = (*OWN, "backward", "optimizer")
"""The same where every rank marks the exchange, so that backward and the update are free of it."""

QUEUED = (*OWN, "optimizer")
"""The same by the device's own clock where backward holds the exchange: the device does the update after it."""

LATEST = 100
"""Steps of each rank that are compared."""

STARVED = 0.1
"""Share of looks that find a rank's queue empty from which its device follows the host's launches. How long it then
takes is no figure of this rank's: the others' hosts may be as slow, and have the time while they wait for it."""

TELLS = 0.05
"""Part of the step from which waiting inside backward, more than in a marked exchange, is no mere jitter of it."""

LEAST = 5
"""Steps of a rank that tell anything."""


class Rank(msgspec.Struct, frozen=True):
    """A rank's mean times of its own, in ms per step by role, and its mean step.

    `exchange`: its mean time in the region that holds the exchange, by the device's clock; None where not known.
    `waits`: the same of each step by its number; `steps`: the steps themselves. `starved`: its device follows the
    host's launches. `host`: what its host takes, by role: in those of `FREE` no device makes it wait.
    `ready`: batches that lie ready when it asks for one, on average over the most that ever did. `busy`: part of the
    time that a worker of its loader computes, reads or has no core: no step can be shorter than that part of it.
    """

    rank: int
    own: dict[str, float]
    step_ms: float
    exchange: float | None = None
    waits: dict[int, float] = {}
    steps: dict[int, Step] = {}
    host: dict[str, float] = {}
    starved: bool = False
    ready: float | None = None
    busy: float | None = None

    @property
    def total(self) -> float:
        """All of it together."""
        return sum(self.own.values())


class How(NamedTuple):
    """How ranks are compared: by which parts, by the device's clock or the host's, with a single long step or not."""

    parts: tuple[str, ...]
    timed: bool
    accidents: bool


class Ranks(list[Rank]):
    """A job's ranks. `seen` keeps what was read of all together: many windows of one moment show the same job. It holds
    for one more rank too, of a large job that is shown by others."""

    def __init__(self, sides: Sequence[Rank] = (), seen: dict[str, Any] | None = None) -> None:
        super().__init__(sides)
        self.seen: dict[str, Any] = {} if seen is None else seen


@once
def ranks(facts: Facts) -> Ranks:
    """The ranks of the run's job that have steps in the window, in order; empty for a job of one.

    A script that marks an exchange may make the one that counts inside backward all the same (a loss summed for a log
    beside DistributedDataParallel): where ranks wait for each other more inside backward than in the mark, that holds.
    """
    window = facts.window
    if not window.peers or facts.loop is None:
        return Ranks()
    accidents = facts.loop.lone is None
    if window.own is None:
        alone = Peer(run=window.run, steps=window.steps)
        return Ranks(_compared((alone, *window.peers), facts.loop.mean_ms, accidents))
    job = window.peers if window.beside else (window.own, *window.peers)
    kept = min(job, key=lambda peer: peer.run.rank or 0).seen
    shown = (accidents, *sorted((peer.run.run_id, len(peer.steps), peer.steps[-1].n) for peer in job if peer.steps))
    if kept.get("job shown") != shown:
        kept["job shown"], kept["job"] = shown, Ranks(_compared(job, facts.loop.mean_ms, accidents))
    found: Ranks = kept["job"]
    if window.beside:
        found = Ranks(_compared((window.own, *job), facts.loop.mean_ms, accidents), found.seen)
    return found


def _compared(job: Sequence[Peer], mean_ms: float, accidents: bool) -> list[Rank]:
    latest = [_latest(peer.steps) for peer in job]
    marked = all(any("comm" in step.phases_ns for step in steps) for steps in latest)
    timed = all(any(step.gpu_ns and "backward" in step.gpu_ns for step in steps) for steps in latest)
    inside = QUEUED if timed else OWN
    hidden = _side_by_side(job, How(inside, timed, accidents))
    if not marked:
        return hidden
    said = _side_by_side(job, How(MARKED, timed, accidents))
    waits = _waiting(hidden)
    return hidden if waits > _waiting(said) and waits >= TELLS * mean_ms else said


def _latest(steps: Sequence[Step]) -> list[Step]:
    """A rank's latest training steps, which tell how its steps are marked."""
    return list(islice((step for step in reversed(steps) if step.kind != "eval"), LEAST))


def _side_by_side(job: Sequence[Peer], how: How) -> list[Rank]:
    found = [rank for peer in job if (rank := _of_peer(peer, how)) is not None]
    found = _without_launches(found) if how.timed else found
    found = _in_proportion(found) if how.timed and how.parts is QUEUED else found
    return sorted(found, key=lambda rank: rank.rank) if len(found) > 1 else []


def _waiting(sides: list[Rank]) -> float:
    """What the usual rank waits for the last one: in the exchange, or else by what ranks do of their own, in ms."""
    times = [side.exchange for side in sides if side.exchange is not None]
    if sides and len(times) == len(sides):
        return _middle(times) - min(times)
    totals = [-side.total for side in sides]
    return _middle(totals) - min(totals) if totals else 0.0


def _middle(values: list[float]) -> float:
    return max(values) if len(values) == 2 else median(values) or 0.0


class _Told(NamedTuple):
    """What a rank's steady steps tell however ranks are compared: sums over them, ns by phase, and what Rank holds."""

    train: list[Step]
    spent_ns: dict[str, float]
    whole_ns: int
    host: dict[str, float]
    ready: float | None
    busy: float | None


class _Timed(NamedTuple):
    """The same by the device's clock: its times by phase in columns, and their sums."""

    columns: dict[str, list[float]]
    spent_ns: dict[str, float]
    starved: bool


def _of_peer(peer: Peer, how: How) -> Rank | None:
    """A peer's own figures, worked out once for all windows that show it."""
    return _kept(peer, f"rank by {how}", lambda: _rank(peer, how))


T = TypeVar("T")


def _kept(peer: Peer, name: str, read: Callable[[], T]) -> T:
    if name not in peer.seen:
        peer.seen[name] = read()
    found: T = peer.seen[name]
    return found


def _rank(peer: Peer, how: How) -> Rank | None:
    told = _kept(peer, f"told, {how.accidents}", lambda: _told(peer, accidents=how.accidents))
    if told is None or peer.run.rank is None:
        return None
    timed = _kept(peer, f"timed, {how.accidents}", lambda: _timed(told)) if how.timed else None
    spent, count = told.spent_ns if timed is None else timed.spent_ns, 1e6 * len(told.train)
    own = dict.fromkeys(how.parts, 0.0)
    for name, ns in spent.items():
        if role(name) in own:
            own[role(name)] += ns / count
    own[HOST] += max(0.0, told.whole_ns - sum(spent.values())) / count
    if timed is None:
        return Rank(peer.run.rank, own, told.whole_ns / count, ready=told.ready, busy=told.busy, host=told.host)
    meeting = "comm" if "backward" in how.parts else "backward"
    where = [name for name in spent if role(name) == meeting]
    met = [timed.columns[name] for name in where if name in timed.columns]
    waited = met[0] if len(met) == 1 else map(sum, zip(*met, strict=True)) if met else [0.0] * len(told.train)
    waits = [ns / 1e6 for ns in waited]
    numbers = [step.n for step in told.train]
    return Rank(
        peer.run.rank,
        own,
        told.whole_ns / count,
        exchange=sum(spent[name] for name in where) / count,
        waits=dict(zip(numbers, waits, strict=True)),
        steps=dict(zip(numbers, told.train, strict=True)),
        host=told.host,
        starved=timed.starved,
        ready=told.ready,
        busy=told.busy,
    )


def _told(peer: Peer, *, accidents: bool) -> _Told | None:
    train, _ = train_and_eval(peer.steps[-LATEST:])
    if len(train) < LEAST:
        return None
    train = _steady(train, accidents=accidents)
    spent = _sums(in_columns([step.phases_ns for step in train]))
    whole = sum(step.dur_ns for step in train)
    return _Told(train, spent, whole, _host(spent, whole, 1e6 * len(train)), _ready(train), _busy(peer.process))


def _timed(told: _Told) -> _Timed:
    columns = device_times(told.train)
    looks = [step.queue_empty for step in told.train if step.queue_empty is not None]
    starved = bool(looks) and sum(looks) / len(looks) >= STARVED
    return _Timed(columns, _with_untimed(_sums(columns), told.spent_ns, told.whole_ns), starved)


FREE = ("data", HOST, *EPISODIC)
"""What a host does without waiting for its device."""


def _host(spent: dict[str, float], whole: float, count: float) -> dict[str, float]:
    """A host's mean times, ms per step by role."""
    found = dict.fromkeys(FREE, 0.0)
    for name, ns in spent.items():
        found[role(name)] = found.get(role(name), 0.0) + ns / count
    found[HOST] += max(0.0, whole - sum(spent.values())) / count
    return found


def _with_untimed(device: dict[str, float], host: dict[str, float], whole: float) -> dict[str, float]:
    """Device times, and host times of what the device has none of by nature, as far as the steps have room for them."""
    alone = {name: ns for name, ns in host.items() if name not in device and role(name) in ("data", *EPISODIC)}
    wanted, room = sum(alone.values()), max(0.0, whole - sum(device.values()))
    scale = min(1.0, room / wanted) if wanted else 0.0
    return device | {name: ns * scale for name, ns in alone.items()}


def _busy(samples: Sequence[Process]) -> float | None:
    workers = [worker for sample in samples for worker in sample.workers or () if worker.cpu_pct is not None]
    if not workers:
        return None
    return min(1.0, sum(map(_occupied, workers)) / len(workers))


def _occupied(worker: Worker) -> float:
    stuck = 100.0 if worker.state and worker.state.startswith(("D", "disk")) else 0.0
    return ((worker.cpu_pct or 0.0) + (worker.wait_pct or 0.0) + stuck) / 100


def _ready(train: Sequence[Step]) -> float | None:
    lying = [step.ready_batches for step in train if step.ready_batches is not None]
    most = max(lying, default=0)
    return sum(lying) / len(lying) / most if most else None


def _sums(columns: dict[str, list[float]]) -> dict[str, float]:
    """Each phase's time in all steps together."""
    return {name: sum(column) for name, column in columns.items()}


def _steady(train: list[Step], *, accidents: bool) -> list[Step]:
    """The steps without warm-up and epochs' edges, and without a single accident unless there were others like it."""
    lengths = [float(step.dur_ns) for step in train]
    keep, _, _ = set_apart(train, lengths)
    lone = None if accidents else lone_step(keep, lengths, lambda index: _episodic(train[index]))
    if lone is None and len(keep) == len(train):
        return train
    return [train[index] for index in keep if index != lone]


def _episodic(step: Step) -> float:
    return sum(step.phases_ns.get(part, 0) for part in EPISODIC)


def _without_launches(found: list[Rank]) -> list[Rank]:
    """The ranks with no more time where work is launched, for one that starves, than the others' devices need."""
    quickest = {part: min((rank.own.get(part, 0.0) for rank in found), default=0.0) for part in COMPUTE}
    return [
        msgspec.structs.replace(rank, own={part: quickest.get(part, ms) for part, ms in rank.own.items()})
        if rank.starved
        else rank
        for rank in found
    ]


def _in_proportion(found: list[Rank]) -> list[Rank]:
    """The ranks with backward among their own, where it holds the exchange.

    Backward is known of the rank that waits least; the others' is taken to differ from it as their forward does, since
    the device does the same work in both.
    """
    if not found:
        return found
    last = min(found, key=lambda rank: rank.exchange or 0.0)
    backward, forward = last.exchange or 0.0, last.own["forward"]
    shares = [min(1.0, rank.own["forward"] / forward) if forward else 1.0 for rank in found]
    return [
        msgspec.structs.replace(rank, own={**rank.own, "backward": min(backward * share, rank.exchange or 0.0)})
        for rank, share in zip(found, shares, strict=True)
    ]


def usual_of(sides: Sequence[Rank], part: str) -> float:
    """What ranks usually spend on a part."""
    return median([side.own.get(part, 0.0) for side in sides]) or 0.0
