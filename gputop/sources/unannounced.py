"""Trainings that have announced themselves to nobody: processes on a GPU that hold the driver open, as runs without
steps, so that the driver's and the processes' figures are judged alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from gputop.pids import Pid
from gputop.records import AnyRecord, Event, Gpu, GpuProcess, Run

SEEN_TWICE = 2
"""Samples that must list a process: one that announces itself does so while it starts."""

MISSING = 3
"""Samples in a row without a process after which it is gone."""

MOST = 32
"""Runs made up at once: a machine has few GPUs, and who shares one among more is served by the list of processes."""

DRIVER = "libcuda.so"
"""What a process that computes on a GPU has in its memory map. Only one's own processes show it (root sees all), and
none of another pid namespace, whose numbers mean others here."""


PREFIX = "unannounced-"
"""How the made-up runs' ids begin."""


def holds_driver(pid: int) -> bool:
    """Whether a process has the driver's library loaded; False where that can't be seen."""
    try:
        return DRIVER in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False


class _Seen(msgspec.Struct):
    """A process on a GPU: how often it was listed, how often it was missing since, and the run made up for it."""

    listed: int = 0
    missing: int = 0
    run_id: str | None = None


class Unannounced:
    """Follows the driver's lists of processes."""

    def __init__(self, host: str, computes: Callable[[int], bool] = holds_driver) -> None:
        self._host = host
        self._computes = computes
        self._seen: dict[str, dict[Pid, _Seen]] = {}

    def records(
        self, records: Iterable[AnyRecord], announced: Mapping[int, int | None], now_ns: int
    ) -> list[AnyRecord]:
        """The runs that begin and end by these samples. `announced`: processes that speak for themselves, by pid, and
        when they started."""
        made: list[AnyRecord] = []
        for record in records:
            if isinstance(record, Gpu) and record.processes is not None and not record.simulated:
                made += self._of_gpu(record, record.processes, announced, now_ns)
        return made

    def _of_gpu(
        self, gpu: Gpu, processes: list[GpuProcess], announced: Mapping[int, int | None], now_ns: int
    ) -> list[AnyRecord]:
        seen = self._seen.setdefault(gpu.gpu_uuid, {})
        made: list[AnyRecord] = []
        listed = {Pid(process.pid, process.start_ticks): process for process in processes}
        here = {pid: process for pid, process in listed.items() if not _among(pid, announced)}
        for pid, process in here.items():
            known = seen.setdefault(pid, _Seen())
            known.listed, known.missing = known.listed + 1, 0
            if known.listed == SEEN_TWICE and self._runs() < MOST and self._computes(pid.number):
                run = self._run(process, gpu, now_ns)
                known.run_id = run.run_id
                made.append(run)
        for pid in [pid for pid in seen if pid not in here]:
            seen[pid].missing += 1
            if seen[pid].missing >= MISSING or _among(pid, announced):
                run_id = seen.pop(pid).run_id
                if run_id is not None:
                    made.append(Event(t=now_ns, kind="exit", run_id=run_id))
        return made

    def made(self, run_id: str) -> bool:
        """Whether a run is one that was made up here."""
        return run_id.startswith(PREFIX)

    def _runs(self) -> int:
        return sum(known.run_id is not None for them in self._seen.values() for known in them.values())

    def _run(self, process: GpuProcess, gpu: Gpu, now_ns: int) -> Run:
        argv = process.cmdline.split() if process.cmdline else None
        script = next((word for word in argv or () if word.endswith(".py")), process.name)
        return Run(
            t=now_ns, run_id=f"{PREFIX}{process.pid}-{process.start_ticks or 0}-{gpu.gpu_uuid}", pid=process.pid,
            host=self._host, user=process.user, script=script, argv=argv, start_ticks=process.start_ticks,
            gpu_uuid=gpu.gpu_uuid, gpu_pci=gpu.gpu_pci, gpu_name=gpu.name,
        )  # fmt: skip


def _among(pid: Pid, announced: Mapping[int, int | None]) -> bool:
    return pid.number in announced and pid.agrees(Pid(pid.number, announced[pid.number]))
