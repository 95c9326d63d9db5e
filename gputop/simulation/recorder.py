"""Writes a simulated loop's steps as records, by the publisher's rules: exclusive phases, marks in the queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from gputop import records as rec
from gputop.simulation.device import SimulatedClock
from gputop.simulation.rig import Rig

TRAIN, VALIDATION = 0, 1
"""Ids of the two loaders."""

READS_BACK = frozenset({"sync", "checkpoint"})
"""Phases that leave the queue empty by themselves: the boundary after them says nothing of the run-ahead."""


class Ledger:
    """One open step: the host's time and the device's, divided at every boundary."""

    def __init__(self, now: int, device: SimulatedClock) -> None:
        self.begun_at = self._turned_at = now
        self._device = device
        self._mark = device.mark() if device.ready() else 0
        self._launched = device.launched() or 0
        self._stack: list[str] = []
        self._asked = self._empty = 0
        self.phases: dict[str, int] = {}
        self.gpu: dict[str, int] = {}
        self.idle: dict[str, int] = {}
        self.reads = self.copied = self.pageable = 0

    @property
    def phase(self) -> str | None:
        """The innermost open phase; None in the loop's unmarked time."""
        return self._stack[-1] if self._stack else None

    def enter(self, name: str, now: int) -> None:
        """A phase begins."""
        self.turn(now)
        self._stack.append(name)

    def leave(self, now: int) -> None:
        """The innermost phase ends."""
        self.turn(now)
        self._stack.pop()

    def turn(self, now: int) -> None:
        """Give the time since the last boundary to the innermost phase."""
        phase = self.phase
        if phase is not None:
            self.phases[phase] = self.phases.get(phase, 0) + now - self._turned_at
        self._turned_at = now
        if self._device.ready():
            self._turn_device(phase)

    def _turn_device(self, phase: str | None) -> None:
        if phase not in READS_BACK:
            self._asked += 1
            self._empty += bool(self._device.idle())
        mark, launched = self._device.mark(), self._device.launched() or 0
        passed = self._device.elapsed_ns(self._mark, mark)
        if phase is not None:
            self.gpu[phase] = self.gpu.get(phase, 0) + passed
        if launched == self._launched:
            self.idle[phase or "other"] = self.idle.get(phase or "other", 0) + passed
        self._mark, self._launched = mark, launched

    def queue_empty(self) -> float | None:
        """The share of boundaries that found the device with nothing to do."""
        return round(self._empty / self._asked, 3) if self._asked else None


class Recorder:
    """The loop's tap under a virtual clock; finished steps are appended to `out`."""

    def __init__(self, rig: Rig, device: SimulatedClock, out: list[rec.Record], *, offset_ns: int, run_id: str) -> None:
        self.steps_done = 0
        self._rig, self._device, self._out = rig, device, out
        self._offset_ns, self._run_id = offset_ns, run_id
        self._open: list[Ledger] = []
        self._counts = {TRAIN: 0, VALIDATION: 0}
        self._epochs = {TRAIN: -1, VALIDATION: -1}

    def open_phase(self) -> str | None:
        """What the training thread is in now."""
        return self._open[-1].phase if self._open else None

    def steps(self, loader: Any) -> Iterator[Any]:
        """A step for each batch; a loop inside a step of another one is also that step's `eval`."""
        now = self._rig.clock.now
        loader_id = TRAIN if loader is self._rig.loader else VALIDATION
        self._epochs[loader_id] += 1
        outer = self._open[-1] if self._open else None
        if outer:
            outer.enter("eval", now())
        elif self._epochs[loader_id]:
            self._out.append(
                rec.Event(
                    t=now() + self._offset_ns, kind="epoch", run_id=self._run_id, label=str(self._epochs[loader_id])
                )
            )
        ledger = self._request()
        for number, batch in enumerate(loader):
            ledger.leave(now())
            cpu = self._rig.main_cpu.total(ledger.begun_at)
            yield batch
            self._open.pop()
            ledger.turn(now())
            self._out.append(self._step(ledger, loader_id, first=number == 0, cpu=cpu))
            ledger = self._request()
        self._open.pop()
        if outer:
            outer.leave(now())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase of the innermost open step."""
        ledger = self._open[-1]
        ledger.enter(name, self._rig.clock.now())
        yield
        ledger.leave(self._rig.clock.now())

    def reads(self, count: int) -> AbstractContextManager[None]:
        """The `sync` phase of the innermost open step."""
        self._open[-1].reads = count
        return self.phase("sync")

    def copied(self, nbytes: int, pageable: int) -> None:
        """Bytes copied in the innermost open step."""
        self._open[-1].copied, self._open[-1].pageable = nbytes, pageable

    def _request(self) -> Ledger:
        ledger = Ledger(self._rig.clock.now(), self._device)
        ledger.enter("data", self._rig.clock.now())
        self._open.append(ledger)
        return ledger

    def _step(self, ledger: Ledger, loader_id: int, *, first: bool, cpu: float) -> rec.Step:
        rig, now, training = self._rig, self._rig.clock.now(), loader_id == TRAIN
        loader = rig.loader if training else rig.validation
        n = self._counts[loader_id]
        self._counts[loader_id] += 1
        self.steps_done += training
        marked = self._device.ready()
        return rec.Step(
            t=ledger.begun_at + self._offset_ns,
            run_id=self._run_id,
            n=n,
            dur_ns=now - ledger.begun_at,
            phases_ns=ledger.phases,
            gpu_ns=ledger.gpu if marked else None,
            gpu_idle_ns=ledger.idle if marked else None,
            queue_empty=ledger.queue_empty() if marked else None,
            samples=loader.batch_size,
            batches=1,
            kind="train" if training else "eval",
            had_backward=training,
            optimizer_step=training or None,
            loader_id=loader_id,
            epoch=self._epochs[loader_id],
            first_of_epoch=first or None,
            ready_batches=loader.ready_batches if loader.num_workers else None,
            late_ready=loader.late_ready if loader.num_workers else None,
            sync_count=ledger.reads or None,
            sync_ns=ledger.phases.get("sync"),
            sync_sites=_sites(ledger.reads, ledger.phases.get("sync")) if ledger.reads else None,
            h2d_bytes=ledger.copied or None,
            h2d_pageable_bytes=ledger.pageable if ledger.copied else None,
            mem_allocated_bytes=rig.device.mem_allocated_bytes if marked else None,
            mem_reserved_bytes=rig.device.mem_reserved_bytes if marked else None,
            alloc_retries=rig.device.alloc_retries if marked else None,
            host_cpu_ns=round(rig.main_cpu.total(now) - cpu),
        )


def _sites(reads: int, ns: int | None) -> list[rec.SyncSite]:
    return [rec.SyncSite(site="train.py:88", call=".item()", count=reads, ns=ns or 0, source="patched")]
