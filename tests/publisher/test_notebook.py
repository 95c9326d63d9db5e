"""Notebooks: cells end steps, pauses between them are no training, lines are told by cell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.frames import user_site
from gputop.publisher.segment import Segment
from tests.publisher.spoken import need, run, training

CELLS = '''
import warnings
warnings.simplefilter("ignore")
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
cells = [
"import gputop; pub = gputop.watch()",
"""
import time, torch
from torch.utils.data import DataLoader, TensorDataset
from gputop.publisher.frames import caller_site
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4)
sites, losses = set(), []
def train(stop=None):
    for index, (x,) in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        sites.add(caller_site(1))
        time.sleep(0.002)
        if index == stop:
            raise KeyboardInterrupt
train()
""",
"time.sleep(0.5)",
"train()",
"train(stop=1)",
"time.sleep(0.5)",
"pub.stop(); other = gputop.watch(); train()",
"again = gputop.watch() is other",
]
for cell in cells:
    shell.run_cell(cell, store_history=True)
space = shell.user_ns
speak(lines=sorted(space["sites"]), losses=space["losses"], again=space["again"])
'''


@pytest.mark.slow
def test_cells_of_a_real_shell_interrupted_and_watched_anew(tmp_path: Path) -> None:
    need("IPython")
    said = run(tmp_path, CELLS)
    steps = training(said)
    assert len(steps) == 14
    assert [index for index, step in enumerate(steps) if step.get("partial")] == [9], "the one that was interrupted"
    assert max(steps[3]["dur_ns"], steps[9]["dur_ns"]) < 450e6, "no pause between cells is in a step"
    assert said["lines"] == ["In[2]:17"]
    assert said["again"]
    off = run(tmp_path, CELLS.replace("gputop.watch() is other", "True"), env={"GPUTOP": "0"})
    assert off["steps"] == []
    assert off["losses"] == said["losses"]


KERNEL = """
import warnings
warnings.simplefilter("ignore")
import nbclient, nbformat
cells = [
    "import torch, time\\nfrom torch.utils.data import DataLoader, TensorDataset\\n"
    "import gputop\\nfrom gputop.publisher import core\\npub = gputop.watch()",
    "model = torch.nn.Linear(4, 1)\\noptimizer = torch.optim.SGD(model.parameters(), 0.01)\\n"
    "for (x,) in DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4):\\n"
    "    model(x).sum().backward()\\n    optimizer.step()\\n    optimizer.zero_grad()",
    "time.sleep(0.5)",
    "loop = core.current.ledger.loop\\nprint(loop.steps, loop.train, core.current.more['script'])",
]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
nbclient.NotebookClient(book, timeout=120).execute()
speak(out=book.cells[-1].outputs[0]["text"])
"""


@pytest.mark.slow
def test_a_real_kernel(tmp_path: Path) -> None:
    need("IPython", "ipykernel", "nbclient", "nbformat")
    said = run(tmp_path, KERNEL, env={"JPY_SESSION_NAME": "/home/me/study.ipynb"})
    assert said["out"] == "4 None study.ipynb\n"


class Events:
    """As IPython's: functions called after each cell."""

    def __init__(self) -> None:
        self.after: list[Callable[[Any], None]] = []

    def register(self, event: str, function: Callable[[Any], None]) -> None:
        assert event == "post_run_cell"
        self.after.append(function)

    def unregister(self, event: str, function: Callable[[Any], None]) -> None:
        self.after.remove(function)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A Jupyter kernel's shell in small."""
    made = SimpleNamespace(
        events=Events(), user_ns={}, compile=SimpleNamespace(_filename_map={"/tmp/ipykernel_7/123.py": 4})
    )
    module = ModuleType("IPython")
    module.get_ipython = lambda: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return made


def train(batches: int) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for (x,) in DataLoader(TensorDataset(torch.randn(batches * 4, 4)), batch_size=4):
        model(x).sum().backward()
        optimizer.step()


def test_a_step_ends_with_its_cell(emitted: list[Segment], shell: SimpleNamespace) -> None:
    pub = gputop.watch()
    (after,) = shell.events.after
    assert core.current is not None
    train(3)
    after(SimpleNamespace(success=True))
    core.current.catch_up()
    assert core.current.ledger.loop.seg is None
    assert [seg.partial for seg in emitted if seg.work] == [False] * 3
    train(2)
    after(SimpleNamespace(success=False))
    core.current.catch_up()
    assert [seg.partial for seg in emitted if seg.work] == [False] * 4 + [True]
    assert core.current.more["script"] == "notebook"
    assert gputop.watch() is pub
    assert len(shell.events.after) == 1
    pub.stop()
    assert shell.events.after == []


def test_a_loop_without_a_loader_leaves_no_empty_step(emitted: list[Segment], shell: SimpleNamespace) -> None:
    gputop.watch()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(2):
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        shell.events.after[0](SimpleNamespace(success=True))
    assert core.current is not None
    core.current.catch_up()
    assert len(emitted) == 4, "the first step of each cell ends where it is first known to be one"
    assert all(seg.work for seg in emitted)


def where() -> str | None:
    return user_site(sys._getframe(1))


def test_lines_are_told_by_cell(shell: SimpleNamespace) -> None:
    code = compile("\nsaid = where()", "/tmp/ipykernel_7/123.py", "exec")
    space: dict[str, Any] = {"where": where}
    exec(code, space)
    assert space["said"] == "In[4]:2"
    shell.compile._filename_map["/tmp/ipykernel_7/123.py"] = 6
    exec(code, space)
    assert space["said"] == "In[6]:2", "run again"
    exec(compile("said = where()", "/tmp/ipykernel_7/99.py", "exec"), space)
    assert space["said"] == "In[?]:1"
    exec(compile("\n\nsaid = where()", "<ipython-input-12-abc>", "exec"), space)
    assert space["said"] == "In[12]:3"
