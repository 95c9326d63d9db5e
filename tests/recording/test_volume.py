"""Where a file lies: the type of its file system, and what a write-ahead log can be trusted with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.recording import volume
from gputop.recording.volume import file_system, free_bytes, is_network

MOUNTS = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw,nosuid shared:2 - proc proc rw
40 22 0:35 / /home rw,relatime shared:3 - autofs systemd-1 rw,fd=45
41 40 0:50 / /home/ada rw,relatime shared:4 - nfs4 nas:/export/ada rw,vers=4.2
42 22 0:51 / /mnt/with\\040space rw - cifs //nas/share rw
43 22 0:52 / /scratch rw master:7 propagate_from:2 - lustre 10.0.0.1@o2ib:/scratch rw,flock
44 22 0:53 / /mnt/far rw - fuse.sshfs ada@far:/data rw
45 43 259:3 / /scratch/local rw - xfs /dev/sdb1 rw
46 22 0:54 / /over rw - nfs nas:/a rw
47 22 0:55 / /over rw - tmpfs tmpfs rw
not a mount at all
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/data/run.gputop", "ext4", False),
        ("/", "ext4", False),
        ("/home/ada/run.gputop", "nfs4", True),
        ("/home/adam/run.gputop", "autofs", False),
        ("/mnt/with space/run.gputop", "cifs", True),
        ("/scratch/run.gputop", "lustre", True),
        ("/scratch/local/run.gputop", "xfs", False),
        ("/scratchy/run.gputop", "ext4", False),
        ("/mnt/far/a/b/run.gputop", "fuse.sshfs", True),
        ("/over/run.gputop", "tmpfs", False),
    ],
)
def test_the_longest_and_latest_mount_decides(path: str, kind: str, network: bool) -> None:
    assert file_system(Path(path), MOUNTS) == kind
    assert is_network(kind) is network


@pytest.mark.parametrize("kind", ["nfs", "smb3", "smbfs", "9p", "gpfs", "beegfs", "ceph", "afs", "fuse", "fuseblk"])
def test_these_see_several_machines_or_share_no_memory(kind: str) -> None:
    assert is_network(kind)


def test_what_is_not_known_is_taken_for_a_local_disk() -> None:
    assert file_system(Path("/x"), "") is None
    assert not is_network(None)


def test_a_link_is_followed_to_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/scratch")
    assert file_system(tmp_path / "link" / "run.gputop", MOUNTS) == "lustre"


def test_without_proc_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(volume, "MOUNTINFO", tmp_path / "none")
    assert file_system(tmp_path) is None


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="no /proc here")
def test_this_machine_answers(tmp_path: Path) -> None:
    assert file_system(Path("/proc/self")) == "proc"
    assert file_system(tmp_path / "not" / "there" / "yet")
    free, total = free_bytes(tmp_path)
    assert 0 < free <= total


def test_what_is_reserved_for_root_is_not_free() -> None:
    def statvfs(path: str) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 1000, 300, 200, 10, 10, 10, 0, 255))

    assert free_bytes(Path("/x"), statvfs) == (200 * 4096, 1000 * 4096)
