"""CUDA_VISIBLE_DEVICES in all its forms: a device is found for certain or not at all."""

from __future__ import annotations

import pytest

from gputop.records import Gpu, GpuProcess, Process, Run
from gputop.timeline import Timeline
from gputop.visible import Device, device_of, entries, hides_all, in_force, ordinal

A, B, C = "GPU-aaaa1111-0000-4000-8000-000000000000", "GPU-aaaa2222-0000-4000-8000-000000000000", "GPU-cccc"
SLICE = "MIG-11111111-2222-3333-4444-555555555555"
MACHINE = [Device(A, (0, 0x81, 0)), Device(B, (0, 0x17, 0)), Device(C, (0, 0xC1, 0))]
"""In NVML's order, which is not that of the PCI addresses here."""

PCI = "PCI_BUS_ID"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ()), (" ", ()), ("-1", ()), ("0", ("0",)), (" 2 , 0 ", ("2", "0")), ("0,-1,1", ("0",)), ("1,,2", ("1",)),
        ("0,x,1", ("0",)), ("NoDevFiles", ()), ("0,0", ()), ("+1,02", ("1", "2")), (f"{A},{B}", (A, B)),
        ("GPU-aaaa1,GPU-c", ("GPU-aaaa1", "GPU-c")), (f"{A},0", (A,)), (f"0,{A}", ("0",)), (f"{SLICE},{A}", (SLICE,)),
        ("GPU-", ()), (f"{A},{A}", ()), ("none", ()), ("0x1", ("0",)),
    ],
)  # fmt: skip
def test_an_invalid_entry_ends_the_list(value: str, expected: tuple[str, ...]) -> None:
    assert entries(value) == expected
    assert hides_all(value) == (not expected)


@pytest.mark.parametrize(
    ("value", "order", "at", "expected"),
    [
        ("2,0", PCI, 0, C), ("2,0", PCI, 1, B), ("2,0", PCI, 2, None), ("1", PCI, 0, A), ("3", PCI, 0, None),
        ("3,0", PCI, 1, None), ("0,3", PCI, 0, B), ("0", None, 0, None), ("0", "FASTEST_FIRST", 0, None),
        (None, PCI, 1, A), (None, None, 0, None), (A, None, 0, A), ("GPU-aaaa2", None, 0, B),
        ("GPU-aaaa", None, 0, None),
        ("gpu-cccc", None, 0, None), ("GPU-cccc,GPU-aaaa1", None, 1, A), ("GPU-dddd,GPU-cccc", None, 1, None),
        ("", PCI, 0, None), ("-1", PCI, 0, None),
    ],
)  # fmt: skip
def test_a_device_is_found_for_certain_or_not_at_all(
    value: str | None, order: str | None, at: int, expected: str | None
) -> None:
    assert device_of(value, order, at, MACHINE) == expected


def test_a_mig_instance_is_on_its_device_and_ordinals_beside_one_are_not_trusted() -> None:
    machine = [Device(A, (0, 1, 0), (SLICE,)), Device(B, (0, 2, 0))]
    assert device_of(SLICE, None, 0, machine) == A
    assert device_of(SLICE[:9], None, 0, machine) == A
    assert device_of(f"MIG-{A}/7/0", None, 0, machine) == A
    assert device_of("1", PCI, 0, machine) is None


def test_with_one_gpu_its_number_is_0_in_every_order() -> None:
    assert device_of("0", None, 0, MACHINE[:1]) == A
    assert device_of("1", None, 0, MACHINE[:1]) is None


def test_an_ordinal_is_that_of_cuda_alone() -> None:
    assert [ordinal(device) for device in ("cuda:3", "cuda", "cpu", "sim:0", None)] == [3, None, None, None, None]


GPUS = [
    Gpu(t=0, host="h", gpu_uuid=uuid, gpu_pci=f"00000000:{bus}:00.0") for uuid, bus in ((A, "81"), (B, "17"))
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cuda_visible": "GPU-aaaa2", "device": "cuda:0"}, (B, "visible")),
        ({"cuda_visible": "1,0", "cuda_order": PCI, "device": "cuda:1"}, (B, "visible")),
        ({"cuda_visible": "1", "cuda_order": PCI}, (A, "visible")),
        ({"cuda_visible": "0,1", "cuda_order": PCI}, (None, None)),
        ({"cuda_visible": "1"}, (None, None)),
        ({"cuda_visible": "1", "cuda_order": PCI, "host": "elsewhere"}, (None, None)),
        ({"cuda_visible": "GPU-aaaa2", "gpu_uuid": A, "device": "cuda:0"}, (A, "uuid")),
        ({"cuda_visible": "GPU-aaaa2", "device": "cpu"}, (None, None)),
    ],
)
def test_a_run_is_matched_by_it(fields: dict[str, str], expected: tuple[str | None, str | None]) -> None:
    timeline = Timeline()
    run = Run(**{"t": 0, "run_id": "r", "pid": 7, "host": "h", **fields})  # type: ignore[arg-type]
    for record in (run, *GPUS):
        timeline.add(record)
    assert timeline.match(run) == expected


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_the_only_gpu_is_not_the_run_s_where_it_is_hidden_from_it(value: str) -> None:
    timeline = Timeline()
    run = Run(t=0, run_id="r", pid=7, host="h", cuda_visible=value)
    for record in (run, GPUS[0]):
        timeline.add(record)
    assert timeline.match(run) == (None, None)


def test_a_process_on_a_mig_instance_is_on_its_device() -> None:
    timeline = Timeline()
    run = Run(t=0, run_id="r", pid=7, host="h")
    inside = [{"uuid": SLICE, "processes": [{"pid": 7, "mem_bytes": 1}]}]
    on_it = Gpu(t=0, host="h", gpu_uuid=C, mig=inside, processes=[GpuProcess(pid=9)])
    for record in (run, *GPUS, on_it):
        timeline.add(record)
    assert timeline.match(run) == (C, "pid")


@pytest.mark.parametrize(
    ("env", "nvidia", "amd"),
    [
        ({}, None, None), ({"CUDA": "1"}, "1", "1"), ({"HIP": "1"}, None, "1"), ({"CUDA": "0", "HIP": "1"}, "0", "1"),
        ({"ROCR": "2"}, None, "2"), ({"ROCR": "2", "HIP": "0"}, None, None), ({"ROCR": "1,2", "HIP": "-1"}, None, "-1"),
        ({"ROCR": "", "HIP": "0"}, None, ""), ({"ROCR": "0", "CUDA": ""}, "", ""), ({"HIP": ""}, None, ""),
    ],
)  # fmt: skip
def test_amds_variables_count_among_what_another_leaves(
    env: dict[str, str], nvidia: str | None, amd: str | None
) -> None:
    environ = {f"{name}_VISIBLE_DEVICES": value for name, value in env.items()}
    assert in_force(environ, amd=False) == nvidia
    assert in_force(environ, amd=True) == amd


def test_a_containers_numbers_are_not_the_machines_but_its_uuids_are() -> None:
    def matched(value: str) -> tuple[str | None, str | None]:
        timeline = Timeline()
        timeline.add(Run(t=0, run_id="r", pid=7, host="h", cuda_visible=value, cuda_order=PCI, device="cuda:0"))
        for device in MACHINE:
            assert device.pci is not None
            timeline.add(Gpu(t=0, host="h", gpu_uuid=device.uuid, gpu_pci="{:08x}:{:02x}:{:02x}.0".format(*device.pci)))
        assert timeline.match(timeline.runs["r"].run)[1] == "visible"
        timeline.add(Process(t=1, host="h", pid=4242, run_id="r"))
        return timeline.match(timeline.runs["r"].run)

    assert matched("1") == (None, None)
    assert matched(B) == (B, "visible")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"cuda_visible": "1", "cuda_order": PCI, "in_job": True}, None), ({"cuda_visible": B, "in_job": True}, B),
        ({"hip_visible": "1", "cuda_order": PCI}, None),
        ({"hip_visible": "1", "cuda_order": PCI, "framework_version": "2.9.0+rocm6.4"}, A),
        ({"rocr_visible": "2", "hip_visible": "0", "cuda_order": PCI, "framework_version": "2.9.0+rocm6.4"}, None),
    ],
)  # fmt: skip
def test_what_a_run_says_of_its_surroundings_decides_which_number_is_the_machines(
    run: dict[str, object], expected: str | None
) -> None:
    timeline = Timeline()
    timeline.add(Run(t=0, run_id="r", pid=7, host="h", **run))  # type: ignore[arg-type]
    for device in MACHINE:
        assert device.pci is not None
        address = "{:08x}:{:02x}:{:02x}.0".format(*device.pci)
        timeline.add(Gpu(t=0, host="h", gpu_uuid=device.uuid, gpu_pci=address))
    assert timeline.match(timeline.runs["r"].run)[0] == expected
