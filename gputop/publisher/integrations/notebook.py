"""Notebooks: a step ends with its cell, so that no pause between cells is training time; lines are told by cell."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from gputop.publisher.oath import confess

if TYPE_CHECKING:
    from gputop.publisher.core import Publisher


def attach(publisher: Publisher) -> None:
    """In IPython or a Jupyter kernel: end the open step with each cell, and name the run after the notebook."""
    shell = _shell()
    if shell is None:
        return

    def cell_ran(result: Any = None) -> None:
        try:
            publisher.rest(cut_short=not getattr(result, "success", True))
        except Exception as error:
            confess("notebook", error)

    shell.events.register("post_run_cell", cell_ran)
    publisher.undo.append(lambda: shell.events.unregister("post_run_cell", cell_ran))
    if "ipykernel" in sys.modules:
        publisher.learn(script=_name(shell))


def _shell() -> Any:
    """The running IPython; None elsewhere."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get() if callable(get) else None


def _name(shell: Any) -> str:
    """The notebook's file, as the server or the editor tells it."""
    told = os.environ.get("JPY_SESSION_NAME") or getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__") or "notebook"
    return os.path.basename(str(told))
