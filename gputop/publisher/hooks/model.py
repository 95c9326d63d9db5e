"""What is trained, read off the optimizer's parameters: no hook on any module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from gputop.publisher.core import Publisher
from gputop.records import Model

MAX_NAMES = 8
"""Names told of what was found on the CPU."""


def describe(publisher: Publisher, optimizer: Any, t: int) -> Model:
    """The model record: where the parameters are, of what type, how they are updated."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    devices: dict[str, int] = {}
    dtypes: dict[str, int] = {}
    count = nbytes = 0
    for param in params:
        n = int(param.numel())
        count += n
        nbytes += n * int(param.element_size())
        device, dtype = str(param.device), str(param.dtype).removeprefix("torch.")
        devices[device] = devices.get(device, 0) + n
        dtypes[dtype] = dtypes.get(dtype, 0) + n
    named = publisher.named.get("model")
    model = named() if named is not None else None
    placed = max(devices, key=lambda name: devices[name]) if devices else None
    if placed is not None and publisher.device is None:
        publisher.learn(device=placed)
    return Model(
        t=t,
        run_id=publisher.run_id,
        name=type(model).__name__ if model is not None else None,
        param_count=count,
        param_bytes=nbytes,
        param_tensors=len(params),
        devices=devices,
        dtypes=dtypes,
        on_cpu=_on_cpu(model, devices),
        compiled=publisher.compiled,
        matmul_tf32=_tf32(),
        optimizer=type(optimizer).__name__,
        optimizer_fused=_fused(optimizer),
    )


def _on_cpu(model: Any, devices: dict[str, int]) -> list[str] | None:
    """The first parameters and buffers on the CPU, of a model that is named and lies elsewhere too."""
    if model is None or set(devices) == {"cpu"}:
        return None
    names = [name for name, tensor in _tensors(model) if tensor.is_cpu]
    return names[:MAX_NAMES] or None


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _fused(optimizer: Any) -> bool | None:
    value = optimizer.defaults.get("fused") if isinstance(optimizer.defaults, dict) else None
    return value if isinstance(value, bool) else None


def _tf32() -> bool | None:
    torch = sys.modules["torch"]
    if torch.version.cuda is None:
        return None
    return bool(torch.backends.cuda.matmul.allow_tf32)
