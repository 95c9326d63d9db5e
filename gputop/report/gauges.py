"""GPUs and machines of a long recording: every so many seconds' sample, and the extremes of all."""

from __future__ import annotations

from gputop.recording.past import Info
from gputop.recording.reader import Recording
from gputop.records import Gpu, Host
from gputop.report.machine import Machines
from gputop.report.series import Axis, GpuColumns, GpuSeries, HostColumns, HostSeries
from gputop.tracks import S

SAMPLES = 12_000
"""Samples that are read of all GPUs together, evenly spaced in time."""

PEAKS = ("util_pct", "mem_used_bytes", "power_w")
"""What the highest of all samples is looked for of; the hottest one is that of the samples read."""


def gauges(
    recording: Recording, info: Info, axis: Axis
) -> tuple[Machines, dict[str, GpuSeries], dict[str, HostSeries]]:
    """The machines' accounts and series. Raises Unreadable."""
    machines = Machines()
    gpus: dict[str, GpuColumns] = {}
    hosts: dict[str, HostColumns] = {}
    seconds = max(1, (info.to_ns - info.from_ns) // S)
    several = max(1, len({span.run.gpu_uuid for span in info.runs} - {None}))
    every = _odd(-(-seconds * several // SAMPLES))
    for _, record in recording.rows(Gpu, f"(t / {S}) % ? = 0", (every,)):
        if isinstance(record, Gpu):
            machines.add(record)
            gpus.setdefault(record.gpu_uuid, GpuColumns(axis)).add(record)
    for name in PEAKS:
        highest = f"seq IN (SELECT seq FROM (SELECT seq, max({name}) FROM gpu GROUP BY gpu_uuid))"
        for _, record in recording.rows(Gpu, highest, ()):
            if isinstance(record, Gpu) and record.gpu_uuid in gpus:
                machines.gpus[record.gpu_uuid].raise_to(record)
    for _, record in recording.rows(Host, f"(t / {S}) % ? = 0", (_odd(-(-seconds // SAMPLES)),)):
        if isinstance(record, Host):
            machines.add(record)
            hosts.setdefault(record.host, HostColumns(axis)).add(record)
    return (
        machines,
        {uuid: columns.series() for uuid, columns in gpus.items()},
        {host: columns.series() for host, columns in hosts.items()},
    )


def _odd(stride: int) -> int:
    """The next stride that shares no factor with the usual periods (2, 3, 5 s), so that none of them is aliased."""
    while stride > 1 and any(stride % factor == 0 for factor in (2, 3, 5)):
        stride += 1
    return max(1, stride)
