"""torch.compile: as many graph breaks with the publisher as without, also with the patches of a machine with a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.publisher.processes import finish, start

CODE = """
import sys, torch, torch._dynamo as dynamo
from torch.utils.data import DataLoader, TensorDataset
import gputop
mode = sys.argv[1] if len(sys.argv) > 1 else {mode!r}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
    def forward(self, x):
        y = self.line(x.to(torch.float32).to("cpu"))
        if y.sum() > 0:
            y = y * 2
        return y.sum() * y.mean().item()
if mode != "plain":
    gputop.watch()
    if mode == "device":
        from gputop.publisher import arm, core
        arm._install_methods(core.current, frozenset(), arm.TENSOR_METHODS)
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.01)
compiled = torch.compile(net, backend="eager")
for (x,) in DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4):
    loss = compiled(x)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(sum(dynamo.utils.counters["graph_break"].values()), dict(dynamo.utils.counters["stats"]), loss.item())
"""


@pytest.mark.slow
def test_graph_breaks_are_the_same(tmp_path: Path) -> None:
    assert sys.version_info < (3, 15)
    seen = {mode: finish(start(tmp_path, CODE.replace("{mode!r}", repr(mode)))) for mode in ("plain", "auto", "device")}
    assert seen["auto"] == seen["plain"]
    assert seen["device"] == seen["plain"]
