"""What the publisher asks of CUDA, played by a module that refuses all else: no wait, no context, no peak reset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.publisher.hooks.device import POOL, CudaClock
from gputop.publisher.regions import MEMORY_EVERY_NS, Regions
from gputop.publisher.segment import Source
from tests.publisher.driver import Acted


class Event:
    """An event that is reached a moment after it was recorded."""

    made = 0

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        Event.made += 1

    def record(self) -> None:
        assert not self._cuda.capturing, "it would become part of the script's graph"
        self.at = self._cuda.now()

    def query(self) -> bool:
        assert not self._cuda.capturing, "a query breaks a capture"
        return bool(self._cuda.now() > self.at)

    def elapsed_time(self, later: Event) -> float:
        assert later.query()
        return (later.at - self.at) / 1e6


class Cuda:
    """`torch.cuda` as far as it may be used. Whatever else is asked for is an AttributeError."""

    def __init__(self) -> None:
        self.initialized = self.capturing = False
        self.now = lambda: 0
        self.memory_asked = 0
        self.stream = 7

    def is_initialized(self) -> bool:
        return self.initialized

    def is_current_stream_capturing(self) -> bool:
        self._there()
        return self.capturing

    def current_stream(self) -> Any:
        self._there()
        return SimpleNamespace(cuda_stream=self.stream, query=lambda: not self.capturing or pytest.fail("queried"))

    def Event(self, enable_timing: bool) -> Event:
        self._there()
        assert enable_timing
        return Event(self)

    def memory_stats_as_nested_dict(self) -> Any:
        self._there()
        self.memory_asked += 1
        figures = {"all": {"current": 4, "peak": 9}}
        return {"allocated_bytes": figures, "reserved_bytes": figures, "num_alloc_retries": 0}

    def current_device(self) -> int:
        self._there()
        return 1

    def get_device_properties(self, index: int) -> Any:
        self._there()
        return SimpleNamespace(name="GPU", uuid="abc", pci_bus_id=1, pci_domain_id=0, pci_device_id=2)

    def device_count(self) -> int:
        self._there()
        return 2

    def _there(self) -> None:
        assert self.initialized, "it would make a context"


def loop_on(cuda: Cuda) -> tuple[Acted, CudaClock]:
    clock = CudaClock(SimpleNamespace(cuda=cuda))
    acted = Acted(regions=Regions(clock))
    cuda.now = lambda: acted.now
    return acted, clock


def test_nothing_is_asked_before_the_script_has_made_a_context() -> None:
    cuda = Cuda()
    acted, clock = loop_on(cuda)
    source = acted.construct(Source(0))
    assert (clock.ready(), clock.identity(), clock.launched()) == (False, {}, None)
    for _ in range(4):
        acted.train_step(source)
    cuda.initialized = True
    for _ in range(8):
        acted.train_step(source)
    acted.finish()
    timed = ["gpu_ns" in (seg.extra or {}) for seg in acted.steps]
    assert timed[:3] == [False] * 3
    assert all(timed[5:9])
    assert clock.identity() == {
        "device": "cuda:1", "gpu_name": "GPU", "gpu_visible": 2, "gpu_uuid": "GPU-abc", "gpu_pci": "00000000:01:02.0",
    }  # fmt: skip


def test_nothing_is_marked_or_asked_while_a_graph_is_captured() -> None:
    cuda = Cuda()
    cuda.initialized = True
    acted, _ = loop_on(cuda)
    source = acted.construct(Source(0))
    for n in range(24):
        cuda.capturing = 8 <= n < 12
        acted.train_step(source)
    cuda.capturing = False
    acted.finish()
    assert len(acted.steps) == 24
    assert sum("gpu_ns" in (seg.extra or {}) for seg in acted.steps) > 12


def test_events_are_used_again() -> None:
    cuda = Cuda()
    cuda.initialized = True
    before = Event.made
    acted, _ = loop_on(cuda)
    source = acted.construct(Source(0))
    for _ in range(200):
        acted.train_step(source)
    assert Event.made - before < POOL / 4


def test_the_allocator_is_asked_once_a_second_and_its_peaks_are_left() -> None:
    cuda = Cuda()
    cuda.initialized = True
    acted, _ = loop_on(cuda)
    source = acted.construct(Source(0))
    began = acted.now
    for _ in range(600):
        acted.train_step(source)
    acted.finish()
    seconds = (acted.now - began) / MEMORY_EVERY_NS
    assert seconds - 1 <= cuda.memory_asked <= seconds + 1
    told = [seg.extra["mem_allocated_bytes"] for seg in acted.steps if "mem_allocated_bytes" in (seg.extra or {})]
    assert told == [4] * cuda.memory_asked


def test_the_queue_is_no_sign_once_work_runs_on_several_streams() -> None:
    cuda = Cuda()
    cuda.initialized = True
    _, clock = loop_on(cuda)
    assert clock.idle() is True
    cuda.stream = 8
    assert clock.idle() is None
    cuda.stream = 7
    assert clock.idle() is None
