"""Where tests write: in memory, where there is room, so that they do not wait for a disk that none of them looks at.

Whoever is killed loses nothing that was written, on a disk or not, so tests that kill are as true in memory. The chaos
suites need the time that a disk takes, and run on the machine's; what a power cut leaves is asked on disks that are
made for it (`tests.chaos.disk`).
"""

import shutil
from functools import cache
from pathlib import Path

MEMORY = Path("/dev/shm")
DISK = Path("/tmp")
# Every worker writes at once, each with servers of its own.
ROOM_BYTES = 4 << 30


@cache
def quick() -> Path:
    """A folder for temporary folders: in memory, if there is room."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    return MEMORY if has_room else DISK
