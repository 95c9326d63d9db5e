"""A script of demos/ under another monitor: `python peer_demo.py gpuprof host_work --seconds 15`.

For TraceML it is started as `traceml run peer_demo.py --args TraceML host_work ...`. Every step is bracketed as its own
guide asks for loops that one writes oneself; gpuprof needs no more than a `with` around the script.
"""

from __future__ import annotations

import contextlib
import importlib
import runpy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

DEMOS = Path(__file__).resolve().parents[2] / "demos"


def bracket_steps() -> None:
    """Have every demo's loop run each step, from batch to batch, inside TraceML's `trace_step`."""
    traceml: Any = importlib.import_module("traceml_ai")
    common: Any = importlib.import_module("common")
    traceml.init(mode="auto")
    models: list[Any] = []
    make = common.mlp

    def mlp(*args: Any, **options: Any) -> Any:
        models.append(make(*args, **options))
        return models[-1]

    def batches(_demo: Any, loader: Iterable[Any]) -> Iterator[Any]:
        for batch in loader:
            with traceml.trace_step(models[-1]):
                yield batch

    common.mlp = mlp
    common.Demo.batches = batches


def main(tool: str, script: str, *options: str) -> None:
    """Run the script as its own process would, with the tool around it."""
    sys.path.insert(0, str(DEMOS))
    sys.argv = [str(DEMOS / f"{script}.py"), *options]
    around: Any = contextlib.nullcontext()
    if tool == "TraceML":
        bracket_steps()
    else:
        around = importlib.import_module("gpuprof").profile(script)
    with around:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
