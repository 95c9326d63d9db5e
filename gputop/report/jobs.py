"""Ranks of one job told together: what holds the job back, and which ranks differ from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gputop.diagnosis.numbers import median

STEP_RATIO = 0.1
"""A rank's usual step is out of line when it differs by this share from the ranks' median."""

DATA_POINTS = 10.0
"""The same for its share of data wait, in points of percent."""

UTIL_POINTS = 20.0
"""The same for its GPU's mean utilization: neighbouring devices of a healthy job differ by less."""

LEAST_RANKS = 3
"""Ranks from which a median says what is usual; of two that differ, neither is the odd one."""

Json = dict[str, Any]


class Outlier(msgspec.Struct, frozen=True):
    """A rank that differs from the others, and in what, in words."""

    run_id: str
    rank: int | None
    why: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are ranks of one job, in order of rank. `lead` is the run whose verdict stands for the job."""

    script: str | None
    world_size: int | None
    run_ids: tuple[str, ...]
    lead: str
    outliers: tuple[Outlier, ...] = ()


def jobs(runs: Sequence[Json]) -> tuple[Job, ...]:
    """The jobs of a report's runs (as in its JSON): a run that has no other rank beside it is a job of its own."""
    groups: list[list[Json]] = []
    for run in runs:
        group = next((one for one in groups if _belongs(run, one)), None) if (run["world_size"] or 1) > 1 else None
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return tuple(_job(sorted(group, key=lambda run: run["rank"] or 0)) for group in groups)


def _belongs(run: Json, group: Sequence[Json]) -> bool:
    """Whether a run is another rank of the group's job: a rank that is there already belongs to a later launch."""
    first = group[0]
    same = (run["script"], run["world_size"]) == (first["script"], first["world_size"])
    return same and all(other["rank"] != run["rank"] for other in group)


def _job(group: Sequence[Json]) -> Job:
    lead = _lead(group)
    return Job(
        script=lead["script"],
        world_size=lead["world_size"],
        run_ids=tuple(run["run_id"] for run in group),
        lead=lead["run_id"],
        outliers=tuple(_outliers(group, lead["verdict"]["cause"])) if len(group) > 1 else (),
    )


def _lead(group: Sequence[Json]) -> Json:
    """The run that speaks for all: of the cause that most ranks have (a rank that is itself the straggler is named by
    all others), the surest."""
    counts = Counter(run["verdict"]["cause"] for run in group)
    cause, _ = counts.most_common(1)[0]
    return max((run for run in group if run["verdict"]["cause"] == cause), key=lambda run: run["verdict"]["confidence"])


def _outliers(group: Sequence[Json], cause: str) -> list[Outlier]:
    usual = {
        "step": _middle([_p50(run) for run in group]),
        "data": _middle([run["phases_pct"]["data"] for run in group]),
        "util": _middle([_util(run) for run in group]),
    }
    found = []
    for run in group:
        why = _differs(run, cause, usual if len(group) >= LEAST_RANKS else {})
        if why:
            found.append(Outlier(run["run_id"], run["rank"], ", ".join(why)))
    return found


def _differs(run: Json, cause: str, usual: Mapping[str, float | None]) -> list[str]:
    why = []
    if run["verdict"]["cause"] != cause:
        why.append(run["verdict"]["cause"])
    step, middle = _p50(run), usual.get("step")
    if step is not None and middle and abs(step - middle) > STEP_RATIO * middle:
        why.append(f"steps {100 * abs(step / middle - 1):.0f} % {'longer' if step > middle else 'shorter'}")
    data, middle = run["phases_pct"]["data"], usual.get("data")
    if data is not None and middle is not None and abs(data - middle) > DATA_POINTS:
        why.append(f"waits for data {data:.0f} % of the time, others {middle:.0f} %")
    util, middle = _util(run), usual.get("util")
    if util is not None and middle is not None and abs(util - middle) > UTIL_POINTS:
        why.append(f"GPU used {util:.0f} %, others {middle:.0f} %")
    return why


def _p50(run: Json) -> float | None:
    value: float | None = (run.get("steady_ms") or run["step_ms"])["p50"]
    return value


def _util(run: Json) -> float | None:
    value: float | None = (run["gpu"] or {}).get("util_mean_pct")
    return value


def _middle(values: Sequence[float | None]) -> float | None:
    return median([value for value in values if value is not None])
