"""One side of a comparison: a run out of a recording, with its figures, settings, GPU and verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gputop.recording.past import Info, RunSpan
from gputop.recording.reader import Recording
from gputop.records import Loader, Model, Run, Verdict
from gputop.report.account import GpuAccount
from gputop.report.diff_figures import Figures, RankFigures, figures, rank_figures, train_loader
from gputop.report.diff_pick import choose
from gputop.report.judged import Judged, judge_trace
from gputop.report.reading import SHORT_RECORDS, SHORT_STEPS
from gputop.report.sampled import judge_recording

EXACT_STEPS = 100_000
"""Steps of a recording up to which each is read: about a second. Beyond, its sums by the second are read."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a recording; `ranks` are all runs of its job by rank, itself among them."""

    source: str
    run: Run
    ranks: dict[int, RankFigures]
    figures: Figures
    loader: Loader | None
    model: Model | None
    verdict: Verdict | None
    gpu: GpuAccount | None
    gpu_name: str | None
    gpu_mem_total_bytes: int | None
    simulated: bool
    warnings: tuple[str, ...] = ()

    @property
    def job_batch(self) -> float | None:
        """Samples a step of all ranks together, as far as the world's size is known."""
        batch = self.figures.batch
        return None if batch is None else batch * max(1, self.run.world_size or len(self.ranks))


def load(
    recording: Recording,
    wanted: str | None = None,
    option: str = "--run",
    progress: Callable[[float], None] | None = None,
) -> Side:
    """The run of a recording that is to be compared, with everything that is. Raises Choice and Unreadable.

    `wanted` is its id or the beginning of that, `option` what the person calls it, `progress` is told the share done.
    """
    info = recording.info()
    span, ranks, warnings = choose(recording.path, info, wanted, option)
    exact = info.steps <= EXACT_STEPS
    return side(recording, _judged(recording, info, progress), span, ranks, warnings, exact)


def _judged(recording: Recording, info: Info, progress: Callable[[float], None] | None) -> Judged:
    """The recording under today's rules, as a report on it would judge it."""
    source = str(recording.path)
    if info.steps > SHORT_STEPS or info.records > SHORT_RECORDS:
        return judge_recording(recording, info, source, progress)
    records = sorted(recording.records(), key=lambda record: (record.t, not isinstance(record, Run)))
    return judge_trace(records, source, progress)


def side(
    recording: Recording,
    judged: Judged,
    span: RunSpan,
    ranks: dict[int, str],
    warnings: Sequence[str] = (),
    exact: bool = True,
) -> Side:
    """Everything that is compared of one run; `exact`: from every step, else from sums."""
    run_id = span.run.run_id
    loaders = [one for one in recording.records(types=(Loader,)) if isinstance(one, Loader) and one.run_id == run_id]
    models = [one for one in recording.records(types=(Model,)) if isinstance(one, Model) and one.run_id == run_id]
    trains = train_loader(recording, span)
    trained = [one for one in loaders if one.loader_id == trains] or loaders
    report = judged.runs.get(run_id)
    uuid, _ = judged.watch.timeline.match(span.run)
    track = judged.watch.timeline.gpus.get(uuid) if uuid is not None else None
    latest = track.samples[-1] if track is not None and track.samples else None
    return Side(
        source=str(recording.path),
        run=span.run,
        ranks={rank: one for rank, name in ranks.items() if (one := rank_figures(recording, name)) is not None},
        figures=figures(recording, span, exact),
        loader=trained[-1] if trained else None,
        model=models[-1] if models else None,
        verdict=report.verdict if report is not None else None,
        gpu=judged.gpus.get(uuid) if uuid is not None else None,
        gpu_name=span.run.gpu_name or (latest.name if latest is not None else None),
        gpu_mem_total_bytes=latest.mem_total_bytes if latest is not None else None,
        simulated=bool(span.run.simulated),
        warnings=tuple(warnings),
    )
