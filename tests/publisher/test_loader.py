"""Loaders: what they are made of, where their data lies, workers that come, go and die."""

from __future__ import annotations

import queue
import threading
import time
import warnings
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

import gputop
from gputop.publisher import core, dataset
from gputop.publisher.segment import Segment
from gputop.records import Event, Loader
from tests.publisher.processes import Listener, event, finish, of, start, steps


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A viewer."""
    one = Listener()
    yield one
    one.close()


def facts(number: int = 0) -> Loader:
    assert core.current is not None
    told = core.current.facts[f"loader {number}"]
    assert isinstance(told, Loader)
    return told


def parts() -> tuple[Any, Any]:
    model = torch.nn.Linear(8, 1)
    return model, torch.optim.SGD(model.parameters(), 0.01)


def train(loader: Any, model: Any, optimizer: Any) -> None:
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


class Stream(IterableDataset[Any]):
    """Says that it has four samples and gives eight."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        for _ in range(8):
            yield (torch.ones(8),)


def test_a_stream_is_one_and_asking_for_its_length_warns_of_nothing(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    loader: DataLoader[Any] = DataLoader(Stream(), batch_size=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(loader, *parts())
    told = facts()
    pub.stop()
    assert (told.iterable, told.batches, told.dataset) == (True, 2, "Stream")
    assert not said, "torch warns of more samples only where the script itself asked for the length"
    assert len(emitted) == 4


def test_a_list_of_samples_is_no_stream(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    train(DataLoader(TensorDataset(torch.ones(8, 8)), batch_size=2), *parts())
    told = facts()
    pub.stop()
    in_order = True if "in_order" in signature(DataLoader).parameters else None  # torch 2.6 on
    assert (told.iterable, told.dataset_path_fs, told.in_order) == (False, None, in_order)


class Folder(TensorDataset):
    def __init__(self, **fields: Any) -> None:
        super().__init__(torch.ones(8, 8))
        self.__dict__.update(fields)


def test_the_file_system_of_the_data_is_told(emitted: list[Segment], tmp_path: Path) -> None:
    pub = gputop.watch()
    train(DataLoader(Subset(Folder(root=str(tmp_path)), [0, 1, 2, 3]), batch_size=2), *parts())
    told = facts()
    pub.stop()
    assert told.dataset_path_fs == dataset.mount_at(str(tmp_path))[0]
    assert told.dataset_path_fs is not None


def test_paths_are_found_without_running_anything_and_few_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "a"
    here.touch()
    numpy.zeros(4, numpy.uint8).tofile(here)
    asked: list[str] = []
    exists = dataset.os.path.exists
    monkeypatch.setattr(dataset.os.path, "exists", lambda path: (asked.append(path), exists(path))[1])

    class Lazy(TensorDataset):
        def __init__(self) -> None:
            super().__init__(torch.ones(1))

        @property
        def root(self) -> str:
            raise AssertionError("a property was run")

    found = str(here)
    assert dataset.path_of(Folder(samples=[(found, 1), ("/no/such", 2)])) == found
    assert dataset.path_of(Folder(imgs=[here])) == found
    assert dataset.path_of(Folder(data=numpy.memmap(here, mode="r"))) == found
    assert dataset.path_of(ConcatDataset([Subset(Folder(files=(found,)), [0])])) == found
    assert dataset.path_of(Lazy()) is dataset.path_of(None) is dataset.path_of(5) is None
    asked.clear()
    assert dataset.path_of(Folder(**{f"f{n}": f"/no/such/{n}" for n in range(40)}, url="http://a/b")) is None
    assert len(asked) == dataset.MAX_ASKED


def test_mounts_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 0:1 / / rw - overlay overlay rw\n"
        "2 1 0:2 / /data rw shared:7 - nfs4 server:/data rw\n"
        "3 1 0:3 / /data/my\\040disk rw - xfs /dev/sdb rw\n"
        "4 1 0:4 / /data/lazy rw - autofs systemd-1 rw\n"
        "5 1 0:5 / /data/lazy rw - ceph mon:/ rw\n"
        "broken\n"
    )
    kinds = {
        path: dataset.mount_at(path, str(mounts))[0]
        for path in ("/home/me", "/data/x", "/data/my disk/x", "/data/lazy", "/database")
    }
    assert list(kinds.values()) == ["overlay", "nfs4", "xfs", "ceph", "overlay"]
    assert dataset.mount_at("/data/my disk/x", str(mounts)) == ("xfs", "0:3", "/dev/sdb")
    assert dataset.mount_at("/x", str(tmp_path / "none")) == (None, "", "")


def test_a_disk_is_found_through_partitions_and_what_is_stacked_on_it(tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    block = sysfs / "devices/pci/nvme/nvme0n1"
    for folder in (block / "nvme0n1p2", sysfs / "devices/virtual/dm-0/slaves", sysfs / "devices/virtual/md0/slaves",
                   sysfs / "devices/virtual/loop3", sysfs / "dev/block", sysfs / "class/block"):  # fmt: skip
        folder.mkdir(parents=True)
    (block / "nvme0n1p2/partition").write_text("2\n")
    (sysfs / "devices/virtual/dm-0/slaves/nvme0n1p2").symlink_to(block / "nvme0n1p2")
    for slave in ("sda", "sdb"):
        (sysfs / "devices/virtual/md0/slaves" / slave).mkdir()
    for number, node in (("259:0", block), ("259:2", block / "nvme0n1p2"), ("253:0", sysfs / "devices/virtual/dm-0"),
                         ("9:0", sysfs / "devices/virtual/md0"), ("7:3", sysfs / "devices/virtual/loop3")):  # fmt: skip
        (sysfs / "dev/block" / number).symlink_to(node)
    (sysfs / "class/block/nvme0n1p2").symlink_to(block / "nvme0n1p2")
    found = {number: dataset.disk(number, "x", str(sysfs)) for number in ("259:0", "259:2", "253:0", "9:0", "7:3")}
    assert found == {"259:0": "nvme0n1", "259:2": "nvme0n1", "253:0": "nvme0n1", "9:0": None, "7:3": None}
    assert dataset.disk("0:40", "/dev/nvme0n1p2", str(sysfs)) == "nvme0n1"
    assert dataset.disk("0:40", "server:/data", str(sysfs)) is None
    assert dataset.disk("0:40", "/dev/none", str(sysfs)) is None


def test_loaders_nested_and_side_by_side_are_told_apart(emitted: list[Segment]) -> None:
    class Inner(torch.utils.data.Dataset[Any]):
        """Reads each of its samples through a loader of its own."""

        def __init__(self) -> None:
            self.loader: DataLoader[Any] = DataLoader(TensorDataset(torch.ones(2, 8)), batch_size=1)

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return (next(iter(self.loader))[0][0],)

    pub = gputop.watch()
    model, optimizer = parts()
    outer: DataLoader[Any] = DataLoader(Inner(), batch_size=2)
    other: DataLoader[Any] = DataLoader(TensorDataset(torch.ones(8, 8)), batch_size=2)
    for (x,), (y,) in zip(outer, other, strict=True):
        model(x + y).sum().backward()
        optimizer.step()
    pub.stop()
    assert [seg.work for seg in emitted] == [True] * 4
    assert [seg.batches for seg in emitted] == [2] * 4
    assert all(seg.phases["data"] > 0 for seg in emitted)


def test_fetches_by_a_background_thread_are_no_waits_of_the_loop(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    model, optimizer = parts()
    ready: queue.Queue[Any] = queue.Queue()

    def fetch() -> None:
        for (x,) in DataLoader(TensorDataset(torch.ones(16, 8)), batch_size=2):
            ready.put(x)
        ready.put(None)

    thread = threading.Thread(target=fetch)
    thread.start()
    while (x := ready.get()) is not None:
        model(x).sum().backward()
        optimizer.step()
    thread.join()
    pub.stop()
    assert len(emitted) >= 7
    assert all("data" not in seg.phases for seg in emitted)


class Uneven(torch.utils.data.Dataset[torch.Tensor]):
    """One sample takes long; the next worker's are ready meanwhile."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 8:
            time.sleep(0.3)
        return torch.ones(8)


def test_batches_that_are_ready_while_a_slow_one_holds_them_up_are_told(emitted: list[Segment]) -> None:
    model, optimizer = parts()
    watched = gputop.watch()
    loader = DataLoader(Uneven(), batch_size=2, num_workers=2, prefetch_factor=2, multiprocessing_context="fork")
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    watched.stop()
    told = facts()
    assert (told.prefetch_factor, told.persistent_workers, told.pin_memory, told.drop_last) == (2, False, False, False)
    assert told.in_order in (True, None), "torch 2.5 and older have no choice"
    slow = max(emitted, key=lambda seg: seg.phases.get("data", 0) if seg.start > emitted[0].start else 0)
    assert slow.extra is not None
    assert slow.extra["late_ready"] >= 1, "however many of them had come before the loop asked"
    for seg in emitted:
        extra = seg.extra or {}
        assert "ready_batches" in extra
        assert "late_ready" not in extra or seg.phases["data"] > 1_000_000, "only of a long wait"


def test_input_shapes_are_counted_on_steps_that_take_their_time(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    model, optimizer = parts()
    wide = [torch.ones(n % 3 + 1, 8) for n in range(12)]
    pause = threading.Event()
    for (x,) in DataLoader([(x,) for x in wide], batch_size=None):  # type: ignore[arg-type]
        model(x).sum().backward()
        optimizer.step()
        pause.wait(0.003)
    pub.stop()
    seen = [(seg.extra or {}).get("shapes") for seg in emitted]
    assert seen[-1] == 3
    assert [value for value in seen if value] == sorted(value for value in seen if value)


def test_workers_come_and_go_with_epochs_and_no_crash_is_told(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop
        from gputop.publisher.hooks import workers
        workers.EVERY_NS = 0
        gputop.watch()
        first, second = loader(num_workers=2), loader(num_workers=1, persistent_workers=True)
        train(first, 48)
        train(second, 48)
        """,
        torch=True,
    )
    records = listener.until(event("exit"))
    finish(process)
    told = [(one.kind, one.label) for one in of(Event, records) if "worker" in one.kind or one.kind == "error"]
    gone = ("worker_exit", "2 workers of loader 0: the epoch is over")
    come = ("worker_start", "2 workers of loader 0")
    assert told == [gone, come, gone, come, ("worker_start", "1 worker of loader 1")]


def test_a_worker_that_dies_mid_epoch_is_told_in_a_sentence(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop
        class Deadly(TensorDataset):
            def __getitem__(self, index):
                if index == 40:
                    time.sleep(0.5)  # what is in the pipe goes out whole
                    os._exit(3)
                return super().__getitem__(index)
        gputop.watch()
        data = DataLoader(Deadly(torch.randn(64, 4)), batch_size=4, num_workers=1)
        try:
            train(data)
        except Exception as error:
            print("caught", type(error).__name__)
        time.sleep(0.2)
        """,
        torch=True,
    )
    records = listener.until(event("exit"))
    assert "caught" in finish(process)
    errors = [one for one in of(Event, records) if one.kind == "error"]
    assert len(errors) == 1
    assert errors[0].label is not None
    assert errors[0].label.startswith("a loader worker died: ")
    assert steps(8)(records)


def test_a_loader_made_anew_for_each_epoch_keeps_its_number_and_no_other_gets_it() -> None:
    model, optimizer = parts()
    watched = gputop.watch()
    assert core.current is not None
    for _ in range(3):
        for size in (8, 4):
            train(DataLoader(TensorDataset(torch.ones(32, 8)), batch_size=size), model, optimizer)
    assert facts(0).batch_size == 4, "each is gone before the next one of its line"
    train_loader = DataLoader(TensorDataset(torch.ones(32, 8)), batch_size=6)
    for _ in range(2):
        train(train_loader, model, optimizer)
        train(DataLoader(TensorDataset(torch.ones(32, 8)), batch_size=2), model, optimizer)
    assert [facts(number).batch_size for number in (0, 1)] == [6, 2]
    for (x,) in DataLoader(TensorDataset(torch.ones(32, 8)), batch_size=3):
        model(x)
    assert facts(2).batch_size == 3
    assert "loader 3" not in core.current.facts
    watched.stop()
