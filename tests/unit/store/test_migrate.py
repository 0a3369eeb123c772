"""Migrations are applied once, in order, and never changed; a store is refused only if it cannot be read."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasktick.errors import StoreCorrupt, StoreTooNew
from tasktick.store import migrate as module
from tasktick.store import secrets, tenants
from tasktick.store.connect import OperationalError, RawConnection, raw_connection
from tasktick.store.migrate import Applied, Migration, applied, available, migrate, pending
from tasktick.store.migrate_back import migrate_back
from tasktick.store.rows import KeyRow, TenantRow
from tasktick.store.sqlite import read_with

FIRST = Migration(1, "first", "CREATE TABLE one (n INTEGER);\nINSERT INTO one VALUES (1);\n", 1)
SECOND = Migration(2, "second", "CREATE TABLE two (n INTEGER);\n", 1)
BROKEN = Migration(2, "broken", "CREATE TABLE two (n INTEGER);\nINSERT INTO nowhere VALUES (1);\n", 1)


def there(one: Migration, min_reader: int | None = None, checksum: str | None = None) -> Applied:
    return Applied(one.version, one.name, checksum or one.checksum, min_reader or one.min_reader)


def tables(raw: RawConnection) -> set[str]:
    return {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[RawConnection]:
    connection = raw_connection(tmp_path / "store.db", ("PRAGMA journal_mode = WAL",))
    yield connection
    connection.close()


def brings(monkeypatch: pytest.MonkeyPatch, *migrations: Migration) -> None:
    monkeypatch.setattr(module, "available", lambda: list(migrations))


def test_what_we_bring_is_numbered_without_a_gap_and_says_who_may_read() -> None:
    found = available()
    assert [one.version for one in found] == list(range(1, len(found) + 1))
    assert all(1 <= one.min_reader <= one.version for one in found)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_has_a_way_back_that_counts_what_it_says_it_loses(dialect: str) -> None:
    for one in available(dialect):
        assert one.down, f"write {one.version:04}_{one.name}.down.sql for {dialect}"
        assert len(one.losses) == one.down.count("-- loses:")


def test_a_new_store_takes_every_step_and_then_none(raw: RawConnection) -> None:
    assert applied(raw) == []
    assert migrate(raw) == available()
    assert applied(raw) == [there(one) for one in available()]
    assert migrate(raw) == []


def test_an_older_store_takes_what_it_lacks(raw: RawConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    brings(monkeypatch, FIRST)
    assert migrate(raw) == [FIRST]
    brings(monkeypatch, FIRST, SECOND)
    assert migrate(raw) == [SECOND]
    assert tables(raw) >= {"one", "two"}


def test_a_step_that_fails_leaves_nothing(raw: RawConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    brings(monkeypatch, FIRST, BROKEN)
    with pytest.raises(OperationalError, match="nowhere"):
        migrate(raw)
    assert not raw.in_transaction
    assert "two" not in tables(raw)
    assert applied(raw) == [there(FIRST)]


def test_a_step_that_was_changed_is_refused(raw: RawConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    brings(monkeypatch, FIRST)
    migrate(raw)
    brings(monkeypatch, Migration(1, "first", FIRST.text + "-- and more\n", 1), SECOND)
    with pytest.raises(StoreCorrupt, match=r"Migration 0001 \(first\).*changed after it was released"):
        migrate(raw)
    assert "two" not in tables(raw)


def test_a_later_store_is_read_if_it_can_be() -> None:
    assert pending([FIRST], [there(FIRST), there(SECOND, min_reader=1)]) == []
    with pytest.raises(
        StoreTooNew, match="at version 2 and needs a program that reads version 2; this one reads up to 1"
    ):
        pending([FIRST], [there(FIRST), there(SECOND, min_reader=2)])


def test_a_store_that_is_too_new_is_not_touched(raw: RawConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    brings(monkeypatch, FIRST, Migration(2, "second", SECOND.text, 2))
    migrate(raw)
    brings(monkeypatch, FIRST)
    before = raw.execute("PRAGMA data_version").fetchone(), applied(raw)
    with pytest.raises(StoreTooNew):
        migrate(raw)
    assert (raw.execute("PRAGMA data_version").fetchone(), applied(raw)) == before


def test_who_migrates_at_the_same_time_finds_it_done(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    raw_connection(path, ("PRAGMA journal_mode = WAL",)).close()
    results: list[object] = []
    ready = threading.Barrier(4)

    def run() -> None:
        connection = raw_connection(path, ("PRAGMA busy_timeout = 10000",))
        ready.wait()
        try:
            results.append(len(migrate(connection)))
        except Exception as error:  # noqa: BLE001 - judged below
            results.append(error)
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [one for one in results if isinstance(one, int)]
    assert len(counts) == len(threads), results
    assert sum(counts) == len(available()), "each step is taken once, by whoever comes to it first"


def test_who_looked_before_another_migrated_applies_nothing_twice(
    raw: RawConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program takes the step between our look and our lock."""
    brings(monkeypatch, FIRST)
    look = module.applied

    def late(connection: RawConnection) -> list[Applied]:
        seen = look(connection)
        monkeypatch.setattr(module, "applied", look)
        other = raw_connection(tmp_path / "store.db")
        migrate(other)
        other.close()
        return seen

    monkeypatch.setattr(module, "applied", late)
    assert migrate(raw) == []
    assert raw.execute("SELECT count(*) FROM one").fetchone() == (1,)


def test_keys_and_secrets_of_the_first_version_are_read(raw: RawConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = available()
    brings(monkeypatch, everything[0])
    migrate(raw)
    raw.execute(
        "INSERT INTO keys (id, prefix, hash, tenant, role, created_at) VALUES ('k', 'p', 'h', 't', 'viewer', 1)"
    )
    raw.execute("INSERT INTO secrets VALUES ('a', 't', 'signing', 'sealed', 1, NULL), ('b', 't', 'signing', 's', 2, 9)")
    brings(monkeypatch, *everything)
    migrate(raw)

    assert read_with(raw, secrets.keys) == [KeyRow("k", "p", "h", "t", "viewer", None, 1)]
    assert [row.retired_at for row in read_with(raw, secrets.read)] == [9, None]
    assert read_with(raw, lambda tx: tenants.find(tx, "t")) == TenantRow("t")


@pytest.mark.parametrize("to", [one.version for one in available()])
def test_a_store_that_went_back_is_described_as_one_that_never_went_further(tmp_path: Path, to: int) -> None:
    """The older program's check compares the two."""

    def described(name: str, newest: int | None) -> list[Any]:
        raw = raw_connection(tmp_path / name, ("PRAGMA journal_mode = WAL",))
        try:
            migrate(raw, newest)
            migrate_back(raw, to, lose_data=True)
            return raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
        finally:
            raw.close()

    assert described("back.db", None) == described("fresh.db", to)
