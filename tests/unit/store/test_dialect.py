"""A SQLite without `jsonb_each` gets the same rows from the same statements."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple

from tasktick.model.attempt import AttemptRow
from tasktick.store import sqlite
from tasktick.store.connect import raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.sqlite import SqliteTransaction, step

OLD = (3, 40, 1)


@pytest.fixture(params=[None, OLD], ids=["this", "old"])
def raw(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param is not None:
        monkeypatch.setattr("tasktick.store.sqlite.SQLITE_VERSION", request.param)
    connection = raw_connection(tmp_path / "tasktick.db")
    migrate(connection)
    yield connection
    connection.close()


def test_every_column_comes_through_as_it_is(raw: Any) -> None:
    row = AttemptRow(
        task_id="0" * 32,
        attempt=1,
        series=1,
        fence=2**62,
        state="failed",
        picked_at=1,
        started_at=None,
        completed_at=3,
        node='n"1',
        epoch=4,
        status=500,
        error_class="receiver",
        error_code="http_500",
        error_detail="The receiver answered 500: é \U0001f600.",
        response_headers={"x": "[1, 2]", "y": "null"},
        response_body='{"a": [1, null]}',
        response_encoding="text",
        truncated=True,
    )
    tx = SqliteTransaction(raw)
    assert step(tx.run("attempt_insert", rows=[astuple(row)])) == 1
    assert step(tx.rows("attempts_of", AttemptRow, task_id=row.task_id, after=0, limit=10)) == [row]


@pytest.mark.parametrize(("version", "is_new"), [(OLD, False), (sqlite.JSONB_EACH_SINCE, True)])
def test_only_a_new_sqlite_is_given_the_new_function(version: tuple[int, ...], is_new: bool) -> None:
    uses = any("jsonb_each" in text for texts in sqlite._dialect(version).values() for text in texts)
    assert uses is is_new
