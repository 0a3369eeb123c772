"""New tasks of a file as one step: all that belongs to them, or nothing, and what is said where it fails."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasktick.errors import StoreBroken, StoreFull
from tasktick.model.retry import RetryPolicy
from tasktick.model.task import Payload, Target
from tasktick.store import claims, one_step, plain_tasks, sqlite
from tasktick.store.connect import DatabaseError, raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.one_step import Apart, Bound, OneStep
from tasktick.store.sqlite import WRITER_PRAGMAS
from tasktick.store.task_rows import NewRow, encoded
from tests.unit.store.writing import broken, full

TABLES = ("tasks", "task_details", "counts", "events")
OLD = (3, 40, 1)


@pytest.fixture(params=[None, OLD], ids=["this", "old"])
def raw(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param is not None:
        monkeypatch.setattr("tasktick.store.sqlite.SQLITE_VERSION", request.param)
    one_step._made_of.cache_clear()
    connection = raw_connection(tmp_path / "tasktick.db", WRITER_PRAGMAS)
    migrate(connection)
    yield connection
    connection.close()
    one_step._made_of.cache_clear()


def row(number: int, tenant: str = "a", host: str = "h") -> NewRow:
    task_id = f"{number:032x}"
    shape = (tenant, 2, "default", host, 5, 3, 1_000, False, "webhook", 30_000, None)
    return NewRow(shape, (task_id, 7, 8, 9, None, None, None, None), Payload(Target(f"http://r.example/{number}")))


def bound(*rows: NewRow) -> list[Bound]:
    alone = plain_tasks.alone(rows, [None] * len(rows))
    return [one_step.bound(alone.query, alone.parameters)]


def there(raw: Any) -> dict[str, int]:
    return {name: raw.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}


@pytest.mark.parametrize("hosts", [("h", "h", "h"), ("h", "i", "h")], ids=["alike", "of two shapes"])
def test_all_that_is_written_is_what_its_parts_would_write(raw: Any, tmp_path: Path, hosts: tuple[str, ...]) -> None:
    rows = [row(number, host=host) for number, host in enumerate(hosts)]
    assert OneStep().write(raw, bound(*rows)).changes == 2 * len(rows) + 2
    assert not raw.in_transaction

    other = raw_connection(tmp_path / "other.db", WRITER_PRAGMAS)
    migrate(other)
    assert sqlite.write_with(other, lambda tx: sqlite.step(plain_tasks.insert(tx, rows)))
    for name in TABLES:
        wanted = f"SELECT * FROM {name} ORDER BY 1"
        assert raw.execute(wanted).fetchall() == other.execute(wanted).fetchall()
    other.close()


def test_a_payload_is_kept_as_it_is_encoded(raw: Any) -> None:
    """As JSON in JSON, of which nothing is written otherwise on its way."""
    texts = ["", "a", "\0\x1f\x7f", "\u2028\ud7ff\N{GRINNING FACE}", "'\"\\\\u0041/", "[{]}", "\n\t", "null", "1.0"]
    retry = RetryPolicy(factor=1e300, jitter=0.1 + 0.2, initial_ms=2**53, delays_ms=(1, 2))
    rows = []
    for number, text in enumerate(texts):
        target = Target(f"http://r.example/{text}", headers={text: text, "b": text}, body_kind="text", body=text)
        rows.append(msgspec.structs.replace(row(number), payload=Payload(target, retry, text)))
    OneStep().write(raw, bound(*rows))

    kept = dict(raw.execute("SELECT id, payload FROM task_details").fetchall())
    assert kept == {one.id: encoded(one.payload) for one in rows}


def test_one_that_is_at_fault_leaves_nothing_of_the_others(raw: Any) -> None:
    steps = OneStep()
    steps.write(raw, bound(row(1)))
    before = there(raw)
    with pytest.raises(DatabaseError, match="UNIQUE"):
        steps.write(raw, bound(row(2), row(1), row(3)))
    assert not raw.in_transaction
    assert there(raw) == before
    assert steps.write(raw, bound(row(2), row(3))).changes > 0


def test_with_a_quota_nothing_is_written(raw: Any) -> None:
    raw.execute("INSERT INTO tenants (name, created_at, updated_at, max_pending) VALUES ('limited', 1, 1, 5)")
    before = there(raw)
    with pytest.raises(Apart, match="task_create"):
        OneStep().write(raw, bound(row(1), row(2, "limited")))
    assert not raw.in_transaction
    assert there(raw) == before


class Failing:
    """A connection whose statements of this beginning fail."""

    def __init__(self, raw: Any, error: BaseException, beginning: str = "INSERT") -> None:
        self._raw = raw
        self._error = error
        self._beginning = beginning

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.startswith(self._beginning):
            raise self._error
        return self._raw.execute(statement, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


@pytest.mark.parametrize(
    ("error", "said"),
    [(full(), StoreFull), (broken(), StoreBroken), (MemoryError(), StoreBroken), (sqlite3.ProgrammingError("x"), None)],
)
def test_what_the_store_itself_says_is_told_from_what_a_row_does(raw: Any, error: Exception, said: Any) -> None:
    """A disk that is full has nothing of it; of one that failed nobody knows."""
    with pytest.raises(said or type(error)):
        OneStep().write(Failing(raw, error), bound(row(1)))  # type: ignore[arg-type] # it stands in for one
    assert there(raw)["tasks"] == 0


def test_in_a_transaction_that_was_left_open_nothing_is_written(raw: Any) -> None:
    """It would be told to be on disk, and be committed by nobody."""
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBroken, match="left open"):
        OneStep().write(raw, bound(row(1)))
    raw.execute("ROLLBACK")
    assert there(raw)["tasks"] == 0


def test_where_it_cannot_be_set_up_the_store_is_at_fault_and_no_row(raw: Any) -> None:
    failing = Failing(raw, sqlite3.OperationalError("no"), "CREATE TEMP TRIGGER")
    steps = OneStep()
    with pytest.raises(StoreBroken):
        steps.write(failing, bound(row(1)))  # type: ignore[arg-type] # it stands in for one
    assert steps.write(raw, bound(row(1))).changes == 4


def test_nothing_of_it_is_in_the_file(raw: Any) -> None:
    OneStep().write(raw, bound(row(1)))
    assert raw.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type IN ('view', 'trigger') AND name LIKE 'task%'"
    ).fetchone() == (0,)


class Unfetched:
    """A cursor whose last step, which commits, fails."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def fetchone(self) -> Any:
        raise self._error


class FailingAtTheEnd(Failing):
    """A connection whose answers cannot be fetched."""

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.startswith(self._beginning):
            return Unfetched(self._error)
        return self._raw.execute(statement, *parameters)


@pytest.mark.parametrize(("error", "said"), [(full(), StoreFull), (broken(), StoreBroken)])
def test_what_is_answered_is_committed_when_it_is_fetched(raw: Any, error: Exception, said: Any) -> None:
    request = claims.ClaimRequest("n", "i", {1: 1}, claim_id=1, now=1, early_ms=0, start_delay_ms=0, margin_ms=0)
    assert claims.CLAIM.alone is not None
    alone = claims.CLAIM.alone([claims.Asked([f"{1:032x}"], request, {})])
    assert alone is not None
    claim = [one_step.bound(alone.query, alone.parameters)]
    assert OneStep().write(raw, claim).answers == ['[[1,"",[]]]'], "there is nothing to claim"
    with pytest.raises(said):
        OneStep().write(FailingAtTheEnd(raw, error), claim)  # type: ignore[arg-type] # it stands in for one
