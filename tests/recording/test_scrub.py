"""A scrubbed copy holds nothing of people, machines and folders, in no byte; and says the same of the run."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import codec
from gputop import records as rec
from gputop.cli import run
from gputop.recording.pseudonyms import Pseudonyms
from gputop.recording.reader import Recording
from gputop.recording.rewriting import write_anew
from gputop.recording.scrub import Scrubber
from gputop.recording.writer import Writer
from gputop.simulation.trace import records as simulated

S = 1_000_000_000
T0 = 1_760_000_000 * S

UUID = "GPU-3f2a9c10-77aa-4b1c-9d2e-0123456789ab"
SECRETS = (
    "bobsmith", "quark17", "lab.example.org", "alicejones", "hunter2", "secretproject", "oldpartition", "3f2a9c10",
    "ml-archive", "10.20.30.41", "someoneselfjob", "spare room", "eve@",
)  # fmt: skip


def telling() -> list[rec.AnyRecord]:
    """Two ranks on two machines, with something private in every kind of field."""
    out: list[rec.AnyRecord] = []
    for rank, host in enumerate(("quark17.lab.example.org", "quark18.lab.example.org")):
        run_id = f"quark17-{rank}"
        out += [
            rec.Run(
                t=T0, run_id=run_id, pid=100 + rank, host=host, rank=rank, user="bobsmith", label="try 3",
                argv=["python", "/home/bobsmith/secretproject/train.py", "--token=hunter2", "/mnt/spare room/x"],
                script="train.py", gpu_uuid=UUID.removeprefix("GPU-"), device="cuda:0", framework="torch",
            ),
            rec.Loader(t=T0, run_id=run_id, loader_id=0, num_workers=4, dataset="ImageFolder", worker_pids=[200]),
            rec.Process(
                t=T0, host=host, pid=100 + rank, run_id=run_id, name="python", user="bobsmith", cpu_pct=99.0,
                cmdline="python /home/bobsmith/secretproject/train.py --token=hunter2",
                stack=["/home/bobsmith/spare room/loader.py:12", "train.py:3"], workers=[rec.Worker(pid=200)],
            ),
            rec.Process(t=T0, host=host, pid=999, name="someoneselfjob", user="alicejones", cmdline="x --k hunter2"),
            rec.Gpu(
                t=T0, host=host, gpu_uuid=UUID, gpu_pci="00000000:3B:00.0", name="NVIDIA H100 80GB HBM3",
                mig=[{"uuid": "MIG-3f2a9c10-77aa-4b1c-9d2e-0123456789ac", "name": "1g.10gb"}],
                processes=[
                    rec.GpuProcess(pid=100 + rank, name="/home/bobsmith/bin/python", user="bobsmith", cmdline="p"),
                    rec.GpuProcess(pid=999, name="someoneselfjob", user="alicejones", cmdline="/opt/oldpartition/x"),
                ],
            ),
            rec.Alive(t=T0 + S, run_id=run_id, steps=1, stack=["/home/bobsmith/secretproject/train.py:88"]),
            rec.Site(
                t=T0 + S, run_id=run_id,
                sites=[rec.SiteSample(phase="forward", site="/home/bobsmith/secretproject/net.py:5", samples=3)],
            ),
            rec.Profile(t=T0 + S, run_id=run_id, steps=5, top_ops=[{"name": "aten::mm", "at": "/srv/oldpartition/x"}]),
            rec.Host(t=T0 + S, host=host, cpu_pct=50.0),
            rec.Burst(t=T0 + S, host=host, gpu_uuid=UUID, dt_ns=[0, 5], util_pct=[1.0, 2.0]),
            rec.Sampler(
                t=T0 + S, host=host, backend="nvml", state="absent",
                why="/usr/lib/oldpartition/libnvidia-ml.so on quark17",
            ),
            rec.Event(t=T0 + S, run_id=run_id, kind="error", label="can't open '/mnt/spare room/b.bin' for bobsmith"),
            rec.Event(t=T0 + S, run_id=run_id, kind="marker", label="at tcp://10.20.30.41:29500, eve@example.org"),
            rec.Event(t=T0 + S, run_id=run_id, kind="marker", label=f"{UUID} -I/home/bobsmith/include 10.20.30.41"),
            rec.Verdict(
                t=T0 + 2 * S, run_id=run_id, cause="input-disk", family="input", confidence=0.8,
                headline="reads from /mnt/oldpartition/ml-archive/set1 on Quark18 wait for nfs.lab.example.org:/vol",
                evidence=[rec.Evidence(signal="dataset", value="/mnt/oldpartition/ml-archive/set1", source="fs")],
                advice=[rec.Advice(do="copy it to /dev/shm", code="cp -r /mnt/oldpartition/ml-archive/set1 /dev/shm/")],
                notices=["run quark17-0 is slower than run quark17-1"],
            ),
        ]  # fmt: skip
        out += [
            rec.Step(
                t=T0 + (n + 1) * S // 10, run_id=run_id, n=n, dur_ns=S // 10, kind="train",
                phases_ns={"data": 5, "forward": 6, "/home/bobsmith/a/mine": 7, "/srv/oldpartition/mine": 1},
                sync_sites=[rec.SyncSite(site="/home/bobsmith/p/train.py:88", call=".item()", count=1, ns=5)],
            )
            for n in range(20)
        ]  # fmt: skip
    return out


def leaks(data: bytes) -> list[str]:
    low = data.lower()
    return [secret for secret in SECRETS if secret.encode() in low]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.gputop"
    write_anew(telling(), path)
    assert set(leaks(path.read_bytes())) == set(SECRETS)
    return path


def test_no_byte_of_the_copy_tells(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recording.read_bytes()
    assert run(["scrub", str(recording)]) == 0
    out = recording.with_name("run.scrubbed.gputop")
    assert leaks(out.read_bytes()) == []
    assert b"pidns" not in out.read_bytes(), "who wrote it"
    assert recording.read_bytes() == before
    assert sorted(one.name for one in recording.parent.iterdir()) == ["run.gputop", "run.scrubbed.gputop"]
    told = capsys.readouterr().out
    assert "run.scrubbed.gputop: 70 records (step 40" in told
    assert "2 users" in told
    assert leaks(told.encode()) == []


def test_no_line_of_a_scrubbed_trace_tells(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_bytes(b"".join(codec.to_json(record) + b"\n" for record in telling()))
    assert run(["scrub", str(trace)]) == 0
    copy = (tmp_path / "t.scrubbed.jsonl").read_bytes()
    assert leaks(copy) == []
    assert copy.count(b"\n") == len(telling())


def scrubbed(records: list[rec.AnyRecord]) -> list[rec.AnyRecord]:
    scrubber = Scrubber()
    scrubber.learn(records)
    return [scrubber.scrub(record) for record in records]


def test_what_belongs_together_still_does() -> None:
    before, after = telling(), scrubbed(telling())
    assert [type(one) for one in before] == [type(one) for one in after]
    for name in ("run_id", "host", "gpu_uuid"):
        pairs = {(getattr(one, name, None), getattr(two, name, None)) for one, two in zip(before, after, strict=True)}
        pairs.discard((UUID.removeprefix("GPU-"), "1"))
        assert len({one for one, _ in pairs}) == len({two for _, two in pairs}) == len(pairs)
    verdict = next(one for one in after if isinstance(one, rec.Verdict))
    assert verdict.headline == "reads from set1 on host-2 wait for nfs.domain:vol"
    assert verdict.evidence[0].value == "set1"
    assert verdict.advice[0].do == "copy it to /dev/shm"
    assert verdict.advice[0].code == "cp -r set1 /dev/shm/"
    assert verdict.notices == ["run run-1 is slower than run run-2"]


def test_figures_and_the_code_s_own_names_stay() -> None:
    after = scrubbed(telling())
    step = next(one for one in after if isinstance(one, rec.Step))
    assert step.phases_ns == {"data": 5, "forward": 6, "mine": 8}
    assert step.sync_sites == [rec.SyncSite(site="train.py:88", call=".item()", count=1, ns=5)]
    first = after[0]
    assert isinstance(first, rec.Run)
    assert (first.script, first.label, first.device, first.pid) == ("train.py", "try 3", "cuda:0", 100)
    assert (first.argv, first.user, first.host) == (None, None, "host-1")
    gpu = next(one for one in after if isinstance(one, rec.Gpu))
    assert gpu.processes is not None
    assert [one.name for one in gpu.processes] == ["python", "another process"]
    assert (gpu.gpu_uuid, gpu.gpu_pci, gpu.name) == ("GPU-1", "00000000:3B:00.0", "NVIDIA H100 80GB HBM3")
    assert gpu.mig == [{"uuid": "MIG-2", "name": "1g.10gb"}]
    process = next(one for one in after if isinstance(one, rec.Process))
    assert process.stack == ["loader.py:12", "train.py:3"]


def test_a_simulated_run_loses_nothing_but_names() -> None:
    for before in (list(simulated("input-workers", seconds=30)), list(simulated("sync", seconds=10))):
        after = scrubbed(before)  # type: ignore[arg-type]
        for one, two in zip(before, after, strict=True):
            same = {"host", "gpu_uuid", "run_id", "argv", "user", "cmdline", "processes", "name"}
            for name in set(one.__struct_fields__) - same:
                assert getattr(one, name) == getattr(two, name), name


def test_scrubbing_twice_changes_nothing() -> None:
    once = scrubbed(telling())
    assert scrubbed(once) == once


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/ann/p/train.py:88", "train.py:88"),
        ("at /home/ann/p/train.py:88 in f", "at train.py:88 in f"),
        ("no room in /home/ann", "no room in ~"),
        ("~/p/x.py and ~ann/q", "x.py and q"),
        ("file:///data/x/y.bin", "y.bin"),
        ("--out=/scratch/ann/run1/ckpt.pt", "--out=ckpt.pt"),
        ("1200 images/s, 3 GB/s and/or 1/2", "1200 images/s, 3 GB/s and/or 1/2"),
        ("mount a larger /dev/shm", "mount a larger /dev/shm"),
        ("see https://pytorch.org/docs/stable/data.html", "see https://pytorch.org/docs/stable/data.html"),
        ("wandb at https://wandb.ai/ann/p", "wandb at https://address"),
        ("s3://bucket/key", "s3://address"),
        ('cannot open "/mnt/a b/c d.bin"', 'cannot open "c d.bin"'),
        ("torch 2.13.0, driver 550.54.15", "torch 2.13.0, driver 550.54.15"),
        ("rank 0 at 192.168.1.20:29500", "rank 0 at host-1:29500"),
        ("listening on 127.0.0.1", "listening on 127.0.0.1"),
        ("-L/usr/local/cuda-12/lib64", "-L lib64"),
        ("the user waits", "the user waits"),
    ],
)
def test_texts(text: str, clean: str) -> None:
    assert Pseudonyms().text(text) == clean


@given(
    before=st.sampled_from([" ", "=", '"', "'", "(", ":", ",", "_", "-", "[", "\n", "//"]),
    after=st.sampled_from([" ", '"', "'", ")", ":", ",", "_", "-", "]", ".", "/", "\n"]),
    secret=st.sampled_from(["zoe.q", "node-77", "/home/zoe.q/x", "/home/zoe.q", "/d/node-77/zoe.q", "zoe.q@node-77"]),
)
def test_a_known_name_is_found_whatever_stands_around_it(before: str, after: str, secret: str) -> None:
    names = Pseudonyms()
    names.user("zoe.q")
    names.host("node-77")
    found = names.text(f"x{before}{secret}{after} y")
    assert "zoe" not in found
    assert "77" not in found


def test_names_that_everybody_has_and_single_letters_are_left_in_texts() -> None:
    names = Pseudonyms()
    for one in ("root", "a", "7"):
        names.user(one)
    names.host("3")
    assert names.text("the root cause: a 7th of 3 steps") == "the root cause: a 7th of 3 steps"


def test_what_was_deleted_from_the_original_is_not_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "kept.gputop"
    writer = Writer(path, now_ns=T0)
    for n in range(300):
        writer.add(rec.Event(t=T0 + n * S, kind="marker", label=f"mark {n} of bobsmith"))
        writer.add(rec.Process(t=T0 + n * S, host="box", pid=1, user="bobsmith", cmdline="hunter2"))
        writer.commit(T0 + n * S)
    writer.forget_before(T0 + 200 * S)
    writer.close(T0 + 300 * S)
    assert run(["scrub", str(path), "-o", str(tmp_path / "c.gputop")]) == 0
    assert leaks((tmp_path / "c.gputop").read_bytes()) == []
    recording = Recording(tmp_path / "c.gputop")
    labels = [event.label for event in recording.events()]
    recording.close()
    assert labels[-1] == "mark 299 of user"
    assert "mark 5 of user" not in labels


def test_the_copy_is_judged_like_the_original(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.gputop"
    write_anew(simulated("input-workers", seconds=60), path)  # type: ignore[arg-type]
    assert run(["scrub", str(path)]) == 0
    capsys.readouterr()
    said = []
    for name in ("a.gputop", "a.scrubbed.gputop"):
        assert run(["report", str(tmp_path / name), "--no-color"]) == 0
        said.append([line for line in capsys.readouterr().out.splitlines() if "input" in line])
    assert [line for line in said[0] if "input" in line.lower()] == [
        line for line in said[1] if "input" in line.lower()
    ]
    assert any("input-workers" in line for line in said[1])


@pytest.mark.parametrize("content", [b"", b"\x89PNG\0\0", b"hello\n"])
def test_what_is_no_trace_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert run(["scrub", str(path)]) == 3
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_a_copy_can_be_opened_by_any_sqlite_tool(recording: Path) -> None:
    assert run(["scrub", str(recording)]) == 0
    with contextlib.closing(sqlite3.connect(recording.with_name("run.scrubbed.gputop"))) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    db.close()
