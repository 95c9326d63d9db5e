"""Random loops judged and compared with what taking each resource away gains: how often the verdict is right.

`python -m tests.simulation.loops 0 1000` prints every loop that is judged otherwise, by its seed, and the score.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from gputop.diagnosis.verdict import Judge
from gputop.records import Verdict, end_of
from gputop.simulation.drawn import draw
from gputop.simulation.physics import Physics
from gputop.simulation.trace import trace
from gputop.simulation.whatif import LEAST_GAIN, REMEDIES, TIE, gains, named, speed
from gputop.timeline import Timeline

CLEAR = 1.1
"""Gain of the best remedy over that of the best one that gains less: with less between them, nobody can say."""

NEAR = 0.15
"""How far a promised speed-up may lie from the one that taking the resource away brings."""

SEED_STEPS, FULL_STEPS = 120, 200
"""Steps simulated for each remedy: where there is little time, and where there is more."""

S = 1_000_000_000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A loop's truth and its verdict. `gained`: speed with plenty of the true resource over speed now.

    `clear`: one remedy gains clearly more than all others, or none gains anything.
    """

    seed: int
    truth: str
    clear: bool
    gained: float
    second: str
    verdict: Verdict

    @property
    def right(self) -> bool:
        """Whether the cause is the true one."""
        return self.verdict.cause == self.truth

    @property
    def fair(self) -> bool:
        """For a loop that is not clear: nothing was said, or one of the two that are close, or one runs up."""
        close = {self.truth, self.second, "unknown", "gpu-bound", "cpu-bound"}
        return self.verdict.cause in close or (
            self.verdict.runner_up is not None and self.verdict.runner_up.cause == self.truth
        )

    @property
    def promised(self) -> float | None:
        """Promised over true speed-up, where a fault was named rightly."""
        limit = self.verdict.speedup_limit
        return None if limit is None or not self.right or self.gained < LEAST_GAIN else limit / self.gained


def watched(physics: Physics, seed: int, seconds: float, every_s: int = 1) -> list[Verdict]:
    """The verdicts of a loop watched from its start, one every so many seconds after the first ten."""
    timeline, judge, said = Timeline(), Judge(), []
    run_id = f"sim-custom-{seed}"
    due = None
    for record in trace(physics, seconds=seconds, seed=seed):
        due = record.t + 10 * S if due is None else due
        while end_of(record) > due:
            said.append(judge.update(timeline.window(run_id, due)))
            due += every_s * S
        timeline.add(record)
    said.append(judge.update(timeline.window(run_id, timeline.last_ns or 0)))
    return said


def outcome(seed: int, steps: int = FULL_STEPS, every_s: int = 1) -> Outcome:
    """Judge the loop of a seed and find its truth."""
    physics = draw(seed)
    found = gains(physics, 90, seed, steps)
    truth = named(physics, found, 10, seed)
    best = max(found.values())
    lesser = {cause: gain for cause, gain in found.items() if gain < best * TIE}
    second = max(lesser, key=lesser.__getitem__, default=truth)
    clear = best >= LEAST_GAIN and best / lesser.get(second, 1.0) >= CLEAR
    step_s = 1 / speed(physics, 60, seed, 40)
    if best < LEAST_GAIN / 1.05:
        clear = speed(_healed(physics), 90, seed, steps) * step_s < 1.15
    verdict = watched(physics, seed, min(120.0, max(22.0, 100 * step_s)), every_s)[-1]
    return Outcome(seed=seed, truth=truth, clear=clear, gained=best, second=second, verdict=verdict)


def _healed(physics: Physics) -> Physics:
    """The loop with plenty of everything: where it is faster though no single remedy helps, two limits are equal."""
    for remedy in REMEDIES.values():
        physics = remedy(physics)
    return replace(physics, jitter=0.0)


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the clear loops are right, of the others fair, and of the promises near."""

    clear: int
    right: int
    unclear: int
    fair: int
    promises: int
    near: int
    missed: tuple[tuple[str, str, int], ...]

    def __str__(self) -> str:
        pairs = [("right", self.right, self.clear), ("fair", self.fair, self.unclear),
                 ("promised within 15 %", self.near, self.promises)]  # fmt: skip
        text = ", ".join(
            f"{name} {part} of {whole} ({100 * part / max(1, whole):.1f} %)" for name, part, whole in pairs
        )
        return "\n".join([text, *(f"  {n} x {truth} called {said}" for truth, said, n in self.missed)])


def score(outcomes: Iterable[Outcome]) -> Score:
    """Count them."""
    seen = list(outcomes)
    clear = [one for one in seen if one.clear]
    ratios = [one.promised for one in clear if one.promised is not None]
    missed = Counter((one.truth, one.verdict.cause) for one in clear if not one.right)
    return Score(
        clear=len(clear),
        right=sum(one.right for one in clear),
        unclear=len(seen) - len(clear),
        fair=sum(one.fair for one in seen if not one.clear),
        promises=len(ratios),
        near=sum(abs(ratio - 1) <= NEAR for ratio in ratios),
        missed=tuple((truth, said, n) for (truth, said), n in missed.most_common()),
    )


def main(first: int, last: int) -> None:
    """Judge the loops of some seeds, printing those that are judged otherwise."""
    done = []
    for seed in range(first, last):
        one = outcome(seed)
        done.append(one)
        if one.clear and not one.right:
            print(f"seed {seed}: {one.truth} ({one.gained:.2f}) called {one.verdict.cause}: {one.verdict.headline}")
    print(score(done))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
