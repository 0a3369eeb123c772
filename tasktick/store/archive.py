"""Finished tasks written out by the day on which they ended, and dropped from the store once they are safe on a disk.

A day is a gzip file of JSON lines, one task a line with its attempts and dead letters, read in one snapshot. It is
written beside its name, synced, and renamed; then `manifest.json` is, which has its checksum. So what the manifest
names is whole, and who was cut off begins again at the day where it stood.

What is dropped is what a file holds, read back from it: a task that has changed since stays. On PostgreSQL a day of
history goes whole, and only if the day has the tasks that were written: by their sum, and by their number.
"""

import fcntl
import gzip
import hashlib
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO

import msgspec

from tasktick.errors import StoreCorrupt, StoreError
from tasktick.model.attempt import AttemptRow
from tasktick.model.ids import wire
from tasktick.model.task import Payload, TaskDetail, TaskState
from tasktick.store import attempts, dlq, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.rows import DeadLetter, Ended

MANIFEST = "manifest.json"
FORMAT = "tasktick-archive/1"
DAY_MS = 86_400_000
PAGE_ROWS = 500
READ_BYTES = 1_048_576
# Tasks that are read whole at once: of the largest, five hundred would fill the memory.
WHOLE_ROWS = 20
FILE_MODE = 0o600
FOLDER_MODE = 0o700


class Archived(msgspec.Struct, frozen=True):
    """A line of a file: a task, and all that hangs on it. `in_history` is where it was found."""

    id: str
    outcome: str
    in_history: bool
    state: TaskState
    detail: TaskDetail
    payload: Payload
    attempts: list[AttemptRow]
    dead_letters: list[DeadLetter]


class Key(msgspec.Struct, frozen=True):
    """What is needed of a line's task to drop it."""

    id: str
    tenant: str
    state: int
    version: int


class Line(msgspec.Struct, frozen=True):
    """The same line, read back for what is needed to drop it."""

    in_history: bool
    state: Key


class File(msgspec.Struct):
    """What the manifest says of a file.

    It is `dropped` when the store no longer has what is in it, and `superseded` when the day has changed since and
    has another file; either is kept as it is. `history_sum` is of those of its tasks that were in history.
    """

    day: str
    tasks: int
    in_history: int
    attempts: int
    bytes: int
    sha256: str
    history_sum: str = ""
    dropped: bool = False
    superseded: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether it is no longer compared with the store."""
        return self.dropped or self.superseded


class Manifest(msgspec.Struct):
    """What a folder holds, by the name of the file."""

    store: str
    files: dict[str, File] = {}
    format: str = FORMAT


Page = Callable[[Transaction, int, Ended | None], Awaitable[list[Ended]]]


async def hot_page(tx: Transaction, from_at: int, last: Ended | None) -> list[Ended]:
    """Finished tasks of a day in the tables that every store has, in the order of their end."""
    after = {"after": -1, "after_id": ""} if last is None else {"after": last.at, "after_id": last.id}
    return await tx.rows("archive_page", Ended, from_at=from_at, until=from_at + DAY_MS, limit=PAGE_ROWS, **after)


def day_text(from_at: int) -> str:
    """A day as people write it."""
    return datetime.fromtimestamp(from_at / 1_000, UTC).date().isoformat()


def day_start(day: date) -> int:
    """The first millisecond of a day."""
    return round((day - date(1970, 1, 1)) / timedelta(milliseconds=1))


class Folder:
    """Where the files are written."""

    def __init__(self, path: Path, store: str) -> None:
        self.path = path
        try:
            path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self.manifest = self._read(store)
        except OSError as error:
            raise StoreError(f"The folder {path} cannot be used: {error.strerror}. Name another with --out.") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have it to ourselves: two that write the same file would leave half of each."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.manifest = self._read(self.manifest.store)
            yield
        except BlockingIOError as error:
            raise StoreError(f"Another archive is being written to {self.path}. Wait for its end.") from error
        finally:
            os.close(descriptor)

    def _read(self, store: str) -> Manifest:
        place = self.path / MANIFEST
        if not place.exists():
            return Manifest(store)
        try:
            found = msgspec.json.decode(place.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise StoreError(f"{place} is no manifest of an archive ({error}). Name another with --out.") from error
        if found.format != FORMAT or found.store != store:
            raise StoreError(
                f"{self.path} holds the archive of {found.store} ({found.format}), not of {store}. Name another "
                "folder with --out."
            )
        return found

    def open_file(self, day: str) -> str:
        """The name for a day: the file that is there and not closed, else a new one."""
        names = [f"finished-{day}{'' if number == 1 else f'.{number}'}.jsonl.gz" for number in range(1, 1_000)]
        return next(
            name for name in names if name not in self.manifest.files or not self.manifest.files[name].is_closed
        )

    def keep(self, name: str, file: File) -> None:
        """Note a file, durably."""
        self.manifest.files[name] = file
        part = self.path / f"{MANIFEST}.part"
        with _private(part) as out:
            out.write(msgspec.json.format(msgspec.json.encode(self.manifest)))
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.path / MANIFEST)
        self._sync()

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def write(self, tx: Transaction, name: str, from_at: int, pages: list[Page]) -> File:
        """Write a day's tasks, as this snapshot has them; the file is whole when its name is there."""
        part = self.path / f"{name}.part"
        file = File(day_text(from_at), 0, 0, 0, 0, "")
        with _private(part) as out:
            # No time in the header: the same rows make the same file.
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as packed:
                for page in pages:
                    await _write_page(tx, packed, file, from_at, page)
            out.flush()
            os.fsync(out.fileno())
        file.bytes = part.stat().st_size
        file.sha256 = checksum(part)
        part.replace(self.path / name)
        self._sync()
        return file

    def verify(self, name: str) -> None:
        """Raise unless a file is as it was written."""
        place = self.path / name
        if not place.exists() or checksum(place) != self.manifest.files[name].sha256:
            raise StoreError(
                f"{place} is not as it was written: nothing of it is dropped. Put it back, or name another folder."
            )

    def lines(self, name: str) -> Iterator[Line]:
        """What a file holds."""
        with gzip.open(self.path / name, "rb") as packed:
            for line in packed:
                yield msgspec.json.decode(line, type=Line)


async def _write_page(tx: Transaction, packed: gzip.GzipFile, file: File, from_at: int, page: Page) -> None:
    last: Ended | None = None
    while rows := await page(tx, from_at, last):
        last = rows[-1]
        for start in range(0, len(rows), WHOLE_ROWS):
            for one in await whole(tx, rows[start : start + WHOLE_ROWS]):
                packed.write(msgspec.json.encode(one) + b"\n")
                file.tasks += 1
                file.in_history += one.in_history
                file.attempts += len(one.attempts)


async def whole(tx: Transaction, rows: list[Ended]) -> list[Archived]:
    """These tasks with all that hangs on them."""
    ids = [row.id for row in rows]
    by_tenant: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_tenant[row.tenant].append(row.id)
    views = {view.state.id: view for tenant, some in by_tenant.items() for view in await tasks.views(tx, tenant, some)}
    lost = [one for one in ids if one not in views]
    if lost:
        raise StoreCorrupt(f"The task {wire('tsk', lost[0])} is not whole. Run `tasktick store check`.")
    tried: defaultdict[str, list[AttemptRow]] = defaultdict(list)
    for attempt in await attempts.of_tasks(tx, ids):
        tried[attempt.task_id].append(attempt)
    letters: defaultdict[str, list[DeadLetter]] = defaultdict(list)
    for letter in await dlq.of_tasks(tx, ids):
        letters[letter.task_id].append(letter)
    found = []
    for row in rows:
        view = views[row.id]
        values = row.in_history, view.state, view.detail, view.payload, tried[row.id], letters[row.id]
        found.append(Archived(wire("tsk", row.id), view.state.state.word, *values))
    return found


async def drop_unchanged(tx: Transaction, lines: list[Line]) -> int:
    """Remove those of these tasks that are as they were written; how many."""
    now = {state.id: state for state in await tasks.states(tx, [line.state.id for line in lines])}
    same = [
        (line.state.id, line.state.tenant, line.state.state)
        for line in lines
        if line.state.id in now and now[line.state.id].version == line.state.version
    ]
    if same:
        await tasks.delete(tx, same)
    return len(same)


def _private(path: Path) -> IO[bytes]:
    """A new file that nobody else may read: it has what was sent, and what was answered."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), "wb")


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(READ_BYTES):
            digest.update(part)
    return digest.hexdigest()
