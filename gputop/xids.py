"""XIDs: the numbers by which NVIDIA's driver tells of errors on a GPU, in words (source: NVIDIA's XID Errors guide).

Most tell of the device or its driver; some only of what a program did, and one merely of the cleaning up after it.
"""

from __future__ import annotations

CLEANUP = 45
"""What the driver reports for each channel of a program that was ended: no error of its own."""

PROGRAMS = frozenset({13, 31, 43, CLEANUP, 68, 69, 109})
"""Errors of a program's work, which the device lives through."""

_WORDS = {
    13: "an exception in the graphics engine: most often a kernel that accesses memory which is not its own",
    31: "a page fault: a kernel accesses memory which is not its own",
    32: "commands that the GPU can't read: a faulty driver, or PCIe",
    38: "an error of the driver's firmware",
    43: "a program's kernels were stopped after an error of theirs",
    CLEANUP: "the work of a program that has ended was cleared away",
    46: "the GPU has stopped processing",
    48: "an ECC error that can't be corrected",
    61: "a halt of the GPU's internal microcontroller",
    62: "a halt of the GPU's internal microcontroller",
    63: "faulty memory has been retired or remapped: from the next reset on it is out of use",
    64: "faulty memory could not be retired or remapped",
    68: "an exception in the video decoder",
    69: "an error of the graphics engine",
    74: "an error of NVLink",
    79: "the GPU has fallen off the bus",
    92: "many ECC errors that were corrected",
    94: "an ECC error that was contained to one program",
    95: "an ECC error that was not contained: the GPU must be reset",
    109: "a program's work did not give way in time",
    110: "a security fault",
    119: "the GPU's system processor does not answer",
    120: "an error of the GPU's system processor",
    121: "an error on the link between CPU and GPU",
    140: "an ECC error that can't be corrected",
    143: "the GPU could not be initialised",
    149: "an error of NVLink",
}


def words(xid: int) -> str:
    """As "XID 79 (the GPU has fallen off the bus)"."""
    meaning = _WORDS.get(xid)
    return f"XID {xid}" + (f" ({meaning})" if meaning else "")


def of_device(xid: int) -> bool:
    """Whether it tells of the device or its driver, rather than of what a program did."""
    return xid not in PROGRAMS
