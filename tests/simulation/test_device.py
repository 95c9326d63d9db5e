"""The device queue and gputop's device clock on it, under a virtual clock."""

from __future__ import annotations

import pytest

from gputop.publisher.device import DeviceClock
from gputop.simulation.activity import Activity
from gputop.simulation.clock import VirtualClock
from gputop.simulation.device import SimulatedClock, SimulatedDevice


def one_by_one(free_at: int, now: int, kernels: int, kernel_ns: int, launch_ns: int) -> tuple[int, int]:
    """When the last of the kernels ends and how long the device was busy, kernel by kernel."""
    end = free_at
    for i in range(kernels):
        end = max(end, now + (i + 1) * launch_ns) + kernel_ns
    return end, kernels * kernel_ns


@pytest.mark.parametrize("queued", [0, 500, 50_000])
@pytest.mark.parametrize(("kernel_ns", "launch_ns"), [(60, 7), (3, 9), (10, 10), (1, 1000)])
def test_a_launch_ends_when_the_kernels_one_by_one_would(queued: int, kernel_ns: int, launch_ns: int) -> None:
    clock = VirtualClock(1000)
    device = SimulatedDevice(clock, queue_kernels=10**9)
    device.launch(1, queued, 0)
    end, busy = one_by_one(1000 + queued, 1000, 200, kernel_ns, launch_ns)
    returned = device.launch(200, kernel_ns, launch_ns)
    assert device.drained_at() == end
    assert returned == 1000 + 200 * launch_ns
    assert device.busy.total(end) == pytest.approx(queued + busy)


def test_a_full_queue_holds_the_host_until_there_is_room() -> None:
    clock = VirtualClock()
    device = SimulatedDevice(clock, queue_kernels=100)
    returned = device.launch(1000, 50, 1)
    assert returned == device.drained_at() - 100 * 50
    clock.wait_until(returned)
    again = device.launch(1, 50, 1)
    assert again == device.drained_at() - 100 * 50


def test_a_copy_waits_its_turn_and_is_no_utilization() -> None:
    clock = VirtualClock()
    device = SimulatedDevice(clock)
    device.launch(10, 1000, 1)
    done = device.copy(5000, 1e9)
    assert done == 1 + 10 * 1000 + 5000
    assert device.busy.total(done) == pytest.approx(10 * 1000)


def test_marks_take_the_time_at_which_the_device_reaches_them() -> None:
    clock = VirtualClock(100)
    device = SimulatedDevice(clock)
    marks: DeviceClock = SimulatedClock(device, {"device": "sim:0"})
    assert marks.ready()
    assert marks.idle()
    before = marks.mark()
    assert marks.done(before)
    device.launch(4, 1000, 10)
    after = marks.mark()
    assert not marks.idle()
    assert not marks.done(after)
    assert marks.elapsed_ns(before, after) == 10 + 4 * 1000
    assert marks.launched() == 4
    clock.wait_until(device.drained_at())
    assert marks.done(after)
    assert marks.idle()


def test_a_mark_after_the_queue_has_drained_counts_the_idle_time() -> None:
    clock = VirtualClock()
    device = SimulatedDevice(clock)
    marks = SimulatedClock(device, {})
    first = marks.mark()
    clock.wait_until(700)
    assert marks.elapsed_ns(first, marks.mark()) == 700


def test_an_unused_device_makes_no_marks_and_names_no_memory() -> None:
    marks = SimulatedClock(SimulatedDevice(VirtualClock()), {}, used=False)
    assert not marks.ready()
    assert marks.memory() == {}


def test_cells_and_totals_of_an_activity_agree() -> None:
    activity = Activity(keep_ns=10_000)
    for start in range(0, 100_000, 500):
        activity.add(start, start + 200, 0.5)
    assert activity.total(100_000) == pytest.approx(200 * 200 * 0.5)
    assert activity.mean(95_000, 97_000) == pytest.approx(0.2)
    assert activity.cells(95_000, 4, 250) == pytest.approx([0.4, 0.0, 0.4, 0.0])
    assert sum(activity.cells(95_100, 7, 333)) * 333 == pytest.approx(activity.mean(95_100, 95_100 + 7 * 333) * 7 * 333)


def test_an_activity_that_goes_on_for_ever_keeps_few_spans() -> None:
    activity = Activity(keep_ns=1000)
    for start in range(0, 1_000_000, 10):
        activity.add(start, start + 5)
    assert len(activity._spans) < 110
    assert activity.total(1_000_000) == pytest.approx(500_000)
