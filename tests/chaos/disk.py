"""A disk whose power can be cut: an ext4 in a file, and that file as it was at one instant.

Two loop devices, one in the other. The inner ext4 holds the data; its backing file lies on the outer one. To
cut the power, the outer filesystem is frozen: whatever the inner one is writing stops where it is, in the
middle of a sync as well. The backing file is copied, and the outer one thawed. What the copy holds is what the
inner filesystem had handed to its disk at that instant; what it only had in memory is lost, as it would be.
Mounting the copy replays its journal, as a machine does that comes up again.

Needs root and loop devices (`available` says so). The outer disk lies in memory, where that is possible.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

IN_MEMORY = Path("/dev/shm")
OUTER_MB = 320
INNER_MB = 128
# Nothing is left to be initialised in the background, which would write when we look.
MAKE = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")
TOOLS = ("mkfs.ext4", "mount", "umount", "fsfreeze", "losetup")


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")


@cache
def available() -> bool:
    """Whether this machine lets us make, mount and freeze such a disk."""
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in TOOLS):
        return False
    try:
        with cuttable_disk(outer_mb=64, inner_mb=16) as disk:
            disk.cut(disk.folder / "probe.img")
    except OSError:
        return False
    return True


class CuttableDisk:
    """A mounted disk; `mount` is where to write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mount = folder / "disk"
        self._outer = folder / "outer"
        self._image = self._outer / "inner.img"

    def cut(self, to: Path) -> None:
        """Keep the disk as it is at one instant. Blocks for some 50 ms; whoever writes on it waits too."""
        _run("fsfreeze", "-f", self._outer)
        try:
            _run("cp", "--sparse=always", self._image, to)
        finally:
            _run("fsfreeze", "-u", self._outer)

    def make(self, outer_mb: int, inner_mb: int) -> None:
        for folder, image, size_mb in (
            (self._outer, self.folder / "outer.img", outer_mb),
            (self.mount, self._image, inner_mb),
        ):
            folder.mkdir()
            with image.open("wb") as file:
                file.truncate(size_mb << 20)
            _run(*MAKE, image)
            _run("mount", "-o", "loop,noatime", image, folder)

    def unmake(self) -> None:
        for folder in (self.mount, self._outer):
            if folder.is_mount():
                _run("umount", folder)


@contextmanager
def cuttable_disk(outer_mb: int = OUTER_MB, inner_mb: int = INNER_MB) -> Iterator[CuttableDisk]:
    """A disk for as long as the block lasts; everything on it must be closed by then."""
    where = IN_MEMORY if IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="tasktick-disk-", dir=where) as folder:
        disk = CuttableDisk(Path(folder))
        try:
            disk.make(outer_mb, inner_mb)
            yield disk
        finally:
            disk.unmake()


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """A disk that was cut, after its machine came up again."""
    at.mkdir(exist_ok=True)
    _run("mount", "-o", "loop,noatime", image, at)
    try:
        yield at
    finally:
        _run("umount", at)
