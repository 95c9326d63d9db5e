"""Clocks that someone sets, and a machine that sleeps: told in words, once each."""

from __future__ import annotations

import pytest

from gputop.wire.clocks import STEP_NS, ClockWatch, S, since_boot_ns


class Machine:
    """Its three clocks."""

    def __init__(self) -> None:
        self.wall, self.monotonic, self.boot = 1_700_000_000 * S, 50 * S, 60 * S
        self.tells_boot = True

    def run(self, ns: int) -> None:
        self.wall, self.monotonic, self.boot = self.wall + ns, self.monotonic + ns, self.boot + ns

    def sleep(self, ns: int) -> None:
        """The monotonic clock stands still, and the machine looks at its real-time clock when it wakes."""
        self.wall, self.boot = self.wall + ns, self.boot + ns

    def watch(self) -> ClockWatch:
        return ClockWatch(
            wall=lambda: self.wall,
            monotonic=lambda: self.monotonic,
            boot=lambda: self.boot if self.tells_boot else None,
        )


@pytest.mark.parametrize("step", [3600 * S, -3600 * S, STEP_NS + 1, -STEP_NS - 1])
def test_a_wall_clock_that_is_set_is_told_once(step: int) -> None:
    machine = Machine()
    watch = machine.watch()
    machine.run(S)
    assert watch.look() is None
    machine.wall += step
    assert watch.look() == f"the wall clock was set by {step / S:+.1f} s"
    machine.run(100 * S)
    assert watch.look() is None
    machine.wall -= step
    assert watch.look() == f"the wall clock was set by {-step / S:+.1f} s"


def test_a_clock_that_is_slewed_was_not_set() -> None:
    machine = Machine()
    watch = machine.watch()
    for _ in range(1000):
        machine.run(S)
        machine.wall += S // 2000
        assert watch.look() is None


def test_sleep_is_no_set_clock() -> None:
    machine = Machine()
    watch = machine.watch()
    machine.sleep(3600 * S)
    assert watch.look() == "the machine slept for 3600.0 s"
    assert watch.look() is None
    machine.sleep(60 * S)
    machine.wall += 30 * S
    assert watch.look() == "the machine slept for 60.0 s, the wall clock was set by +30.0 s"


def test_where_no_clock_counts_sleep_the_wall_clock_moved() -> None:
    machine = Machine()
    machine.tells_boot = False
    watch = machine.watch()
    machine.sleep(60 * S)
    assert watch.look() == "the wall clock was set by +60.0 s"


def test_what_happened_before_the_first_look_counts_from_the_offset_given() -> None:
    machine = Machine()
    offset = machine.wall - machine.monotonic
    machine.wall += 5 * S
    watch = ClockWatch(offset, wall=lambda: machine.wall, monotonic=lambda: machine.monotonic, boot=lambda: None)
    assert watch.look() == "the wall clock was set by +5.0 s"


def test_this_machines_own_clocks_stand_still() -> None:
    assert since_boot_ns() is None or since_boot_ns() > 0  # type: ignore[operator]
    watch = ClockWatch()
    assert watch.look() is watch.look() is None
