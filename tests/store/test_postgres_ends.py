"""Ends that are written at once on PostgreSQL, and what becomes of them where one is stale."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tasktick.model.state import State
from tasktick.store import endings
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.postgres_writer import MARK_STEP
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]


@pytest.fixture
async def world(url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with opened(PostgresAddress(url, "tests"), tmp_path) as database:
        world = World(database)
        await world.start()
        yield world


async def test_successes_that_were_not_written_hold_nothing_while_each_is_judged(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who judges locks rows in an order of its own: with some of them in hand it would wait for another in a ring."""
    live, stale = [await world.claimed(), await world.claimed()]
    await world.finish(stale)
    right, judged = endings.end, 0

    async def judge(*given: Any) -> list[Any]:
        nonlocal judged
        judged += 1
        other = await asyncpg.connect(url)
        try:
            assert len(await other.fetch("SELECT FROM tasks FOR UPDATE NOWAIT")) == 2
            assert await other.fetchval("SELECT count(*) FROM attempts") == 1
        finally:
            await other.close()
        return await right(*given)

    monkeypatch.setattr(endings, "end", judge)
    results = await world.end(await world.answered(live), await world.answered(stale))
    assert ([one.state for one in results], judged) == ([State.SUCCEEDED, None], 1)
    assert (await world.state(live.id)).state is State.SUCCEEDED


async def test_what_was_begun_anew_is_committed_under_its_mark(url: str, world: World) -> None:
    """By the mark a commit is found whose answer was lost."""
    live, stale = [await world.claimed(), await world.claimed()]
    await world.finish(stale)
    before = await _marks(url)
    await world.end(await world.answered(live), await world.answered(stale))
    assert await _marks(url) == before + MARK_STEP


async def _marks(url: str) -> int:
    raw = await asyncpg.connect(url)
    try:
        return int(await raw.fetchval("SELECT sum(mark) FROM marks"))
    finally:
        await raw.close()
