"""The driver's own utilization samples: what a device did between two ticks, which one rate a second hides.

Their stamps are in a clock of the driver's choosing (microseconds since boot on some, since 1970 on others), so they
are never compared with ours: only stamps that the library gave are given back, and the offset is learnt by looking.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from gputop.records import Burst
from gputop.samplers.nvml_library import NOT_FOUND, code_of

_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union's member for each nvmlValueType_t, in order (nvml.h)."""

POLLS = 60
"""Polls over which the offset is learnt: enough to meet a fresh sample, few enough to follow a clock that drifts."""

DRY = 10
"""Empty answers in a row after which the whole ring is asked for: the driver's clock may have been set back."""


def ask(nvml: Any, handle: Any, last_seen_us: int) -> list[tuple[int, float]]:
    """(stamp in us, percent) newer than the stamp, oldest first; [] when nothing is newer. Raises NVML's errors."""
    try:
        kind, samples = nvml.nvmlDeviceGetSamples(handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, last_seen_us)
    except Exception as error:
        if code_of(error) == NOT_FOUND:
            return []
        raise
    member = _MEMBERS[kind] if 0 <= kind < len(_MEMBERS) else "uiVal"
    return sorted(
        (int(sample.timeStamp), float(value))
        for sample in samples
        if sample.timeStamp and 0 <= (value := getattr(sample.sampleValue, member)) <= 100
    )


class Placing:
    """One device's samples on our clock.

    The newest sample of a poll is between nothing and one sampling period old; the smallest distance lately seen
    between a poll and its newest sample is therefore the best estimate of the offset between the two clocks.
    """

    def __init__(self) -> None:
        self._newest_us = 0
        self._empty = 0
        self._seen_us: deque[int] = deque(maxlen=POLLS)

    @property
    def last_seen_us(self) -> int:
        """The stamp to ask from."""
        return 0 if self._empty >= DRY else self._newest_us

    def place(self, samples: list[tuple[int, float]], now_ns: int, host: str, gpu_uuid: str) -> Burst | None:
        """The new samples as a record, None when there are none."""
        fresh = [sample for sample in samples if sample[0] > self._newest_us]
        if not fresh:
            self._empty = 0 if self._empty >= DRY else self._empty + 1
            if samples and samples[-1][0] < self._newest_us:
                self._newest_us = samples[-1][0]
                self._seen_us.clear()
            return None
        self._empty = 0
        first_us, self._newest_us = fresh[0][0], fresh[-1][0]
        self._seen_us.append(now_ns // 1000 - self._newest_us)
        return Burst(
            t=(first_us + min(self._seen_us)) * 1000,
            host=host,
            gpu_uuid=gpu_uuid,
            dt_ns=[(stamp - first_us) * 1000 for stamp, _ in fresh],
            util_pct=[percent for _, percent in fresh],
        )
