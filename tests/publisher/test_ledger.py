"""The definition of a step, loop by loop."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gputop.publisher.segment import Segment, Source, to_record
from tests.publisher.driver import MS, Acted

STEP = {"data": 1.0, "forward": 2.0, "backward": 3.0, "optimizer": 1.0}


def test_plain_loop_of_two_epochs() -> None:
    acted = Acted()
    for epoch in range(2):
        source = acted.construct(Source(0, epoch), 10)
        for _ in range(3):
            acted.train_step(source)
        acted.stop(source, 0.5)
        acted.work(5)
    steps = acted.finish()
    assert [kind for kind, _, _ in steps] == ["train"] * 6
    assert steps[0] == ("train", 17.0, {**STEP, "data": 11.0})
    assert steps[1] == ("train", 7.0, STEP)
    assert steps[2] == ("train", 12.5, {**STEP, "data": 1.5})
    assert [seg.first for seg in acted.steps] == [True, False, False, True, False, False]
    assert [seg.batches for seg in acted.steps] == [1] * 6
    assert [seg.n for seg in acted.steps] == list(range(6))
    assert not any(seg.partial for seg in acted.steps)
    assert sum(seg.end - seg.start for seg in acted.steps) == acted.now - 5 * MS, "the script's end is no step's time"


def test_work_after_the_step_is_other_and_never_data() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for _ in range(4):
        acted.train_step(source)
        acted.work(15)
    steps = acted.finish()
    assert [duration for _, duration, _ in steps] == [22, 22, 22, 7]
    assert all(phases == STEP for _, _, phases in steps)


def test_validation_inside_the_loop_is_eval_in_the_step_and_steps_of_its_own() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for step in range(4):
        acted.train_step(source)
        if step == 1:
            other = acted.construct(Source(1), 4)
            for _ in range(3):
                acted.batch(other, 2)
                acted.work(6)
            acted.stop(other, 1)
            acted.work(2)
    steps = acted.finish()
    train = [step for step in steps if step[0] == "train"]
    evals = [step for step in steps if step[0] == "eval"]
    assert train[1] == ("train", 38.0, {**STEP, "eval": 29.0})
    assert [step[1] for step in evals] == [12.0, 8.0, 9.0]
    assert [seg.kind for seg in acted.steps if not seg.work] == ["eval"] * 3
    assert [note[0] for note in acted.notes] == ["eval"]
    assert sum(duration for _, duration, _ in train) * MS == acted.now


def test_validation_after_the_epoch_belongs_to_its_last_step() -> None:
    acted = Acted()
    for epoch in range(2):
        source = acted.construct(Source(0, epoch))
        for _ in range(2):
            acted.train_step(source)
        acted.stop(source)
        other = acted.construct(Source(1, epoch))
        for _ in range(3):
            acted.batch(other, 2)
            acted.work(8)
        acted.stop(other)
        acted.work(3)
    train = [step for step in acted.finish() if step[0] == "train"]
    assert [step[1] for step in train] == [7, 40, 7, 37]
    assert train[1][2] == train[3][2] == {**STEP, "eval": 30.0}


def test_validation_left_by_break_ends_when_its_iterator_is_dropped() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.train_step(source)
    other = acted.construct(Source(1))
    acted.batch(other, 2)
    acted.work(8)
    acted.ledger.close(other, acted.now)
    acted.work(5)
    acted.train_step(source)
    steps = acted.finish()
    assert ("train", 22.0, {**STEP, "eval": 10.0}) in steps
    assert ("eval", 10.0, {"data": 2.0}) in steps


def test_validation_left_without_a_word_ends_at_the_next_training_batch() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.train_step(source)
    other = acted.construct(Source(1))
    acted.batch(other, 2)
    acted.work(8)
    acted.train_step(source)
    steps = acted.finish()
    assert ("train", 17.0, {**STEP, "eval": 10.0}) in steps
    assert [kind for kind, _, _ in steps].count("train") == 2


def test_training_left_by_break_keeps_what_follows_in_its_last_step() -> None:
    acted = Acted()
    for epoch in range(2):
        source = acted.construct(Source(0, epoch))
        acted.train_step(source)
        acted.train_step(source)
        acted.ledger.close(source, acted.now)
        acted.work(4)
    assert [step[1] for step in acted.finish()] == [7, 11, 7, 7]


def test_the_last_step_of_a_training_counts_and_its_scripts_end_does_not() -> None:
    for ending in ("exhausted", "left", "saved"):
        acted = Acted()
        source = acted.construct(Source(0))
        for _ in range(100):
            acted.train_step(source)
        if ending != "left":
            acted.stop(source)
        if ending == "saved":
            acted.work(2)
            token = acted.ledger.enter("checkpoint", acted.now)
            acted.work(5)
            acted.ledger.leave(token, acted.now)
        acted.work(60_000)
        steps = acted.finish()
        assert [kind for kind, _, _ in steps] == ["train"] * 100
        assert not any(seg.partial for seg in acted.steps), ending
        assert steps[-1] == (("train", 14, {**STEP, "checkpoint": 5}) if ending == "saved" else ("train", 7, STEP))
        assert acted.steps[-1].cpu is None or acted.steps[-1].cpu <= 14 * MS


def test_a_step_that_the_end_cuts_short_stays_partial() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.train_step(source)
    acted.batch(source, 1)
    acted.work(2)
    acted.backward(3)
    assert [step[0] for step in acted.finish()] == ["train", "train"]
    assert [seg.partial for seg in acted.steps] == [False, True]
    acted = Acted()
    source = acted.construct(Source(0))
    acted.train_step(source)
    acted.ledger.enter("checkpoint", acted.now)
    acted.work(3)
    acted.finish()
    assert [seg.partial for seg in acted.steps] == [True], "killed while it saved"


def test_evaluation_alone_gives_steps_without_backward() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for _ in range(5):
        acted.batch(source, 2)
        acted.work(6)
    acted.stop(source)
    steps = acted.finish()
    assert [step[:2] for step in steps] == [("eval", 8.0)] * 5
    assert all(seg.kind is None for seg in acted.steps)


def test_a_long_pass_without_backward_is_given_out_as_it_goes() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for _ in range(100):
        acted.batch(source, 20)
        acted.work(60)
    assert len(acted.steps) > 60


def test_accumulation_asks_for_a_batch_before_each_backward() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for step in range(8):
        acted.batch(source, 1)
        acted.work(2)
        acted.backward(3)
        if step % 4 == 3:
            acted.optimizer(1)
    acted.finish()
    assert [seg.optimizer for seg in acted.steps] == [False, False, False, True] * 2
    assert all(seg.batches == 1 and seg.work for seg in acted.steps)


def test_accumulation_that_fetches_ahead_is_one_step() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for _ in range(3):
        for _ in range(4):
            acted.batch(source, 1)
        for _ in range(4):
            acted.work(2)
            acted.backward(3)
        acted.optimizer(1)
    steps = acted.finish()
    assert steps == [("train", 25.0, {"data": 4.0, "forward": 8.0, "backward": 12.0, "optimizer": 1.0})] * 3
    assert [seg.batches for seg in acted.steps] == [4, 4, 4]
    assert [seg.samples for seg in acted.steps] == [16, 16, 16]


def test_a_loader_that_stays_one_batch_ahead() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.batch(source, 1)
    for _ in range(3):
        acted.copy(0.5)
        acted.batch(source, 1)
        acted.work(2)
        acted.backward(3)
        acted.optimizer(1)
    acted.copy(0.5)
    acted.stop(source, 0.1)
    acted.work(2)
    acted.backward(3)
    acted.optimizer(1)
    steps = acted.finish()
    assert [kind for kind, _, _ in steps] == ["train"] * 4
    assert [seg.batches for seg in acted.steps] == [2, 1, 1, 0]
    assert steps[1][2] == {**STEP, "h2d": 0.5}
    assert steps[3][2] == {**STEP, "data": 0.1}, "the batch that it still held makes a step of its own"
    assert sum(duration for _, duration, _ in steps) * MS == acted.now


def test_what_follows_an_exhausted_loader_without_backward_is_part_of_its_last_step() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    for epoch in range(2):
        for _ in range(2):
            acted.batch(source, 1)
            acted.work(2)
            acted.backward(3)
        acted.stop(source, 0.5)
        acted.optimizer(1)  # what is left of an accumulation
        acted.work(4)
        if epoch == 0:
            source = acted.construct(Source(0, 1))
    steps = acted.finish()
    assert [duration for _, duration, _ in steps] == [6, 11.5, 6, 7.5]
    assert [seg.optimizer for seg in acted.steps] == [False, True, False, True]
    assert steps[1][2] == {"data": 1.5, "forward": 2, "backward": 3, "optimizer": 1}
    assert not acted.steps[-1].partial


def test_a_validation_whose_iterator_is_kept_is_eval_in_the_step_it_followed() -> None:
    acted = Acted()
    train, held = acted.construct(Source(0)), Source(1)
    acted.train_step(train)
    acted.construct(held)
    for _ in range(2):
        acted.batch(held, 1)
        acted.work(4)
    acted.construct(again := Source(0, 1))
    acted.train_step(again)
    acted.train_step(again)
    steps = acted.finish()
    assert [kind for kind, _, _ in steps] == ["train", "eval", "eval", "train", "train"]
    assert steps[0][2] == {**STEP, "eval": 10}
    assert [note[0] for note in acted.notes] == ["eval", "epoch"]


def test_gan_with_two_loaders_trains_on_both() -> None:
    acted = Acted()
    one, two = acted.construct(Source(0)), acted.construct(Source(1))
    for _ in range(4):
        acted.train_step(one)
        acted.train_step(two)
    steps = acted.finish()
    assert [step[0] for step in steps] == ["train"] * 8
    assert [seg.source.loader_id for seg in acted.steps] == [0, 1] * 4
    assert all(step == ("train", 7.0, STEP) for step in steps[1:])


def test_two_loaders_zipped_are_one_step() -> None:
    acted = Acted()
    one, two = acted.construct(Source(0), 1), acted.construct(Source(1), 1)
    for _ in range(4):
        acted.batch(one, 1)
        acted.train_step(two)
    steps = acted.finish()
    assert [step[:2] for step in steps] == [("train", 10.0)] + [("train", 8.0)] * 3
    assert [seg.batches for seg in acted.steps] == [2] * 4
    assert steps[1][2] == {**STEP, "data": 2.0}


def test_a_second_loader_asked_for_after_some_preparation_joins_in_the_end() -> None:
    acted = Acted()
    one, two = acted.construct(Source(0)), acted.construct(Source(1))
    for _ in range(8):
        acted.batch(one, 1)
        acted.work(10)
        acted.train_step(two)
    steps = acted.finish()
    assert [step[0] for step in steps][-5:] == ["train"] * 5
    assert [seg.batches for seg in acted.steps][-5:] == [2] * 5


def test_a_batch_looked_at_first_is_outside_of_training() -> None:
    acted = Acted()
    look = acted.construct(Source(0, 0), 5)
    acted.batch(look, 5)
    acted.ledger.close(look, acted.now)
    acted.work(1000)
    source = acted.construct(Source(0, 1))
    for _ in range(2):
        acted.train_step(source)
    assert [step[:2] for step in acted.finish()] == [("eval", 10.0), ("train", 7.0), ("train", 7.0)]


def test_an_iterator_made_early_inside_a_step_takes_no_step_from_it() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.batch(source, 1)
    other = acted.construct(Source(1), 4)
    acted.work(2)
    acted.backward(3)
    acted.optimizer(1)
    acted.train_step(source)
    steps = acted.finish()
    assert [step[0] for step in steps] == ["train", "train"]
    assert steps[0][2] == {**STEP, "data": 5.0}
    assert other.loader_id == 1


def test_an_exhausted_request_and_an_error_close_the_data_mark() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.train_step(source)
    acted.ledger.request(source, acted.now)
    acted.work(2)
    acted.ledger.fail(acted.now)
    acted.work(7)
    steps = acted.finish()
    assert steps == [("train", 9.0, {**STEP, "data": 3.0})]


def test_requests_inside_a_request_are_part_of_it() -> None:
    acted = Acted()
    source, inner = acted.construct(Source(0)), Source(1)
    for _ in range(2):
        acted.ledger.request(source, acted.now)
        assert not acted.ledger.request(inner, acted.now)
        acted.work(3)
        acted.ledger.arrive(acted.now)
        acted.backward(1)
    assert [step[2] for step in acted.finish()] == [{"data": 3.0, "backward": 1.0}] * 2


def test_time_belongs_to_the_innermost_mark() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.batch(source, 1)
    with acted.phase("train"):
        acted.work(2)
        with acted.phase("mine"):
            acted.work(4)
            acted.sync(1)
        acted.backward(3)
        acted.work(5)
    assert acted.finish()[0][2] == {"data": 1.0, "train": 7.0, "mine": 4.0, "sync": 1.0, "backward": 3.0}
    record = to_record(acted.steps[0], "r", 0, knows_backward=True)
    assert record.sync_count == 1
    assert record.sync_ns == MS


def test_an_explicit_mark_beats_an_automatic_one_of_the_same_extent() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.batch(source, 1)
    with acted.phase("my backward"):
        acted.work(0.01)
        acted.backward(3)
    with acted.phase("to device"):
        acted.copy(2)
    phases = acted.finish()[0][2]
    assert phases["my backward"] == pytest.approx(3.01)
    assert phases["to device"] == 2.0
    assert "backward" not in phases
    assert "h2d" not in phases


def test_a_phase_left_open_closes_with_its_step() -> None:
    acted = Acted(knows_backward=False)
    source = Source(0, declared=True)
    acted.batch(source, 1)
    token = acted.ledger.begin_phase("open", acted.now)
    acted.work(2)
    acted.batch(source, 1)
    acted.ledger.end_phase("open", token, acted.now)
    acted.work(1)
    assert [step[2] for step in acted.finish()] == [{"data": 1.0, "open": 2.0}, {"data": 1.0}]


def test_declared_steps_need_no_backward() -> None:
    acted = Acted(knows_backward=False)
    source = acted.construct(Source(0, declared=True), 1)
    for _ in range(3):
        acted.batch(source, 1)
        with acted.phase("compute"):
            acted.work(5)
    acted.stop(source)
    steps = acted.finish()
    assert [step[2] for step in steps] == [{"data": 2.0, "compute": 5.0}] + [{"data": 1.0, "compute": 5.0}] * 2
    assert to_record(acted.steps[0], "r", 0, knows_backward=False).had_backward is None


def test_declared_validation_inside_declared_training() -> None:
    acted = Acted(knows_backward=False)
    source = acted.construct(Source(0, declared=True))
    for step in range(3):
        acted.batch(source, 1)
        with acted.phase("forward"):
            acted.work(2)
        with acted.phase("backward"):
            acted.work(3)
        if step == 1:
            other = acted.construct(Source(1, declared=True))
            for _ in range(2):
                acted.batch(other, 1)
                with acted.phase("forward"):
                    acted.work(4)
            acted.stop(other)
    steps = acted.finish()
    assert [step[:2] for step in steps] == [
        ("train", 6.0), ("train", 16.0), ("eval", 5.0), ("eval", 5.0), ("train", 6.0),
    ]  # fmt: skip
    assert steps[1][2] == {"data": 1.0, "forward": 2.0, "backward": 3.0, "eval": 10.0}
    assert steps[2][2] == {"data": 1.0, "forward": 4.0}
    assert [seg.kind for seg in acted.steps] == [None, None, "eval", "eval", None]


def test_batches_fetched_by_hand_inside_declared_steps_are_their_data() -> None:
    acted = Acted()
    declared = acted.construct(Source(0, declared=True))
    inner = acted.construct(Source(1))
    for _ in range(3):
        acted.batch(declared, 0)
        with acted.phase("load"):
            acted.batch(inner, 4)
        acted.work(2)
        acted.backward(3)
    steps = acted.finish()
    assert [step[0] for step in steps] == ["train"] * 3
    assert steps[2][2] == {"load": 4.0, "data": 0.0, "forward": 2.0, "backward": 3.0} or steps[2][2] == {
        "data": 4.0, "load": 0.0, "forward": 2.0, "backward": 3.0,
    }  # fmt: skip


def test_a_loop_without_a_loader_steps_with_its_optimizer() -> None:
    acted = Acted()
    for _ in range(4):
        acted.work(2)
        acted.backward(3)
        acted.optimizer(1)
    steps = acted.finish()
    assert steps[:3] == [("train", 6.0, {"forward": 2.0, "backward": 3.0, "optimizer": 1.0})] * 3
    assert acted.steps[0].source.loader_id is None


def test_marks_outside_of_steps_are_nothing() -> None:
    acted = Acted()
    with acted.phase("setup"):
        acted.work(5)
    acted.sync(1)
    acted.backward(1)
    acted.copy(1)
    assert acted.finish() == []


def test_own_cost_is_a_phase_and_comes_out_of_unmarked_time() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.ledger.loop.mark_ns = MS // 10
    for _ in range(3):
        acted.train_step(source)
        acted.work(1)
        acted.ledger.loop.mark_ns = MS // 10
    phases = acted.finish()[1][2]
    assert phases["self"] == pytest.approx(0.3), "a request, a backward, an optimizer step"
    assert {name: ms for name, ms in phases.items() if name != "self"} == STEP


EVENTS = st.lists(
    st.tuples(st.sampled_from("abcdexyzsoptkwfvnmrRAqQBOSK"), st.integers(0, 30)), min_size=1, max_size=120
)  # fmt: skip


FOUND = ("anrt", "brmc", "cnRva", "oScoRtb", "oORtc", "reRKb", "Orob", "OdRo", "OeroARc")
"""Orders that once broke it."""


def found(test: Any) -> Any:
    for order in FOUND:
        test = example(events=[(name, 20) for name in order], knows=True)(test)
    return test


@found
@settings(max_examples=150, deadline=None)
@given(events=EVENTS, knows=st.booleans())
def test_no_order_of_marks_breaks_the_sum(events: list[tuple[str, int]], knows: bool) -> None:
    acted = Acted(knows_backward=knows)
    sources = {name: Source(i, declared=name == "c") for i, name in enumerate("abc")}
    tokens = []
    for name, ms in events:
        act(acted, name, ms, sources, tokens)
    acted.finish()
    for seg in acted.steps:
        seg.settle()
        assert seg.end >= seg.start
        assert all(ns >= 0 for ns in seg.phases.values()), seg.phases
        assert sum(seg.phases.values()) <= seg.end - seg.start
        assert "" not in seg.phases
    top = [seg for seg in acted.steps if seg.kind != "eval"]
    for earlier, later in itertools.pairwise(top):
        assert earlier.end <= later.start


def act(acted: Acted, name: str, ms: int, sources: dict[str, Source], tokens: list[object]) -> None:
    ledger = acted.ledger
    if name in "abc":
        acted.batch(sources[name], ms)
    elif name in "de":
        key = {"d": "a", "e": "b"}[name]
        sources[key] = acted.construct(Source(sources[key].loader_id), ms)
    elif name in "xyz":
        key = {"x": "a", "y": "b", "z": "c"}[name]
        acted.stop(sources[key], ms)
        sources[key] = Source(sources[key].loader_id, declared=key == "c")
    elif name == "s":
        acted.sync(ms)
    elif name == "o":
        acted.optimizer(ms)
    elif name == "p":
        tokens.append(ledger.begin_phase("p", acted.now))
    elif name == "t" and tokens:
        ledger.end_phase("p", tokens.pop(), acted.now)  # type: ignore[arg-type]
    elif name == "k":
        acted.copy(ms)
    elif name == "f":
        ledger.request(sources["a"], acted.now)
        acted.work(ms)
        ledger.fail(acted.now)
    elif name == "v" and tokens:
        ledger.leave(tokens.pop(0), acted.now)  # type: ignore[arg-type]
    elif name == "n":
        tokens.append(ledger.begin_phase("backward", acted.now))
    elif name in "mK":
        ledger.close(sources["b" if name == "m" else "a"], acted.now)
    elif name in "rR":  # interrupted: whether a batch came is not noted
        ledger.request(sources["a" if name == "r" else "b"], acted.now)
        acted.work(ms)
    elif name == "A":
        ledger.arrive(acted.now, 4)
    elif name in "qQ":
        ledger.rest(acted.now, cut_short=name == "Q")
    elif name == "B":
        tokens.append(ledger.backward(acted.now))
        acted.work(ms)
    elif name == "O":
        tokens.append(ledger.optimizer(acted.now, 1))
        acted.work(ms)
    elif name == "S":
        tokens.append(ledger.save(acted.now))
    else:
        acted.backward(ms) if name == "w" else acted.work(ms)


def test_a_segment_says_only_what_is_known() -> None:
    record = to_record(Segment(5, Source(None), 0), "r", 10, knows_backward=True)
    assert record.t == 15
    assert record.loader_id is None
    assert record.samples is None
    assert record.sync_sites is None
