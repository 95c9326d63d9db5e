"""Copies to the device: `Tensor.to`, `.cuda` and `.copy_`, by what came out of them; `.to("cpu")` is a sync."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.entries import COPIED, SYNCED
from gputop.publisher.frames import caller_site
from gputop.publisher.hooks.patch import all_of, replace


def on_device(tensor: Any) -> bool:
    """Whether a tensor lies on an accelerator."""
    return bool(tensor.is_cuda) or tensor.device.type not in ("cpu", "meta")


def install(publisher: Publisher, on_device: Callable[[Any], bool] = on_device) -> Callable[[], None]:
    """Hook the three methods. `on_device` says whether a tensor lies on an accelerator."""
    torch = sys.modules["torch"]
    parameter = torch.nn.Parameter

    def moved(original: Callable[..., Any]) -> Callable[..., Any]:
        def to(self: Any, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != publisher.noting:
                return original(self, *args, **kwargs)
            start = monotonic_ns()
            out = original(self, *args, **kwargs)
            if out is self:
                return out
            try:
                before, after = on_device(self), on_device(out)
                if after and not before and not isinstance(self, parameter):
                    _copied(publisher, self, start, blocking=not _unblocking(args, kwargs))
                elif before and not after and not _unblocking(args, kwargs):
                    nbytes = self.nbytes
                    publisher.put((SYNCED, (caller_site(), ".to(cpu)", start, nbytes), monotonic_ns()))
            except Exception as error:
                publisher.fault("transfers", error)
            return out

        return to

    def copied(original: Callable[..., Any]) -> Callable[..., Any]:
        def copy_(self: Any, src: Any, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != publisher.noting:
                return original(self, src, *args, **kwargs)
            start = monotonic_ns()
            out = original(self, src, *args, **kwargs)
            try:
                before, after = on_device(src), on_device(self)
                if after and not before:
                    _copied(publisher, src, start, blocking=not _unblocking(args, kwargs))
                elif before and not after and not _unblocking(args, kwargs):
                    publisher.put((SYNCED, (caller_site(), ".copy_()", start, int(src.nbytes)), monotonic_ns()))
            except Exception as error:
                publisher.fault("transfers", error)
            return out

        return copy_

    tensor = torch.Tensor
    return all_of([replace(tensor, "to", moved), replace(tensor, "cuda", moved), replace(tensor, "copy_", copied)])


def _unblocking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a copy was asked for with `non_blocking`: the first flag there can be, of both methods."""
    return bool(kwargs.get("non_blocking", next((one for one in args if isinstance(one, bool)), False)))


def _copied(publisher: Publisher, source: Any, start: int, *, blocking: bool) -> None:
    end = monotonic_ns()
    nbytes = int(source.nbytes)
    if publisher.moved is not None and publisher.requests:
        publisher.moved.add(nbytes)
    pageable = 0 if source.is_pinned() else nbytes
    publisher.put((COPIED, (start, nbytes, pageable, nbytes if blocking else 0), end))
