"""input-disk: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord, Disk, Verdict
from tests.diagnosis.builder import STARVED, expect, low, trace, verdict, workers

CAUSE = "input-disk"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "samples too long for decoding, no reading of the disks": lambda: trace(
        {"data": 9600, "forward": 100, "backward": 130}, n=30, loader={"num_workers": 16, "batch_size": 256}, gpu=low(1)
    ),
    "a remote file system, workers unseen on a machine at rest": lambda: trace(
        STARVED,
        loader={"num_workers": 8, "dataset_path_fs": "nfs4"},
        gpu=low(),
        host={"cpu_pct": 8, "cores": 16, "iowait_pct": 0.5, "disk_busy_pct": 1},
    ),
    "disk": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        host={"cpu_pct": 15, "cores": 16, "iowait_pct": 30, "disk_busy_pct": 98, "disk_read_bytes_s": 180e6},
        process={"cpu_pct": 30, "workers": workers(4, 12, state="D")},
    ),
    "nfs": lambda: trace(
        STARVED,
        loader={"num_workers": 4, "dataset_path_fs": "nfs4"},
        gpu=low(),
        host={"cpu_pct": 10, "cores": 16, "iowait_pct": 3, "disk_busy_pct": 1, "net_recv_bytes_s": 110e6},
        process={"cpu_pct": 30, "workers": workers(4, 9, state="S")},
    ),
    "iowait only": lambda: trace(
        STARVED, loader={"num_workers": 4}, host={"cpu_pct": 15, "cores": 16, "iowait_pct": 40}
    ),
    "D state": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        process={"cpu_pct": 20, "workers": workers(4, 10, state="D", read_bytes_s=40e6)},
    ),
    "busy only": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        host={"cpu_pct": 10, "cores": 16, "disk_busy_pct": 97, "disk_await_ns": 40_000_000},
        gpu=low(),
    ),
    "the data set's disk beside a busier one": lambda: trace(
        STARVED,
        loader={"num_workers": 4, "dataset_disk": "nvme0n1"},
        gpu=low(),
        host={
            "cpu_pct": 10,
            "cores": 16,
            "disk_busy_pct": 100,
            "disks": [Disk(name="sda", busy_pct=100), Disk(name="nvme0n1", busy_pct=91, await_ns=30_000_000)],
        },
    ),
    "0 workers iowait": lambda: trace(
        STARVED,
        loader={"num_workers": 0},
        host={"cpu_pct": 10, "cores": 8, "iowait_pct": 12, "disk_busy_pct": 95},
        gpu=low(),
        process={"cpu_pct": 20, "main_thread_cpu_pct": 20, "state": "D"},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-cpu: samples as long, by workers that compute": lambda: trace(
        {"data": 9600, "forward": 100, "backward": 130},
        n=30,
        loader={"num_workers": 16, "batch_size": 256},
        gpu=low(1),
        host={"cpu_pct": 99, "cores": 16},
        process={"workers": workers(16, 96)},
    ),
    "input-workers: steps+loader 2+host": lambda: trace(
        STARVED, loader={"num_workers": 2}, host={"cpu_pct": 20, "cores": 16}
    ),
    "input-cpu: no workers listed": lambda: trace(
        STARVED, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 98, "cores": 8, "iowait_pct": 1}
    ),
    "input-workers: 2 sawtooth": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"data": 2 if i % 2 else 118}},
        loader={"num_workers": 2},
        host={"cpu_pct": 15, "cores": 16},
        gpu=low(38),
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def judged(disks: list[Disk], process: dict[str, object] | None = None) -> Verdict:
    return verdict(
        trace(
            STARVED,
            loader={"num_workers": 4, "dataset_disk": "nvme0n1"},
            gpu=low(),
            host={"cpu_pct": 10, "cores": 16, "iowait_pct": 25, "disk_busy_pct": 100, "disks": disks},
            process={"cpu_pct": 30, "workers": workers(4, 12, state="D"), **(process or {})},
        )
    )


def test_the_disk_that_holds_the_data_set_is_named_and_its_figures_are_its_own() -> None:
    told = judged([Disk(name="sda", busy_pct=100), Disk(name="nvme0n1", busy_pct=91, await_ns=30_000_000)])
    assert told.cause == CAUSE
    assert "nvme0n1 is 91 % busy" in told.headline
    figures = {one.signal: one.value for one in told.evidence}
    assert (figures["disk busy (nvme0n1)"], figures["time that a request to it took"]) == (91, 30)


def test_another_disk_that_is_busy_is_no_evidence() -> None:
    told = judged([Disk(name="sda", busy_pct=100)])
    assert not [one for one in told.evidence if one.signal.startswith("disk busy") and one.supports]
    assert "busy" not in told.headline


def test_what_the_page_cache_had_is_told() -> None:
    told = judged([Disk(name="nvme0n1", busy_pct=99)], {"read_bytes_s": 90e6, "rchar_bytes_s": 100e6})
    assert {one.signal: one.value for one in told.evidence}["bytes read that the page cache had"] == 10


def disk(read_bytes_s: float, **fields: Any) -> Verdict:
    host = {"cpu_pct": 15, "cores": 16, "iowait_pct": 30, "disk_busy_pct": 98, "disk_read_bytes_s": read_bytes_s}
    return verdict(trace(STARVED, loader={"num_workers": 4}, gpu=low(), host=host, **fields))


def test_a_busy_disk_that_yields_little_is_read_in_small_pieces_and_packing_comes_first() -> None:
    small, large = disk(9e6), disk(180e6)
    assert "small or scattered reads" in small.headline
    assert small.advice[0].do.startswith("pack")
    assert "small" not in large.headline
    assert large.advice[0].do.startswith("move")


def test_the_page_cache_is_cold_in_the_first_pass_and_outgrown_in_a_later_one() -> None:
    read = {"cpu_pct": 30, "read_bytes_s": 95e6, "rchar_bytes_s": 100e6}
    first = disk(100e6, process=read, each=lambda i: {"epoch": 0})
    later = disk(100e6, process=read, each=lambda i: {"epoch": 3})
    warm = disk(100e6, process=read | {"read_bytes_s": 5e6})
    assert "the page cache had 5.0 % of it, cold in a first pass" in first.headline
    assert "the data set has outgrown it" in later.headline
    assert "page cache" not in warm.headline


@pytest.mark.parametrize(("system_pct", "promised"), [(None, 5.0), (16, 10.0)])
def test_what_the_kernel_does_to_read_goes_with_the_reads(system_pct: float | None, promised: float) -> None:
    """A real loop that read cold pages: 41 times as fast with warm ones, and 11 times was promised."""
    said = verdict(
        trace(
            {"data": 180, "forward": 3, "backward": 2},
            n=60,
            run={"device": "cpu"},
            loader={"num_workers": 2},
            host={"cpu_pct": 30, "cores": 2, "iowait_pct": 40},
            process={"cpu_pct": 3, "workers": workers(2, 20, state="S", system_pct=system_pct)},
            no_gpu=True,
        )
    )
    assert said.cause == CAUSE
    assert said.speedup_limit is not None
    assert said.speedup_limit == promised if system_pct is None else said.speedup_limit > promised
