"""A SQLite store: opened once, by one process, and closed in order.

The lock on `<file>.lock` is held as long as the process lives, whatever way it ends: it keeps a second
daemon out, and is the proof that every incarnation which the file remembers is dead. One connection
writes; two read, so that a long listing does not stand in the way of what is due.
"""

import errno
import fcntl
import os
import shlex
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from tasktick import logs
from tasktick.errors import ConfigError, StoreCorrupt, StoreError, StoreFull, StoreLocked
from tasktick.service import Spawner
from tasktick.store import whereabouts
from tasktick.store.connect import (
    SAFE_SQLITE,
    SQLITE_VERSION,
    SQLITE_VERSION_TEXT,
    DatabaseError,
    Link,
    open_link,
)
from tasktick.store.migrate import migrate, version_behind
from tasktick.store.protocol import Batch, Lane, Operation
from tasktick.store.sqlite import READER_PRAGMAS, WRITER_PRAGMAS, bind, known, read_with
from tasktick.store.writer import SqliteWriter

T = TypeVar("T")
log = logs.get("store")

FILE_NAME = "tasktick.db"
URL_START = "sqlite:///"
FOLDER_MODE = 0o700
# Less than this, and a store cannot even be opened: its shared memory and the first pages of its log.
ROOM_BYTES = 131_072
FILE_MODE = 0o600


class Links(msgspec.Struct, frozen=True):
    """The connections of an open store."""

    writer: Link
    near_reader: Link
    api_reader: Link


class LinkReader:
    """Reads on one connection."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation in one snapshot of what is committed."""
        return await self._link.call(lambda raw: read_with(raw, operation))


class SqliteDatabase:
    """Reads and writes; what `write` returns is committed."""

    def __init__(self, links: Links, crash: Callable[[BaseException], None]) -> None:
        self._links = links
        self._writer = SqliteWriter(links.writer, crash)
        self._lock: IO[str] | None = None
        self._writing: Any = None

    def start(self, spawn: Spawner, lock: IO[str] | None = None) -> None:
        """Begin to write."""
        self._lock = lock
        self._writing = spawn(self._writer.run(), "store_writer")

    @property
    def writer(self) -> SqliteWriter:
        """For its figures."""
        return self._writer

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that reads, for a client: it may take its time."""
        return await LinkReader(self._links.api_reader).read(operation)

    @property
    def shared(self) -> bool:
        """The lock on the file keeps every other process out."""
        return False

    @property
    def near(self) -> "LinkReader":
        """Reads what is due: never behind a client's listing."""
        return LinkReader(self._links.near_reader)

    @property
    def term(self) -> "SqliteDatabase":
        """There is one way in, and no term that ends."""
        return self

    @property
    def home(self) -> str:
        """The file itself: whoever had it open before is dead."""
        return ""

    def when_lost(self, told: Callable[[], None]) -> None:
        """A file is never lost and found again."""

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        """Run an operation and commit it."""
        return await self._writer.write(operation, lane)

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        """Run a batch and commit it, with those of others that wait."""
        return await self._writer.write_batch(batch, items)

    def begin(self, batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        """Write one item of a batch; its result, or the error, is told when it is committed."""
        self._writer.begin(batch, item, told)

    @property
    def slice_rows(self) -> int:
        """All of a thousand: whatever is in a commit, it takes 0.9 ms more than its rows."""
        return 1_000

    def bind(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """As text: in a transaction it would be the store's thread that needs the interpreter for that."""
        del query
        return {name: bind(value) for name, value in parameters.items()}

    async def tidy(self, now: int, before: int) -> bool:
        """Nothing: in a file what has finished stays where it is until retention removes it."""
        del now, before
        return False

    async def number_events(self) -> bool:
        """Nothing: what one connection writes is numbered as it is written."""
        return False

    async def close(self) -> None:
        """Write what is queued, then close; the lock goes last."""
        self._writer.close()
        try:
            if self._writing is not None:
                await self._writing
        finally:
            await _close(self._closing_order())
            if self._lock is not None:
                self._lock.close()

    def _closing_order(self) -> list[Link]:
        """The last connection to close moves the log into the file: the writer, or, if it is broken, nobody.

        What a failed sync has left behind is for the next start to find out, from the log as it is.
        """
        readers = [self._links.api_reader, self._links.near_reader]
        return [self._links.writer, *readers] if self._writer.broken else [*readers, self._links.writer]


async def _close(links: list[Link]) -> None:
    """Close them all, even if one fails: a thread left over keeps the process alive."""
    failures: list[Exception] = []
    for link in links:
        try:
            await link.close()
        except Exception as error:  # noqa: BLE001 - raised when all are closed
            failures.append(error)
    if failures:
        raise StoreError(f"A connection to the store did not close: {failures[0]}") from failures[0]


async def open_sqlite(path: Path, spawn: Spawner, crash: Callable[[BaseException], None]) -> SqliteDatabase:
    """Lock the folder, migrate, open the connections, start the writer."""
    path = path.resolve()  # noqa: ASYNC240 - once, at start: every name of the file has one lock
    lock = lock_file(path)
    links: list[Link] = []
    try:
        _warn_of_old_sqlite()
        make_private(path)
        links.append(await open_link(path, WRITER_PRAGMAS))
        behind = await links[0].call(version_behind)
        if behind is not None:
            log.info("store_migrating", version=behind, path=str(path))
        done = await links[0].call(migrate)
        if done:
            log.info("store_migrated", version=done[-1].version, path=str(path))
        await LinkReader(links[0]).read(lambda tx: whereabouts.require_home(tx, f"{URL_START}{path}"))
        links += [await open_link(path, READER_PRAGMAS, read_only=True) for _ in range(2)]
    except BaseException as error:
        await _close(links[::-1])
        lock.close()
        if isinstance(error, DatabaseError | OSError):
            raise cannot_open(path, error) from error
        raise
    database = SqliteDatabase(Links(*links), crash)
    database.start(spawn, lock)
    return database


def make_private(path: Path) -> None:
    """SQLite gives its log and index files the rights of the database: they must be right from the start."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    os.fchmod(descriptor, FILE_MODE)
    os.close(descriptor)


def cannot_open(path: Path, error: DatabaseError | OSError) -> StoreError:
    ours = known(error)
    reason = error.strerror if isinstance(error, OSError) else error
    if isinstance(ours, StoreCorrupt):
        return StoreCorrupt(f"The store {path} is damaged: {reason}. Run `tasktick store check {flag_of(path)}`.")
    free = _free_bytes(path.parent)
    # SQLite says "disk I/O error" where its shared memory finds no room.
    if isinstance(ours, StoreFull) or _is_full(error) or (free is not None and free < ROOM_BYTES):
        return StoreFull(f"The store {path} cannot be opened: its disk is full ({reason}). Make room and start again.")
    return StoreError(f"The store {path} cannot be opened: {reason}. Check the file, its folder and their rights.")


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def sqlite_path(url: str | None, data: Path) -> Path:
    """Where the store is: `sqlite:///relative.db`, `sqlite:////absolute.db`, or the default in the data folder."""
    if url is None:
        return data / FILE_NAME
    if not url.startswith(URL_START) or len(url) == len(URL_START):
        raise ConfigError(
            # The URL of another database may hold its password: it is not shown.
            "store.url: this is none of sqlite:///relative.db (from the working folder), sqlite:////absolute.db and "
            "postgresql://user@host/database."
        )
    return Path(url.removeprefix(URL_START))


def flag_of(path: Path) -> str:
    """How a command line names this store."""
    if path.name == FILE_NAME:
        return f"--data {shlex.quote(str(path.parent))}"
    return f"--store {shlex.quote(URL_START + str(path))}"


def require_file(path: Path) -> None:
    """Raise unless there is a store that this user may read. It is not opened: that would drop locks on it."""
    try:
        there = stat.S_ISREG(path.stat().st_mode)
        if there and not _may(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileNotFoundError:
        there = False
    except OSError as error:
        raise StoreError(f"The store {path} cannot be read: {error.strerror}.{advice_on(error)}") from error
    if not there:
        raise StoreError(
            f"There is no store at {path}. `tasktick serve` makes one, or name its folder with --data, "
            "or its file with --store."
        )


def may_write(folder: Path) -> bool:
    """Whether this user may make files there, as SQLite does even to read."""
    return _may(folder, os.W_OK | os.X_OK)


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def advice_on(error: OSError) -> str:
    """What to do about it, where that is known."""
    match error:
        case PermissionError():
            return " Run this as the daemon's user."
        case FileExistsError() | NotADirectoryError():
            return " What --data names must be a folder."
        case _:
            return ""


def lock_file(
    path: Path, advice_if_held: str = "Stop that one first, or choose another folder with --data."
) -> IO[str]:
    """Take the lock that one process has at a time, or say who has it."""
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        file = os.fdopen(os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "r+")
    except OSError as error:
        raise _cannot_lock(path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), f"{os.getpid()}\n".encode())  # past the buffer, which would try again when it is closed
    except BlockingIOError as error:
        holder = file.read().strip() or "unknown"
        file.close()
        raise StoreLocked(
            f"The store {path} is in use by another TaskTick (process {holder}). {advice_if_held}",
            holder=f"process {holder}",
        ) from error
    except OSError as error:
        file.close()
        raise _cannot_lock(path, error) from error
    return file


def _cannot_lock(path: Path, error: OSError) -> StoreError:
    if _is_full(error):
        return cannot_open(path, error)
    advice = advice_on(error) or " Check the folder and its rights."
    return StoreError(f"The store {path} cannot be opened: {error.strerror}.{advice}")


def _warn_of_old_sqlite() -> None:
    if SQLITE_VERSION < SAFE_SQLITE:
        log.warning(
            "sqlite_old",
            version=SQLITE_VERSION_TEXT,
            safe=".".join(map(str, SAFE_SQLITE)),
            advice="pip install '/path/to/checkout[sqlite]'",
        )
