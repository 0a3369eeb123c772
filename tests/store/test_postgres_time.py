"""On PostgreSQL the server's clock decides, whatever a node takes for the time: nothing early, nothing stolen."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tasktick.clock import StoreClock, SystemClock
from tasktick.errors import StoreUnavailable
from tasktick.model.task import Claimed
from tasktick.store import claims, due, leases
from tasktick.store.leases import Start
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Aborted, Transaction
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import EARLY_MS, HOUR_MS, World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
TTL_MS = 10_000
SKEWS = pytest.mark.parametrize("skew_ms", [HOUR_MS, -HOUR_MS, 0])


class Shifted(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, by_ms: int) -> None:
        self.by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.by_ms


@pytest.fixture(params=sorted(postgres.installed()))
async def url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    async with postgres.cluster(request.param).new_schema() as url:
        yield url


@pytest.fixture
async def database(url: str, tmp_path: Path) -> AsyncIterator[PostgresDatabase]:
    async with opened(PostgresAddress(url, "tests"), tmp_path, StoreClock(SystemClock())) as database:
        yield database


def real_ms() -> int:
    return SystemClock().now_ms()


async def started(database: PostgresDatabase, believed_ms: int) -> World:
    """A node that has every partition, and believes that it is so late."""
    world = World(database)
    world.now = believed_ms
    start = Start("incarnation-1", "a", TTL_MS)
    await database.write(lambda tx: leases.join(tx, start, world.now))
    world.epochs = await database.write(lambda tx: leases.acquire(tx, "incarnation-1", world.now))
    assert len(world.epochs) == 256
    return world


@SKEWS
async def test_a_clock_that_opens_a_store_is_told_its_time(url: str, tmp_path: Path, skew_ms: int) -> None:
    clock = StoreClock(Shifted(skew_ms))
    async with opened(PostgresAddress(url, "tests"), tmp_path, clock):
        assert 0 <= real_ms() - clock.now_ms() < 1_000
        assert abs(clock.offset_ms - skew_ms) < 1_000


@SKEWS
async def test_a_claim_is_as_early_as_the_server_says(database: PostgresDatabase, skew_ms: int) -> None:
    world = await started(database, real_ms() + skew_ms)
    now = real_ms()
    later = await world.create(run_at=now + HOUR_MS // 2)
    due_now = await world.create(run_at=now - 5)
    claimed = await world.claim(later, due_now)
    assert [one.id for one in claimed] == [due_now]
    state = await world.state(due_now)
    assert now <= claimed[0].picked_at <= real_ms()
    assert state.lease_until == claimed[0].picked_at + 2_000 + 30_000 + 2_000
    assert claimed[0].fence <= real_ms()


@SKEWS
async def test_a_claim_reads_the_clock_when_it_is_made(database: PostgresDatabase, skew_ms: int) -> None:
    """Not when its transaction began."""
    world = await started(database, real_ms() + skew_ms)
    run_at = real_ms() + EARLY_MS + 300
    task_id = await world.create(run_at=run_at)

    async def late(tx: Transaction) -> list[Claimed]:
        assert await claims.claim(tx, [task_id], world.request()) == []
        await tx.rows("clock_read", float, now=0)
        while (await tx.rows("clock_read", float, now=0))[0] < run_at - EARLY_MS:
            pass
        return await claims.claim(tx, [task_id], world.request())

    assert len(await database.write(late)) == 1


async def test_the_time_is_told_to_the_part_of_a_millisecond(database: PostgresDatabase) -> None:
    """Rounded down, it would make every task late by half of one on average."""

    async def often(tx: Transaction) -> list[float]:
        return [await leases.time(tx, 0) for _ in range(50)]

    before, told, after = real_ms(), await database.write(often), real_ms()
    assert before <= told[0] <= told[-1] <= after + 1
    assert told == sorted(told)
    assert any(one % 1 for one in told)


@SKEWS
async def test_a_lease_ends_when_the_server_says(url: str, database: PostgresDatabase, skew_ms: int) -> None:
    world = await started(database, real_ms() + skew_ms)
    claimed = await world.claimed(run_at=real_ms() - 5)
    partitions = ["11"]
    for believed in (real_ms() - HOUR_MS, real_ms(), real_ms() + HOUR_MS):
        world.now = believed
        rows = await database.read(lambda tx: claims.expired_leases(tx, world.now, [], 10, partitions))
        assert rows == []
        assert await world.rescue(claimed) is None
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE tasks SET lease_until = $1 WHERE state = 4", real_ms())
    await connection.close()
    world.now = real_ms() - HOUR_MS
    assert len(await database.read(lambda tx: claims.expired_leases(tx, world.now, [], 10, partitions))) == 1
    world.now = real_ms()
    assert await world.rescue(claimed) is not None


@SKEWS
async def test_a_term_ends_when_the_server_says(url: str, database: PostgresDatabase, skew_ms: int) -> None:
    await started(database, real_ms() + skew_ms)
    view = await database.read(lambda tx: leases.view(tx, real_ms() + skew_ms))
    assert 0 <= real_ms() - view.now < 1_000
    assert 0 < view.nodes[0].expires_at - view.now <= TTL_MS
    for believed in (real_ms() - HOUR_MS, real_ms() + HOUR_MS):
        start = Start(f"b-{believed}", "b", TTL_MS)
        await database.write(lambda tx, start=start, now=believed: leases.join(tx, start, now))  # type: ignore[misc] # bound defaults
        taken = await database.write(
            lambda tx, start=start, now=believed: leases.acquire(tx, start.incarnation, now)  # type: ignore[misc] # bound defaults
        )
        assert taken == {}
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE nodes SET expires_at = $1 WHERE name = 'a'", real_ms())
    await connection.close()
    believed = real_ms() - HOUR_MS
    assert len(await database.write(lambda tx: leases.acquire(tx, start.incarnation, believed))) == 256


@SKEWS
async def test_a_task_expires_when_the_server_says(database: PostgresDatabase, skew_ms: int) -> None:
    world = await started(database, real_ms() + skew_ms)
    await world.create(run_at=real_ms(), expires_at=real_ms() + HOUR_MS // 2)
    over = await world.create(run_at=real_ms(), expires_at=real_ms() - 1)
    believed = real_ms() + skew_ms
    found = await database.read(lambda tx: due.expired(tx, believed, 10))
    assert [one.id for one in found] == [over]


async def test_a_history_without_the_last_renewal_lets_nothing_be_claimed(url: str, database: PostgresDatabase) -> None:
    world = await started(database, real_ms())
    task_id = await world.create(run_at=real_ms() - 5)
    for beat in range(3):
        assert await database.term.write(lambda tx, beat=beat: leases.renew(tx, "incarnation-1", beat, TTL_MS, 0))  # type: ignore[misc] # bound defaults
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE nodes SET beat = 2")
    assert await world.claim(task_id, beat=3) == []
    await connection.execute("UPDATE nodes SET beat = 3")
    await connection.close()
    assert len(await world.claim(task_id, beat=3)) == 1


async def test_a_renewal_waits_for_nothing_longer_than_it_is_of_use(url: str, tmp_path: Path) -> None:
    clock = StoreClock(SystemClock())
    async with opened(PostgresAddress(url, "tests"), tmp_path, clock, ttl_ms=900) as database:
        await started(database, real_ms())
        connection = await asyncpg.connect(url)
        holding = connection.transaction()
        await holding.start()
        await connection.execute("SELECT 1 FROM nodes FOR UPDATE")
        began_ms = clock.monotonic_ms()
        with pytest.raises((StoreUnavailable, Aborted)):
            await database.term.write(lambda tx: leases.renew(tx, "incarnation-1", 0, 900, 0))
        assert clock.monotonic_ms() - began_ms < 2_000
        await holding.rollback()
        await connection.close()
        assert await database.term.write(lambda tx: leases.renew(tx, "incarnation-1", 0, 900, 0))


async def test_a_renewal_says_in_which_history_it_is(database: PostgresDatabase) -> None:
    await started(database, real_ms())
    view = await database.term.write(lambda tx: leases.view_of_renewed(tx, real_ms()))
    assert view.timeline == "00000001"


async def test_a_connection_that_was_lost_is_told_before_another_is_used(url: str, database: PostgresDatabase) -> None:
    told: list[bool] = []
    database.when_lost(lambda: told.append(True))
    await started(database, real_ms())
    assert not told
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tests'")
    await connection.close()
    await database.write(lambda tx: leases.read(tx))
    assert told
