"""Accelerate: a plain loop over what `prepare` returns, seen by the hooks alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.publisher.spoken import INJECTED, line_of, model, need, run, share, sums, training

CODE = """
import os, time, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
from torch.utils.data import DataLoader, Dataset
from accelerate import Accelerator
from accelerate.utils import set_seed
way = sys.argv[1]
watch_sites()
class Data(Dataset):
    def __len__(self): return 24
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((8,), index / 24)
set_seed(5)
class Net(torch.nn.Sequential): pass
net = Net(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
if way == "watch":
    import gputop
    gputop.watch()
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
net, optimizer, loader, val = accelerator.prepare(
    net, optimizer, DataLoader(Data(), batch_size=4, shuffle=True), DataLoader(Data(), batch_size=8))
losses = []
for epoch in range(2):
    net.train()
    for batch in loader:
        with accelerator.accumulate(net):
            time.sleep(0.004)
            loss = net(batch).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss))
    net.eval()
    with torch.no_grad():
        for batch in val:
            accelerator.gather_for_metrics(net(batch))
    accelerator.save_state(os.path.join(os.getcwd(), f"state-{epoch}"))
speak(losses=losses, random=torch.get_rng_state().sum().item())
"""


LAUNCH = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1", "--no_python")
BEFORE = {"watch": (), "run": INJECTED, "run accelerate launch": (*INJECTED, sys.executable, *LAUNCH)}


@pytest.mark.slow
@pytest.mark.parametrize("way", list(BEFORE))
def test_an_accelerated_loop_is_told_part_by_part(tmp_path: Path, way: str) -> None:
    need("accelerate")
    said = run(tmp_path, CODE, way, before=BEFORE[way])
    steps = training(said)
    sums(said)
    assert len(steps) == 12
    assert [step["optimizer_step"] for step in steps] == [False, True] * 6
    assert sum(step["phases_ns"]["data"] for step in steps) / 12e6 > 7
    assert share(said, "forward") > 4
    for ends in (steps[5], steps[11]):
        assert ends["phases_ns"]["eval"] > 48e6
        assert "checkpoint" in ends["phases_ns"]
    assert model(said)["name"] == "Net"
    assert line_of(CODE, "time.sleep(0.004)") in said["sites"]
    assert line_of(CODE, "time.sleep(0.002)") in said["sites"]
    assert all(site.startswith("train.py:") for site in said["sites"]), "no library's line"


@pytest.mark.slow
def test_losses_are_bit_identical_and_gputop_0_makes_it_nothing(tmp_path: Path) -> None:
    need("accelerate")
    plain = run(tmp_path, CODE, "plain")
    watched = run(tmp_path, CODE, "watch")
    off = run(tmp_path, CODE, "watch", env={"GPUTOP": "0"})
    injected = run(tmp_path, CODE, "plain", before=INJECTED, env={"GPUTOP": "0"})
    assert plain["losses"] == watched["losses"] == off["losses"]
    assert plain["random"] == watched["random"] == off["random"]
    assert plain["steps"] == off["steps"] == injected["steps"] == []
