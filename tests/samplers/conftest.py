"""The simulated NVML library, built once, and a process that samples over it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nvml_stub import StubState, Unbuildable, build
from tests.samplers.nvml_process import NvmlProcess


@pytest.fixture(scope="session")
def nvml_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the simulated library. Without a compiler its tests are skipped, saying so; not in CI."""
    try:
        return build(tmp_path_factory.mktemp("stub"))
    except Unbuildable as why:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def shared_nvml(nvml_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NvmlProcess]:
    process = NvmlProcess(nvml_dir, StubState(tmp_path_factory.mktemp("state") / "gpus"))
    yield process
    process.close()


@pytest.fixture
def nvml(shared_nvml: NvmlProcess) -> NvmlProcess:
    """The sampling process with a clean state: call `state.set(...)`, then `open()`, then `sample()`."""
    shared_nvml.state.clear()
    return shared_nvml
