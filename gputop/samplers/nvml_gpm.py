"""What a device's processors really do (GPM, from Hopper on): utilization only says that some kernel was there.

The counters of two samples are differenced, so two buffers a device are kept and swapped. Each metric has a return code
of its own.
"""

from __future__ import annotations

import contextlib
from typing import Any

from gputop.samplers.asking import Failed, Unsupported
from gputop.samplers.nvml_library import NO_PERMISSION, UNSUPPORTED_CODES, code_of
from gputop.samplers.protocol import S

MIB = 1 << 20
ABSENT = UNSUPPORTED_CODES | {NO_PERMISSION}
"""Codes by which a metric is not to be had here. Some drivers keep counters to administrators: nothing has failed."""

LEAST_NS = S // 10
"""Two samples must be this far apart (nvml.h, nvmlGpmMetricsGet)."""

SHARES = {"sm_active_pct": 2, "sm_occupancy_pct": 3, "tensor_active_pct": 5, "dram_active_pct": 10}
"""Percentages by metric id: NVML_GPM_METRIC_ SM_UTIL, SM_OCCUPANCY, ANY_TENSOR_UTIL, DRAM_BW_UTIL."""

RATES = {"pcie_tx_bytes_s": 20, "pcie_rx_bytes_s": 21, "nvlink_rx_bytes_s": 60, "nvlink_tx_bytes_s": 61}
"""MiB/s by metric id: PCIE_TX/RX_PER_SEC, NVLINK_TOTAL_RX/TX_PER_SEC."""

METRICS = {**SHARES, **RATES}


class Gpm:
    """The two buffers of a device, or of one MIG instance of it. `supported` is asked for once a buffer is needed."""

    def __init__(self, nvml: Any, instance: int | None = None) -> None:
        self._nvml = nvml
        self._instance = instance
        self._before: tuple[int, Any] | None = None
        self._spare: Any = None
        self._request: Any = None

    def ask(self, handle: Any, now_ns: int) -> dict[str, Any]:
        """Every metric since the last call; {} the first time. Raises NVML's errors, and Unsupported."""
        nvml = self._nvml
        if self._before is not None and 0 <= now_ns - self._before[0] < LEAST_NS:
            return {}
        if self._before is None and not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise Unsupported("GPM comes with Hopper")
        sample = self._spare or nvml.nvmlGpmSampleAlloc()
        self._spare = sample
        try:
            if self._instance is None:
                nvml.nvmlGpmSampleGet(handle, sample)
            else:
                nvml.nvmlGpmMigSampleGet(handle, self._instance, sample)
        except Exception as error:
            if code_of(error) == NO_PERMISSION:
                raise Unsupported("the driver keeps its counters to administrators") from None
            raise
        before, self._before, self._spare = self._before, (now_ns, sample), None
        if before is None:
            return {}
        self._spare = before[1]
        return self._difference(before[1], sample)

    def _difference(self, first: Any, second: Any) -> dict[str, Any]:
        request = self._request = self._request or self._fresh()
        request.sample1, request.sample2 = first, second
        self._nvml.nvmlGpmMetricsGet(request)
        found: dict[str, Any] = {}
        for at, name in enumerate(METRICS):
            metric = request.metrics[at]
            if metric.nvmlReturn:
                found[name] = Unsupported if metric.nvmlReturn in ABSENT else Failed
            else:
                found[name] = _read(name, float(metric.value))
        return found

    def _fresh(self) -> Any:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(METRICS)
        for at, metric in enumerate(METRICS.values()):
            request.metrics[at].metricId = metric
        return request

    def free(self) -> None:
        """Give the buffers back. Only while the library is initialised."""
        buffers = [self._spare, self._before[1] if self._before else None]
        self._before = self._spare = None
        for buffer in buffers:
            if buffer is not None:
                with contextlib.suppress(Exception):
                    self._nvml.nvmlGpmSampleFree(buffer)


def _read(name: str, value: float) -> Any:
    """A metric in the record's unit; Failed where it can't be true (not a number, negative, above all of it)."""
    if not 0 <= value < float("inf"):
        return Failed
    if name in RATES:
        return value * MIB
    return round(value, 2) if value <= 100 else Failed
