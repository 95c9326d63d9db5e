"""A look into a loader worker: what it finds, and what is said where it can't."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gputop.records import Event, Run, Site
from gputop.samplers.attach import attachment, inside, loading, stacks, tool
from gputop.samplers.attach.chunk import Sampled
from gputop.samplers.attach.inside import Look
from gputop.sources.live import LiveSource
from tests.attach.test_attachment import Chunks

S = 1_000_000_000
OWN = (stacks.Frame("_worker_loop", "/x/site-packages/w.py", 1), stacks.Frame("decode", "/code/data.py", 9))
SEEN = Sampled([stacks.Thread(os.getpid(), "MainThread", [stacks.Stretch(0, S, OWN)])])


def look(*answers: Sampled, now: list[int] | None = None) -> Look:
    clock = now or [0]
    workers = [os.getpid()]
    return Look(1, "r", clock=lambda: clock[0], workers=workers, program="py-spy", chunk=Chunks(*answers))


def test_its_lines_are_a_record_of_the_run() -> None:
    one = look(SEEN)
    (record,) = one.poll()
    assert isinstance(record, Site)
    assert [(site.phase, site.site, site.samples) for site in record.sites] == [("worker", "data.py:9", 100)]
    assert one.over
    assert one.poll() == []


def test_a_refusal_is_kept_and_a_hang_ends() -> None:
    refused = look(Sampled([], refused=tool.Refused("not allowed", "sudo")))
    assert refused.poll() == []
    assert (refused.over, str(refused.refused)) == (True, "not allowed: sudo")
    now = [0]
    hung = look(now=now)
    assert (hung.poll(), hung.over) == ([], False)
    now[0] = 60 * S
    assert (hung.poll(), hung.over, str(hung.refused)) == ([], True, "py-spy does not answer")


def test_the_busiest_worker_is_taken_and_one_that_is_gone_passed_over() -> None:
    assert loading.busiest([4_194_000, os.getpid()]) == [os.getpid()]
    with pytest.raises(tool.Refused, match="no loader workers"):
        Look(os.getpid(), "r", clock=lambda: 0, workers=[4_194_000], program="py-spy", chunk=Chunks())


def test_what_only_the_attempt_shows_is_told_to_whoever_asked(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = Chunks(
        Sampled([], refused=tool.Refused("reading another process is not allowed here", "run it with sudo"))
    )
    monkeypatch.setattr(attachment, "Attachment", partial(attachment.Attachment, program="py-spy", chunk=chunks))
    source = LiveSource(env={**os.environ, "GPUTOP_DIR": str(short_dir), "GPUTOP_DIR_ONLY": "1"})
    said: list[str] = []
    try:
        source.attach(os.getpid(), said.append)
        records = source.poll(0)
        assert source.waiting() == f"process {os.getpid()} can't be watched: {said[0]}"
    finally:
        source.close()
    assert said == ["reading another process is not allowed here: run it with sudo"]
    assert any(isinstance(one, Event) and one.kind == "exit" for one in records)


def test_with_a_profile_a_refused_look_is_a_warning_and_no_workers_are_none(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Look:
        raise tool.Refused("reading another process is not allowed here", "run it with sudo")

    monkeypatch.setattr(inside, "Look", refuse)
    source = LiveSource(env={**os.environ, "GPUTOP_DIR": str(short_dir), "GPUTOP_DIR_ONLY": "1"})
    try:
        source.profile("r", 10)
        assert source.warnings() == []
        source._follow([Run(t=0, run_id="r", pid=os.getpid(), host=os.uname().nodename)], 0)
        monkeypatch.setattr(loading, "workers", lambda _pid: [])
        source.profile("r", 10)
        assert source.warnings() == []
        monkeypatch.setattr(loading, "workers", lambda _pid: [os.getpid()])
        source.profile("r", 10)
        assert source.warnings() == [
            "no look into a loader worker: reading another process is not allowed here: run it with sudo"
        ]
    finally:
        source.close()
