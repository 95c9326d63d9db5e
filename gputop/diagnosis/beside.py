"""Work of the loop that no mark tells from the model's: `forward` is all that comes between a batch and backward, and
stack samples show how much of it torch was not asked for."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.records import SiteSample
from gputop.window import Window

LEAST_SAMPLES = 20
"""Samples of forward from which their shares mean something: 20 are 2 s of a loop that does nothing else."""

LEAST_IN_TORCH = 0.03
"""Share of them that must be inside of torch: where hardly any is, the model is not called as a module."""

LEAST_SHARE = 0.15
"""Share beside the model from which it counts: a loss written by hand, moving and reshaping are the model's."""


LITTLE_OTHER = 0.1
"""Share of the time after the update, in a loop without a loader, up to which what is found outside of any phase is
found between the update and backward: that is told to be forward only when backward comes."""


def beside_share(window: Window, other: float = 0.0) -> float:
    """Share of forward in which the training thread works beside the model; 0 where that is not known or too little.

    Only where the model is known to be a module: operators on bare tensors leave no frame of torch's either. `other`:
    share of the time that is in no phase.
    """
    seen = within = 0
    if window.model is None or not window.model.name or (other > LITTLE_OTHER and _without_loader(window)):
        return 0.0
    for sample in _of_forward(window):
        seen += sample.samples
        within += sample.in_torch or 0
    if seen < LEAST_SAMPLES or within < LEAST_IN_TORCH * seen:
        return 0.0
    share = 1 - within / seen
    return share if share >= LEAST_SHARE else 0.0


def beside_site(window: Window) -> str | None:
    """The line at which the thread was found most often beside the model."""
    seen: dict[str, int] = {}
    for sample in _of_forward(window):
        seen[sample.site] = seen.get(sample.site, 0) + sample.samples - (sample.in_torch or 0)
    return max(seen, key=seen.__getitem__) if any(seen.values()) else None


def _of_forward(window: Window) -> Iterator[SiteSample]:
    """The samples of forward that say whether torch was at work."""
    phases = ("forward", "other") if _without_loader(window) else ("forward",)
    for record in window.sites:
        yield from (one for one in record.sites if one.phase in phases and one.in_torch is not None)


def _without_loader(window: Window) -> bool:
    """Whether a step begins with the end of the last one, as no loader and no mark tells when it has its batch."""
    return not any(step.loader_id is not None or "data" in step.phases_ns for step in window.steps)
