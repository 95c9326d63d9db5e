"""Questions: each at its own pace, with its own memory of what can't be had."""

from __future__ import annotations

from typing import Any

from gputop.samplers.asking import ALWAYS, ONCE, RETRY_NS, SLOW_NS, Answers, Failed, Question, Unsupported
from gputop.samplers.protocol import S, unheard


class Source:
    """Answers with what it holds; counts how often it is asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []

    def question(self, field: str, every_ns: int) -> Question[Source]:
        def ask(source: Source) -> dict[str, Any]:
            source.asked.append(field)
            answer = source.answers.get(field)
            if isinstance(answer, Exception):
                raise answer
            return {field: answer}

        return Question(f"call_{field}", [field], ask, every_ns)


def both(source: Source, *paces: int) -> Answers[Source]:
    names = "abc"
    return Answers(
        [source.question(names[at], pace) for at, pace in enumerate(paces)], lambda e: isinstance(e, Unsupported)
    )


def test_each_question_keeps_its_own_pace() -> None:
    source = Source()
    answers = both(source, ALWAYS, SLOW_NS, ONCE)
    for second in range(5):
        answers.gather(source, second * S, unheard)
    assert [source.asked.count(field) for field in "abc"] == [5, 3, 1]


def test_a_slow_answer_is_kept_between_and_dropped_when_it_fails() -> None:
    source = Source()
    answers = both(source, SLOW_NS)
    source.answers["a"] = 7
    answers.gather(source, 0, unheard)
    answers.gather(source, S, unheard)
    assert answers.fields() == {"a": 7}
    source.answers["a"] = Failed("gone")
    answers.gather(source, 2 * S, unheard)
    assert answers.fields() == {"failed": ["a"]}


def test_unsupported_is_asked_again_rarely_and_failed_soon() -> None:
    source = Source()
    answers = both(source, ALWAYS, ALWAYS)
    source.answers = {"a": Unsupported(), "b": Failed()}
    answers.gather(source, 0, unheard)
    assert answers.fields() == {"unsupported": ["a"], "failed": ["b"]}
    source.answers = {"a": 1, "b": 2}
    answers.gather(source, S, unheard)
    assert answers.fields() == {"b": 2, "unsupported": ["a"]}
    answers.gather(source, RETRY_NS, unheard)
    assert answers.fields() == {"a": 1, "b": 2}


def test_one_field_of_a_call_may_be_unsupported_alone() -> None:
    question: Question[None] = Question("call", ["a", "b"], lambda _: {"a": 1, "b": Unsupported})
    answers = Answers([question], lambda _: False)
    answers.gather(None, 0, unheard)
    assert answers.fields() == {"a": 1, "unsupported": ["b"]}


def test_the_call_is_named_before_it_is_made_and_cleared_after() -> None:
    said: list[str] = []
    source = Source()
    Answers([source.question("a", ALWAYS)], lambda _: False, " gpu 3").gather(source, 0, said.append)
    assert said == ["call_a gpu 3", ""]
