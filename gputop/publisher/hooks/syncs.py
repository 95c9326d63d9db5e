"""Reads of device values, which wait for the device: every method through which a value leaves it, with its line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.entries import SYNCED
from gputop.publisher.frames import caller_site
from gputop.publisher.hooks.patch import all_of, replace
from gputop.publisher.hooks.transfers import on_device

METHODS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__float__": "float()",
    "__int__": "int()",
    "__bool__": "bool()",
    "__index__": "index()",
    "__complex__": "complex()",
    "__format__": "format()",
    "__repr__": "repr()",
    "__array__": "numpy()",
}
"""The methods that read values back, as the user writes them."""


def install(publisher: Publisher, on_device: Callable[[Any], bool] = on_device) -> Callable[[], None]:
    """Hook them all on `Tensor`; nested ones count once. `on_device` says whether reading a tensor waits."""
    tensor = sys.modules["torch"].Tensor
    inside = [False]

    def timed(call: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def read(self: Any, *args: Any, **kwargs: Any) -> Any:
                if inside[0] or get_ident() != publisher.noting or not on_device(self):
                    return original(self, *args, **kwargs)
                start = monotonic_ns()
                inside[0] = True
                try:
                    return original(self, *args, **kwargs)
                finally:
                    inside[0] = False
                    try:
                        now = monotonic_ns()
                        publisher.put((SYNCED, (caller_site(), call, start, int(self.nbytes)), now))
                    except Exception as error:
                        publisher.fault("syncs", error)

            return read

        return make

    return all_of([replace(tensor, name, timed(call)) for name, call in METHODS.items()])
