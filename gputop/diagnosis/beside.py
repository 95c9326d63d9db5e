"""Work of the loop that no mark tells from the model's: `forward` is all that comes between a batch and backward, and
stack samples show how much of it torch was not asked for."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.records import Site
from gputop.window import Window

LEAST_SAMPLES = 20
"""Samples of forward from which their shares mean something: 20 are 2 s of a loop that does nothing else."""

LEAST_IN_TORCH = 0.03
"""Share of them that must be inside of torch: where hardly any is, the model is not called as a module."""

LEAST_SHARE = 0.15
"""Share beside the model from which it counts: a loss written by hand, moving and reshaping are the model's."""


def beside_share(window: Window) -> float:
    """Share of forward in which the training thread works beside the model; 0 where that is not known or too little.

    Only where the model is known to be a module: operators on bare tensors leave no frame of torch's either.
    """
    seen = within = 0
    if window.model is None or not window.model.name:
        return 0.0
    for record in window.sites:
        for sample in record.sites:
            if sample.phase == "forward" and sample.in_torch is not None:
                seen += sample.samples
                within += sample.in_torch
    if seen < LEAST_SAMPLES or within < LEAST_IN_TORCH * seen:
        return 0.0
    share = 1 - within / seen
    return share if share >= LEAST_SHARE else 0.0


def beside_site(sites: Iterable[Site]) -> str | None:
    """The line at which the thread was found most often beside the model."""
    seen: dict[str, int] = {}
    for record in sites:
        for sample in record.sites:
            if sample.phase == "forward" and sample.in_torch is not None:
                seen[sample.site] = seen.get(sample.site, 0) + sample.samples - sample.in_torch
    return max(seen, key=seen.__getitem__) if any(seen.values()) else None
