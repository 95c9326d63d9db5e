"""What kind of process this is: one that is not to be watched, a loader's worker, one that ends with an error."""

from __future__ import annotations

import os
import sys


def switched_off() -> bool:
    """GPUTOP=0 makes all of it nothing."""
    return os.environ.get("GPUTOP", "") == "0"


def in_loader_worker() -> bool:
    """Whether this process is a worker of a torch DataLoader."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    return module is not None and getattr(module, "_worker_info", None) is not None


def exit_label() -> str | None:
    """The name of the error that ends the process; None where it ends in order."""
    error = getattr(sys, "last_type", None)
    return error.__name__ if isinstance(error, type) else None
