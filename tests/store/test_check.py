"""A store that is sound but not as this program would check it is never called damaged; nor is a place without one."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tasktick.errors import StoreError, StoreMoved, StoreTooNew
from tasktick.store import check, migrate, postgres_check
from tasktick.store.connect import raw_connection
from tasktick.store.postgres_links import PostgresAddress
from tests import postgres
from tests.store.moving import KillAt, Killed, Place, move, served

NEWEST = max(postgres.installed(), default="none")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "sqlite":
        yield tmp_path / "one.db"
        return
    async with postgres.cluster(NEWEST).new_schema() as url:
        yield url


async def _checked(place: Place) -> check.Report:
    if isinstance(place, Path):
        return check.check(place)
    return await postgres_check.check(PostgresAddress(place, "tests"))


async def _to_version(place: Place, version: int) -> None:
    if not isinstance(place, Path):
        await postgres_check.steps(PostgresAddress(place, "tests"), only_check=False, to=version)
        return
    raw = raw_connection(place)
    migrate.migrate(raw, version)
    raw.close()


async def test_where_there_is_no_store_is_said(place: Place) -> None:
    with pytest.raises(StoreError, match="There is no store at"):
        await _checked(place)


@pytest.mark.parametrize("version", [1, 4, 8])
async def test_a_store_of_an_older_version_is_not_damaged(place: Place, version: int) -> None:
    await _to_version(place, version)
    report = await _checked(place)
    assert report.ok
    said = {one.name: one.detail for one in report.checks}
    assert said["schema"].startswith(f"version {version}; `tasktick serve` and `tasktick migrate` bring it to ")
    assert "of an older version" in said["rows"]
    assert "details" not in said
    assert [one.name for one in report.checks if one.skipped] == ["structure", "rows"]


async def test_a_store_of_a_newer_version_is_not_damaged(place: Place) -> None:
    """Its backup is no remedy; the newer program is."""
    await _to_version(place, migrate.available()[-1].version)
    newer = "UPDATE schema_history SET min_reader = 9999"
    if isinstance(place, Path):
        raw = raw_connection(place)
        raw.execute(newer)
        raw.close()
    else:
        connection = await asyncpg.connect(place)
        await connection.execute(newer)
        await connection.close()
    with pytest.raises(StoreTooNew, match=r"Install a newer TaskTick, or .*`tasktick migrate --to \d+`"):
        await _checked(place)


@pytest.mark.postgres
async def test_one_that_is_being_filled_says_so(tmp_path: Path) -> None:
    source, first = tmp_path / "source.db", tmp_path / "first.db"
    async with served(source, tmp_path):
        pass
    async with postgres.cluster(NEWEST).new_schema() as second:
        with pytest.raises(Killed):
            await move(source, second, at=KillAt(point="copy tasks"))
        with pytest.raises(Killed):
            await move(source, first, at=KillAt(point="copy tasks"))
        for place in (first, second):
            with pytest.raises(StoreMoved, match=r"is being filled from sqlite:///.*source\.db and is not whole yet"):
                await _checked(place)
    assert (await _checked(source)).ok
