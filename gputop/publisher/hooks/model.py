"""What is trained, read off the optimizers' parameters: no hook on any module."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.inputs import with_parameters
from gputop.publisher.hooks.owner import owner
from gputop.records import Model

MAX_NAMES = 8
"""Names told of what was found on the CPU."""

MAX_PARTS = 4
"""Optimizers of parts (a GAN's two) whose modules are looked for one by one."""


class Trained:
    """The optimizers that have stepped, and what they train, all together."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.known: dict[int, weakref.ref[Any]] = {}
        """Those met, by id."""
        self.told: set[int] = set()
        """Those known, by id, while the last record knows of all of them; empty until then."""
        self.stayed: list[str] = []

    def meet(self, optimizer: Any) -> bool:
        """One more optimizer has stepped; whether it is the first. One that is gone is forgotten."""
        key, known, told = id(optimizer), self.known, self.told
        first = not known

        def gone(_: object) -> None:
            known.pop(key, None)
            told.discard(key)

        known[key] = weakref.ref(optimizer, gone)
        told.clear()
        return first

    def describe(self, t: int, frame: FrameType | None = None) -> Model:
        """The model record: where the parameters are, of what type, how they are updated. `frame`: who called."""
        self.told.update(list(self.known))
        publisher = self._publisher
        optimizers = [one for ref in list(self.known.values()) if (one := ref()) is not None]
        params = list({id(param): param for one in optimizers for param in _params(one)}.values())
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
        models = _models(publisher, optimizers, params, frame)
        placed = max(devices, key=lambda name: devices[name]) if devices else None
        if placed is not None and publisher.device is None:
            publisher.learn(device=placed)
        return Model(
            t=t,
            run_id=publisher.run_id,
            name=", ".join(dict.fromkeys(type(model).__name__ for model in models)) or None,
            param_count=count,
            param_bytes=nbytes,
            param_tensors=len(params),
            devices=devices,
            dtypes=dtypes,
            on_cpu=_on_cpu(models, placed, publisher.cpu_operators, with_parameters(self._inputs(), models)),
            autocast=publisher.autocast,
            train_mode=all(model.training for model in models) if models else None,
            compiled=publisher.compiled or any(_compiled(model) for model in models) or _dynamo_ran(),
            matmul_tf32=_tf32(),
            optimizer=", ".join(dict.fromkeys(type(one).__name__ for one in optimizers)),
            optimizer_fused=_fused(optimizers),
        )

    def _inputs(self) -> list[str]:
        """Tensors of the first batches that came on the CPU and stayed there: no copy to the device was as large.

        None where another size was copied: that may be one of them, converted before.
        """
        publisher = self._publisher
        moved, publisher.moved = publisher.moved, None
        inputs = publisher.shapes.inputs
        if moved is not None and "transfers" in publisher.hooks and moved <= {*inputs.values()}:
            self.stayed = [name for name, nbytes in inputs.items() if nbytes not in moved][:MAX_NAMES]
        return self.stayed


def _params(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _models(publisher: Publisher, optimizers: list[Any], params: list[Any], frame: FrameType | None) -> list[Any]:
    """The module that holds all parameters, or else those that hold one optimizer's each."""
    whole = owner(publisher, params, frame)
    if whole is not None:
        return [whole]
    if not 2 <= len(optimizers) <= MAX_PARTS:
        return []
    parts = [owner(publisher, list(_params(one)), frame) for one in optimizers]
    return list({id(part): part for part in parts if part is not None}.values())


def _on_cpu(
    models: list[Any], placed: str | None, operators: Sequence[str] = (), inputs: Sequence[str] = ()
) -> list[str] | None:
    """The first parameters and buffers on the CPU, of a model most of which lies elsewhere, and operators run there.

    Inputs that stayed there are named where operators have run there: lengths and the like belong on the CPU.
    """
    if placed is None or placed == "cpu":
        return None
    names = [name for model in models for name, tensor in _tensors(model) if tensor.device.type == "cpu"]
    return [*names[:MAX_NAMES], *(inputs if operators else ()), *operators] or None


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _compiled(model: Any) -> bool:
    """Whether `model.compile()` was called, of it or of a part of it; wrappers by `torch.compile` are seen as such."""
    return any(
        vars(part).get("_compiled_call_impl") is not None or type(part).__name__ == "OptimizedModule"
        for part in model.modules()
    )


def _dynamo_ran() -> bool:
    """Whether torch.compile has compiled anything in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return bool((counters.get("frames") or {}).get("ok"))


def _fused(optimizers: list[Any]) -> bool | None:
    """Whether all were made with `fused=True`; None where none says."""
    said = [one.defaults.get("fused") for one in optimizers if isinstance(one.defaults, dict)]
    known = [value for value in said if isinstance(value, bool)]
    return all(known) if known else None


def _tf32() -> bool | None:
    torch = sys.modules["torch"]
    if torch.version.cuda is None:
        return None
    return bool(torch.backends.cuda.matmul.allow_tf32)
