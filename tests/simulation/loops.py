"""Random loops judged and compared with what taking each resource away gains: how often the verdict is right.

`python -m tests.simulation.loops 0 1000 [FILE]` prints every loop that is judged otherwise, by its seed, the score and
the confusion matrix. Outcomes are kept in FILE, and a run that was broken off goes on from there.
`python -m tests.simulation.loops healthy 0 200` prints which healthy loops and jobs are accused of anything.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from gputop.diagnosis.verdict import Judge
from gputop.records import Verdict, end_of
from gputop.simulation.drawn import draw, draw_healthy, in_job
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

SECONDS = 300
"""Simulated time, s, after which a remedy's steps are no longer awaited."""

SLOW_TIMES = 5
"""How many times as many where single slow samples may hold a loop up: of so few steps, some three are."""

ACCUSES_NOBODY = ("gpu-bound", "small-model", "unknown", "warmup")
"""What may be said of a loop in which nothing is wrong."""

SURE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Confidence between which and the next one verdicts are counted together."""

S = 1_000_000_000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A loop's truth and its verdict. `gained`: speed with plenty of the true resource over speed now.

    `clear`: one remedy gains clearly more than all others but those that take the same away, or none gains anything.
    `here`: seen from a late rank, what makes it late, by remedies that gain as much as having it as quick as others.
    """

    seed: int
    truth: str
    clear: bool
    gained: float
    second: str
    verdict: Verdict
    here: tuple[str, ...] = ()
    world: int = 1

    @property
    def right(self) -> bool:
        """Whether the cause is the true one."""
        return self.verdict.cause == self.truth or self.verdict.cause in self.here

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
    """The verdicts of a loop watched from its start, one every so many seconds after the first ten.

    Of a job the one on a rank drawn by the seed.
    """
    timeline, judge, said = Timeline(), Judge(), []
    rank = rank_of(physics, seed)
    run_id = f"sim-custom-{seed}" + (f"-r{rank}" if rank else "")
    due = None
    for record in trace(physics, seconds=seconds, seed=seed):
        due = record.t + 10 * S if due is None else due
        while end_of(record) > due:
            said.append(judge.update(timeline.window(run_id, due)))
            due += every_s * S
        timeline.add(record)
    said.append(judge.update(timeline.window(run_id, timeline.last_ns or 0)))
    return said


def rank_of(physics: Physics, seed: int) -> int:
    """The rank from which a job is judged."""
    return Random(seed).randrange(physics.ranks.world)


def outcome(seed: int, steps: int = FULL_STEPS, every_s: int = 1) -> Outcome:
    """Judge the loop of a seed and find its truth."""
    physics = draw(seed)
    steps *= SLOW_TIMES if physics.input.slow_share else 1
    found = gains(physics, SECONDS, seed, steps)
    truth = named(physics, found, 10, seed)
    best = max(found.values())
    lesser = {cause: gain for cause, gain in found.items() if gain < best * TIE}
    second = max(lesser, key=lesser.__getitem__, default=truth)
    clear = best >= LEAST_GAIN and best / lesser.get(second, 1.0) >= CLEAR
    tied = beside(physics, found, seed, steps) if clear else None
    if tied is not None:
        clear, second = False, tied
    step_s = 1 / speed(physics, 60, seed, 40)
    if best < LEAST_GAIN / 1.05:
        clear = speed(_healed(physics), SECONDS, seed, steps) * step_s < 1.15
    verdict = watched(physics, seed, min(120.0, max(22.0, 100 * step_s)), every_s)[-1]
    here: tuple[str, ...] = ()
    if truth == "straggler" and rank_of(physics, seed) == physics.ranks.late:
        here = tuple(cause for cause, gain in found.items() if gain >= best * TIE)
    return Outcome(
        seed=seed, truth=truth, clear=clear, gained=best, second=second, verdict=verdict, here=here,
        world=physics.ranks.world,
    )  # fmt: skip


def beside(physics: Physics, found: dict[str, float], seed: int, steps: int) -> str | None:
    """Another remedy that gains as much as the one named, where it is of another thing: both together gain much more.

    Of remedies that take the same away, one more thoroughly than the other, none is to be preferred but the lesser.
    """
    best = max(found.values())
    equal = [cause for cause, gain in found.items() if gain >= best * TIE]
    now = speed(physics, SECONDS, seed, steps)
    for other in equal[1:]:
        both = REMEDIES[other](REMEDIES[equal[0]](physics))
        if speed(both, SECONDS, seed, steps) / now >= CLEAR * best:
            return other
    return None


def _healed(physics: Physics) -> Physics:
    """The loop with plenty of everything: where it is faster though no single remedy helps, two limits are equal."""
    for remedy in REMEDIES.values():
        physics = remedy(physics)
    return replace(physics, jitter=0.0)


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the clear loops are right, of the others fair, and of the promises near.

    `alone` and `alone_right` count the clear loops that are no rank of a job. `sure`: clear loops by the confidence of
    the verdict, from one figure to the next: the mean of it, how many, how many right.
    """

    clear: int
    right: int
    alone: int
    alone_right: int
    unclear: int
    fair: int
    promises: int
    near: int
    missed: tuple[tuple[str, str, int], ...]
    table: tuple[tuple[str, int, int], ...]
    sure: tuple[tuple[float, float, float, int, int], ...] = ()

    def __str__(self) -> str:
        pairs = [
            ("right", self.right, self.clear),
            ("of one process", self.alone_right, self.alone),
            ("of several ranks", self.right - self.alone_right, self.clear - self.alone),
            ("fair", self.fair, self.unclear),
            ("promised within 15 %", self.near, self.promises),
        ]
        text = ", ".join(
            f"{name} {part} of {whole} ({100 * part / max(1, whole):.1f} %)" for name, part, whole in pairs
        )
        return "\n".join([text, *(f"  {n} x {truth} called {said}" for truth, said, n in self.missed)])

    def rows(self) -> str:
        """The confusion matrix, a row of Markdown for each truth."""
        lines = ["| truth | loops | right | called otherwise |", "|---|---|---|---|"]
        for truth, whole, right in self.table:
            others = ", ".join(f"`{said}` {n}" for one, said, n in self.missed if one == truth)
            lines.append(f"| `{truth}` | {whole} | {right} | {others} |")
        return "\n".join(lines)

    def calibration(self) -> str:
        """How often verdicts of each confidence are right, a row of Markdown for each."""
        lines = ["| confidence | mean | loops | right |", "|---|---|---|---|"]
        for low, high, mean, whole, right in self.sure:
            lines.append(f"| {low:.2f} to {high:.2f} | {mean:.2f} | {whole} | {right} ({100 * right / whole:.1f} %) |")
        return "\n".join(lines)


def score(outcomes: Iterable[Outcome]) -> Score:
    """Count them."""
    seen = list(outcomes)
    clear = [one for one in seen if one.clear]
    alone = [one for one in clear if one.world == 1]
    ratios = [one.promised for one in clear if one.promised is not None]
    missed = Counter((one.truth, one.verdict.cause) for one in clear if not one.right)
    truths = Counter(one.truth for one in clear)
    return Score(
        clear=len(clear),
        right=sum(one.right for one in clear),
        alone=len(alone),
        alone_right=sum(one.right for one in alone),
        unclear=len(seen) - len(clear),
        fair=sum(one.fair for one in seen if not one.clear),
        promises=len(ratios),
        near=sum(abs(ratio - 1) <= NEAR for ratio in ratios),
        missed=tuple((truth, said, n) for (truth, said), n in missed.most_common()),
        table=tuple(
            (truth, truths[truth], sum(one.right for one in clear if one.truth == truth)) for truth in sorted(truths)
        ),
        sure=tuple(
            (
                low,
                high,
                sum(one.verdict.confidence for one in some) / len(some),
                len(some),
                sum(one.right for one in some),
            )
            for low, high in pairwise(SURE)
            if (some := [one for one in clear if low <= one.verdict.confidence < high])
        ),
    )


def judged(first: int, last: int, kept: Path | None) -> Iterator[Outcome]:
    """The outcomes of some seeds; those that `kept` holds are read from it, the others added to it as they come."""
    done = {}
    if kept is not None and kept.exists():
        lines = kept.read_bytes().splitlines()
        done = {one.seed: one for one in (msgspec.json.decode(line, type=Outcome) for line in lines)}
    for seed in range(first, last):
        one = done.get(seed) or outcome(seed, SEED_STEPS, 4)
        if kept is not None and seed not in done:
            with kept.open("ab") as out:
                out.write(msgspec.json.encode(one) + b"\n")
        yield one


def main(first: int, last: int, kept: Path | None = None) -> None:
    """Judge the loops of some seeds, printing those that are judged otherwise, the score and the matrix."""
    done = []
    for one in judged(first, last, kept):
        done.append(one)
        if one.clear and not one.right:
            print(f"seed {one.seed}: {one.truth} ({one.gained:.2f}) called {one.verdict.cause}: {one.verdict.headline}")
    found = score(done)
    print(found)
    print(found.rows())
    print(found.calibration())


def healthy(first: int, last: int) -> None:
    """Watch the healthy loops of some seeds, alone and as one rank of a job, and print what is said of any."""
    for kind in ("loops of one process", "ranks of a job"):
        said = {}
        for seed in range(first, last):
            physics = draw_healthy(seed)
            physics = physics if kind == "loops of one process" else in_job(Random(seed), physics)
            said[seed] = watched(physics, seed, 24, 2)[-1].cause
        accused = {seed: cause for seed, cause in said.items() if cause not in ACCUSES_NOBODY}
        print(f"{len(said)} healthy {kind}, accused: {accused or 'none'}")


if __name__ == "__main__" and sys.argv[1] == "healthy":
    healthy(int(sys.argv[2]), int(sys.argv[3]))
elif __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
