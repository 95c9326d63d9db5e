"""Installs the hooks, now where torch is there, else as soon as the script has imported it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks import frameworks, keras_optimizer
from gputop.publisher.importhook import when_imported
from gputop.publisher.integrations import notebook
from gputop.publisher.oath import confess, mention

HOOKS = (
    "loader", "backward", "optimizer", "transfers", "syncs", "checkpoint", "device", "frameworks", "model", "comm",
    "gc", "recompile",
)  # fmt: skip
"""Names of the automatic hooks, as `--no-hooks` and `no_hooks` take them."""

TENSOR_METHODS = ("transfers", "syncs")
"""Those on methods of Tensor: only where a device is possible."""


def arm(publisher: Publisher, leave_out: frozenset[str] = frozenset(), *, imported: bool = False) -> None:
    """Hook torch, now when it is known to be `imported`. A second call installs nothing twice."""
    for name in sorted(leave_out.difference(HOOKS)):
        mention(f"there is no hook {name!r}; there are {', '.join(HOOKS)}")
    if publisher.armed:
        return
    publisher.armed = True
    publisher.exchanges = "comm" not in leave_out
    notebook.attach(publisher)
    if "frameworks" not in leave_out:
        publisher.undo += [frameworks.install(publisher), keras_optimizer.install(publisher)]
    if imported:
        _install(publisher, leave_out)
    else:
        publisher.undo.append(when_imported("torch", lambda: _install(publisher, leave_out)))


def _install(publisher: Publisher, leave_out: frozenset[str]) -> None:
    """Each hook on its own: one that can't be had costs only itself."""
    try:
        _install_plain(publisher, leave_out)
        if "device" not in leave_out:
            find_device(publisher)
        _install_methods(publisher, leave_out, ("comm", *(TENSOR_METHODS if publisher.device is not None else ())))
    except Exception as error:
        publisher.fault("hooks", error)


def _install_plain(publisher: Publisher, leave_out: frozenset[str]) -> None:
    from gputop.publisher.hooks import autocast, backward, checkpoint, loader, optimizer, owner, pauses, recompiles

    plain: list[tuple[str, Callable[[Publisher], Callable[[], None]]]] = [
        ("loader", loader.install),
        ("backward", backward.install),
        ("optimizer", optimizer.install),
        ("checkpoint", checkpoint.install),
        ("model", owner.install),
        ("model", autocast.install),
        ("gc", pauses.install),
        ("recompile", recompiles.install),
    ]
    for name, install in plain:
        if name not in leave_out:
            _try(publisher, name, install)


def _install_methods(publisher: Publisher, leave_out: frozenset[str], names: tuple[str, ...]) -> None:
    """The patches that would break the graphs of `torch.compile`: only while nothing is compiled."""
    from gputop.publisher.hooks import comm, syncs, transfers
    from gputop.publisher.hooks import compile as compiling

    publisher.compiled = publisher.compiled or compiling.in_use()
    if publisher.compiled:
        return
    installs = {"comm": comm.install, "transfers": transfers.install, "syncs": syncs.install}
    undos: list[Callable[[], None]] = []
    for name in names:
        if name not in leave_out:
            _try(publisher, name, installs[name], undos)

    def retreat() -> None:
        while undos:
            undos.pop()()
        publisher.hooks = [name for name in publisher.hooks if name not in names]

    publisher.undo.append(retreat)
    _try(publisher, "compile", lambda one: compiling.install(one, retreat))


def _try(
    publisher: Publisher,
    name: str,
    install: Callable[[Publisher], Callable[[], None]],
    undos: list[Callable[[], None]] | None = None,
) -> None:
    try:
        (publisher.undo if undos is None else undos).append(install(publisher))
        if name not in publisher.hooks:
            publisher.hooks.append(name)
    except Exception as error:
        confess(f"hook {name}", error)


def find_device(publisher: Publisher) -> None:
    """Give the publisher the device clock that torch allows, where it has none and torch is there."""
    if publisher.device is None and "torch" in sys.modules:
        from gputop.publisher.hooks import device

        publisher.use_device(device.find())


def name(publisher: Publisher, objects: Iterable[Any]) -> None:
    """What the script itself says is its model, loader and optimizer, told apart by what they can do."""
    for one in objects:
        if one is None:
            continue
        if hasattr(one, "named_parameters"):
            publisher.named["model"] = weakref.ref(one)
        elif hasattr(one, "param_groups"):
            publisher.named["optimizer"] = weakref.ref(one)
        elif hasattr(one, "__iter__"):
            publisher.numbers.of(one)
