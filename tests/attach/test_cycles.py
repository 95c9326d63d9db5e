"""Steps out of samples: told apart where they are long enough, else only shares of time; nothing invented."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gputop.records import Step
from gputop.samplers.attach.cycles import Cycles, Span

MS = 1_000_000
SAMPLE = 10 * MS


def spans(*parts: tuple[str, int], start: int = 0) -> list[Span]:
    """Parts in ms, one after the other."""
    out, t = [], start
    for phase, ms in parts:
        out.append(Span(t, t + ms * MS, phase))
        t += ms * MS
    return out


def sampled(parts: list[tuple[str, float]], seconds: float) -> Iterator[Span]:
    """A loop of parts (ms) as samples at 100 Hz see it."""
    whole = sum(ms for _, ms in parts)
    for at in range(int(seconds * 100)):
        place = at * 10.0 % whole
        for phase, ms in parts:
            if place < ms:
                yield Span(at * SAMPLE, (at + 1) * SAMPLE, phase)
                break
            place -= ms


def ms(step: Step) -> tuple[float, dict[str, float]]:
    return step.dur_ns / MS, {name: ns / MS for name, ns in step.phases_ns.items()}


LOOP = (("data", 60), ("forward", 40), ("backward", 60), ("optimizer", 20))


def test_a_step_goes_from_its_data_to_the_next_ones() -> None:
    found = Cycles("r", SAMPLE).feed(spans(*LOOP * 4))
    assert [ms(step) for step in found] == [(180, dict(LOOP))] * 2
    assert {step.sampled for step in found} == {"step"}
    assert found[0].t == 180 * MS  # the first one's begin was not seen


def test_a_step_whose_batch_lay_ready_begins_with_its_forward() -> None:
    found = Cycles("r", SAMPLE).feed(spans(*LOOP[1:] * 4))
    assert [ms(step)[0] for step in found] == [120] * 2


def test_what_no_frame_names_before_the_backward_is_forward_and_after_it_is_not() -> None:
    loop = (("data", 50), ("other", 30), ("backward", 60), ("other", 20), ("optimizer", 20), ("other", 20))
    found = Cycles("r", SAMPLE).feed(spans(*loop * 3))
    assert ms(found[0]) == (200, {"data": 50, "forward": 30, "backward": 60, "optimizer": 20})


def test_several_batches_before_one_update_are_one_step() -> None:
    loop = (("data", 30), ("forward", 30), ("data", 30), ("forward", 30), ("backward", 60), ("optimizer", 20))
    assert [ms(step)[0] for step in Cycles("r", SAMPLE).feed(spans(*loop * 3))] == [200]


@pytest.mark.parametrize("update", [4.0, 8.0])
def test_steps_too_short_to_be_told_apart_are_stretches_whose_shares_hold(update: float) -> None:
    loop = [("data", 23.7), ("forward", 4.1), ("backward", update / 2), ("optimizer", update / 2)]
    found = Cycles("r", SAMPLE).feed(sampled(loop, 10))
    assert {step.sampled for step in found} == {"stretch"}
    assert all(990 <= step.dur_ns / MS <= 1010 for step in found)
    share = sum(step.phases_ns["data"] for step in found) / sum(step.dur_ns for step in found)
    assert share == pytest.approx(23.7 / (27.8 + update), abs=0.03)


def test_stretches_follow_on_one_another_over_the_pause_between_two_runs() -> None:
    loop = [("data", 23.7), ("forward", 4.1), ("backward", 2.0), ("optimizer", 2.0)]
    cycles, found = Cycles("r", SAMPLE), []
    for chunk in range(4):
        shift = chunk * 2100 * MS
        found += cycles.feed(Span(one.from_ns + shift, one.to_ns + shift, one.phase) for one in sampled(loop, 2))
    assert len(found) == 8
    assert all(1000 <= step.dur_ns / MS <= 1110 for step in found)
    assert all(sum(step.phases_ns.values()) == step.dur_ns for step in found)


def test_steps_that_are_told_apart_are_not_counted_short() -> None:
    loop = [("data", 33.3), ("forward", 21.1), ("backward", 31.7), ("optimizer", 17.9)]
    cycles = Cycles("r", SAMPLE)
    found = list(cycles.feed(sampled(loop, 20)))
    assert cycles.count == len(found) == pytest.approx(20_000 / 104, abs=3)
    assert sum(step.dur_ns for step in found) / len(found) / MS == pytest.approx(104, abs=1)


def test_a_short_step_torn_by_the_pause_between_two_runs_is_left_out() -> None:
    cycles = Cycles("r", SAMPLE)
    first = cycles.feed(spans(*LOOP * 3))
    later = cycles.feed(spans(*LOOP * 3, start=(3 * 180 + 90) * MS))
    assert len(first) == 1
    assert [ms(step)[0] for step in later] == [180] * 2  # not the 270 between them


def test_a_long_step_lives_through_that_pause() -> None:
    loop = (("data", 600), ("forward", 400), ("backward", 600), ("optimizer", 200))
    cycles = Cycles("r", SAMPLE)
    whole = spans(*loop * 3)
    cut = next(at for at, span in enumerate(whole) if span.from_ns > 2400 * MS)
    late = whole[cut]
    found = cycles.feed(whole[:cut]) + cycles.feed([late._replace(from_ns=late.from_ns + 90 * MS), *whole[cut + 1 :]])
    assert [ms(step) for step in found] == [
        (1800, {"data": 600, "forward": 490, "backward": 510, "optimizer": 200})  # the pause goes to what it followed
    ]


def test_a_long_silence_gives_up_what_was_open() -> None:
    cycles = Cycles("r", SAMPLE)
    cycles.feed(spans(*LOOP * 3))
    assert cycles.feed(spans(*LOOP * 2, start=5000 * MS)) == []


def test_a_loop_whose_updates_no_frame_shows_is_told_in_stretches_after_a_while() -> None:
    cycles = Cycles("r", SAMPLE)
    early = [step for at in range(0, 28, 2) for step in cycles.feed(spans(("data", 2000), start=at * 1000 * MS))]
    late = [step for at in range(28, 40, 2) for step in cycles.feed(spans(("data", 1000), start=at * 1000 * MS))]
    assert early == []
    assert {step.sampled for step in late} == {"stretch"}
    assert late[0].kind is None


def test_a_process_that_does_not_train_has_no_steps() -> None:
    assert Cycles("r", SAMPLE).feed(spans(*[("other", 500)] * 20)) == []
