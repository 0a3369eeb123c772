"""Migrations: numbered SQL files, each applied once, and never changed after; `NNNN_name.down.sql` is its reverse.

The store records for each the version, its checksum and `min_reader`: the oldest program version that can
still read a store after it. A program refuses only what it cannot read, so that old and new run side by side.

A file is one transaction, unless it says otherwise: `-- step: alone` begins statements that each run outside a
transaction (an index made concurrently), `-- step: batches` statements that are repeated, each time in a transaction,
until they change nothing (a backfill), `-- step: transaction` the rest. Each must be right when it is run again: who is
cut off goes on at the step where it stood. SQLite has one writer, at rest while it is migrated: there a file is one
transaction whatever it says.
"""

import hashlib
import re
from importlib.resources import files
from typing import Literal, cast

import msgspec

from tasktick.errors import StoreCorrupt, StoreTooNew
from tasktick.store.connect import RawConnection, statements
from tasktick.store.queries import split

_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_DOWN = "{}.down.sql"
_STEP = re.compile(r"^-- step: (transaction|alone|batches)$", re.MULTILINE)
_LOSES = re.compile(r"^-- loses: ([^:\n]+): (SELECT .+)$", re.MULTILINE)
_MIN_READER = re.compile(r"^-- min_reader: (\d+)$", re.MULTILINE)

HISTORY = """CREATE TABLE IF NOT EXISTS schema_history (
    version INTEGER PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    min_reader INTEGER NOT NULL
)"""


Kind = Literal["transaction", "alone", "batches"]


class Step(msgspec.Struct, frozen=True):
    """A part of a migration, and how it is run."""

    kind: Kind
    text: str


class Loss(msgspec.Struct, frozen=True):
    """What a way back would lose, and the statement that counts it."""

    what: str
    query: str


class Migration(msgspec.Struct, frozen=True):
    """A step of the schema, and the way back."""

    version: int
    name: str
    text: str
    min_reader: int
    down: str | None = None

    @property
    def losses(self) -> list[Loss]:
        """What the way back may lose."""
        return [Loss(what, query) for what, query in _LOSES.findall(self.down or "")]

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class Applied(msgspec.Struct, frozen=True):
    """A step that a store has taken."""

    version: int
    name: str
    checksum: str
    min_reader: int


def available(dialect: str = "sqlite") -> list[Migration]:
    """The migrations that this program brings, in order."""
    found = []
    folder = files("tasktick.store") / "sql" / dialect / "migrations"
    for file in folder.iterdir():
        match = _FILE.match(file.name)
        if match:
            text = file.read_text()
            reader = _MIN_READER.search(text)
            if reader is None:
                raise ValueError(f"migration {file.name} does not say `-- min_reader: N`")
            down = folder / _DOWN.format(file.name.removesuffix(".sql"))
            way_back = down.read_text() if down.is_file() else None
            found.append(Migration(int(match[1]), match[2], text, int(reader[1]), way_back))
    return sorted(found, key=lambda one: one.version)


def steps_of(text: str) -> list[Step]:
    """The steps of a file, in order."""
    first, *rest = _STEP.split(text)
    found = [("transaction", first), *zip(rest[::2], rest[1::2], strict=True)]
    return [Step(cast(Kind, kind), part) for kind, part in found if split(part)]


def applied(raw: RawConnection) -> list[Applied]:
    """The steps that this store has taken; none if it is new."""
    there = raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_history'").fetchone()
    if there is None:
        return []
    rows = raw.execute("SELECT version, name, checksum, min_reader FROM schema_history ORDER BY version")
    return [Applied(*row) for row in rows.fetchall()]


def pending(ours: list[Migration], theirs: list[Applied]) -> list[Migration]:
    """What is still to be applied; raises if program and store do not belong together."""
    version = ours[-1].version if ours else 0
    known = {one.version: one for one in ours}
    for step in theirs:
        if step.min_reader > version:
            raise StoreTooNew(
                f"This store is at version {theirs[-1].version} and needs a program that reads version "
                f"{step.min_reader}; this one reads up to {version}. Install a newer TaskTick, or let the newer one "
                f"take the store back first: `tasktick migrate --to {version}`."
            )
        mine = known.get(step.version)
        if mine is not None and mine.checksum != step.checksum:
            raise StoreCorrupt(
                f"Migration {step.version:04} ({step.name}) of this store is not the one of this program: "
                "one of the two was changed after it was released. Use the program that made the store."
            )
    done = {step.version for step in theirs}
    return [one for one in ours if one.version not in done]


def version_behind(raw: RawConnection) -> int | None:
    """The version of a store that is not new, if there is something to be applied: that may take long."""
    theirs = applied(raw)
    return theirs[-1].version if theirs and pending(available(), theirs) else None


def migrate(raw: RawConnection, to: int | None = None) -> list[Migration]:
    """Bring the store up to date, or up to a version; what was applied.

    Who migrates at the same time waits, and finds it done.
    """
    ours = available()
    pending(ours, applied(raw))  # what cannot be read is refused before anything is written
    ours = [one for one in ours if to is None or one.version <= to]
    raw.execute(HISTORY)
    done: list[Migration] = []
    while (one := _apply_next(raw, ours)) is not None:
        done.append(one)
    return done


def _apply_next(raw: RawConnection, ours: list[Migration]) -> Migration | None:
    """Apply the next step that is missing, under the lock that writers share."""
    raw.execute("BEGIN IMMEDIATE")
    try:
        todo = pending(ours, applied(raw))
        for migration in todo[:1]:
            for statement in statements(migration.text):
                raw.execute(statement)
            raw.execute(
                "INSERT INTO schema_history (version, name, checksum, min_reader) VALUES (?, ?, ?, ?)",
                (migration.version, migration.name, migration.checksum, migration.min_reader),
            )
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
    return todo[0] if todo else None
