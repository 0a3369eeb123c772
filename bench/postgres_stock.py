"""A PostgreSQL store for benches that look at its statements alone: one connection, and the rows that are wanted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any, TypeVar

import asyncpg
import msgspec

from bench.limit_store import new_task
from bench.tasks import now_ms
from tasktick.model.attempt import Answer, conclude
from tasktick.model.ids import IdMaker
from tasktick.model.task import Claimed, NewTask
from tasktick.store import claims, endings, leases, tasks
from tasktick.store.postgres import BEGIN_NEAR, read_with, write_with
from tasktick.store.postgres_history import DAY_MS, day_of
from tasktick.store.postgres_migrate import migrate
from tasktick.store.protocol import Operation
from tasktick.store.tasks import Create

T = TypeVar("T")
TABLES = {"tasks": "id", "task_details": "id"}
COPIES = """
CREATE TEMP TABLE copies AS
SELECT n, id, partition_of(id) AS partition_id FROM (
    SELECT n, (
        lpad(to_hex($1::bigint + n / 4096), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8'
        || lpad(to_hex((random() * 4503599627370495)::bigint), 13, '0') || lpad(to_hex(n % 256), 2, '0')
    )::uuid AS id
    FROM generate_series($2::bigint, $2::bigint + $3::bigint - 1) AS n
) AS made
"""
# So many in a transaction.
TOGETHER = 1_000_000
NODE, INCARNATION = "bench", "incarnation-1"
BATCH = 500
SETTINGS = ("shared_buffers=512MB", "max_wal_size=16GB", "checkpoint_timeout=30min", "wal_compression=on")
# Finished a minute ago and before, evenly over the days; ids as `model.ids` makes them.
FINISHED = """
INSERT INTO finished_tasks (
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, attempt, completed_at, created_at, name, sla_ms, payload, ended_at
)
SELECT
    partition_of(id), id, 'default', 10, 'default', 'app.example:443', 5, at, at, at, 5, 30000, at, 1, at, at,
    'bench', 30000, $3::text, at
FROM (
    SELECT
        $1::bigint + n * 86400000 / $2::bigint AS at,
        (
            lpad(to_hex($1::bigint + n * 86400000 / $2::bigint), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
            || '8' || lpad(to_hex((random() * 1e17)::bigint), 15, '0')
        )::uuid AS id
    FROM generate_series(0, $2::bigint - 1) AS n
) AS made
"""


class Stock:
    """A store, and a node that owns all of it."""

    def __init__(self, raw: asyncpg.Connection) -> None:
        self.raw = raw
        self.random = Random(7)
        self.ids = IdMaker(Random(8))
        self.epochs: dict[int, int] = {}
        self._marks = count(1)
        self._claims = count(1)

    async def start(self) -> None:
        """Make the tables, and own them."""
        await migrate(self.raw)
        now = now_ms()
        await self.write(lambda tx: leases.start_node(tx, leases.Start(INCARNATION, NODE), now))
        self.epochs = await self.write(lambda tx: leases.acquire(tx, INCARNATION, now))

    async def write(self, operation: Operation[T]) -> T:
        """Run and commit, as the writer does."""
        return await write_with(self.raw, operation, "bench", next(self._marks))

    async def near(self, operation: Operation[T]) -> T:
        """Read what is due, as the loader does."""
        return await read_with(self.raw, operation, BEGIN_NEAR)

    def new(self, number: int, due_in_ms: int) -> NewTask:
        """A task that is due in so long."""
        task = new_task(self.ids, self.random, number)
        at = now_ms() + due_in_ms
        state = msgspec.structs.replace(task.state, run_at=at, due_at=at, wake_at=at)
        return msgspec.structs.replace(task, state=state)

    async def create(self, number: int, due_in_ms: int = 0) -> None:
        """So many tasks, in batches."""
        for at in range(0, number, BATCH):
            creates: list[Any] = [Create(self.new(n, due_in_ms)) for n in range(at, min(at + BATCH, number))]
            await self.write(lambda tx, creates=creates: tasks.create_many(tx, creates))  # type: ignore[misc] # bound

    async def claim(self, ids: Sequence[str]) -> list[Claimed]:
        """Claim these."""
        request = claims.ClaimRequest(NODE, INCARNATION, self.epochs, next(self._claims), now_ms(), 15, 2_000, 2_000)
        return await self.write(lambda tx: claims.claim(tx, list(ids), request))

    async def succeed(self, claimed: Sequence[Claimed]) -> None:
        """End these well."""
        if not claimed:
            return
        payload, at = self.new(0, 0).payload, now_ms()
        ends = [conclude(one, payload, Answer(at, at, 200), NODE, self.random) for one in claimed]
        await self.write(lambda tx: endings.succeed(tx, ends, self.ids))

    async def fill_history(self, rows: int, days: int) -> None:
        """So many finished tasks, over the days before today."""
        await fill_history(self.raw, rows, days)


async def fill_history(raw: asyncpg.Connection, rows: int, days: int) -> None:
    """So many finished tasks, over the days before today."""
    today = day_of(now_ms())
    payload = '{"target": {"url": "https://app.example/hook", "body": "' + "x" * 120 + '"}, "retry": {}}'
    await raw.execute("SET synchronous_commit = off")
    for day in range(days):
        first = today - (day + 1) * DAY_MS
        await raw.execute("SELECT make_history_day($1)", first)
        await raw.execute(FINISHED, first, rows // days, payload)
    await raw.execute("SET synchronous_commit = on")
    await _settle(raw)


async def fill(raw: asyncpg.Connection, count: int, first_at_ms: int, span_ms: int, tenants: int = 1) -> None:
    """Make `count` copies of the task that waits there (the last due), due evenly over a span; the one itself goes.

    They are of so many tenants, in turn.
    """
    original = await raw.fetchval("SELECT id FROM tasks WHERE state = 2 ORDER BY run_at DESC, id DESC LIMIT 1")
    await raw.execute("SET synchronous_commit = off")
    values = dict.fromkeys(("run_at", "due_at", "wake_at"), f"{first_at_ms} + copies.n * {span_ms} / {count}")
    if tenants > 1:
        values["tenant"] = f"'tenant-' || copies.n % {tenants}"
    now = now_ms()
    for at in range(0, count, TOGETHER):
        await raw.execute(COPIES, now, at, min(TOGETHER, count - at))
        for table, key in TABLES.items():
            own = {key: "copies.id", "partition_id": "copies.partition_id"}
            await _copy(raw, table, key, original, {**own, **values})
        await raw.execute("DROP TABLE copies")
    for table, key in TABLES.items():
        await raw.execute(f"DELETE FROM {table} WHERE {key} = $1", original)
    await raw.execute("DELETE FROM counts WHERE state = 2")
    await raw.execute(
        "INSERT INTO counts (tenant, state, slot, tasks) SELECT tenant, 2, 0, sum(tasks) FROM ("
        "SELECT tenant, count(*) AS tasks FROM tasks WHERE state = 2 GROUP BY tenant "
        "UNION ALL SELECT tenant, -tasks FROM settled_counts WHERE state = 2"
        ") AS missing GROUP BY tenant"
    )
    await raw.execute("SET synchronous_commit = on")
    await _settle(raw)


async def _copy(raw: asyncpg.Connection, table: str, key: str, original: str, values: dict[str, str]) -> None:
    """A row for each of the copies, as one row is but for these values."""
    rows = await raw.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND table_schema = 'public'", table
    )
    names = [row[0] for row in rows]
    chosen = ", ".join(values.get(name, f"one.{name}") for name in names)
    await raw.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {chosen} "
        f"FROM copies JOIN {table} AS one ON one.{key} = $1 ORDER BY copies.partition_id, copies.id",
        original,
    )


async def fill_schedules(
    raw: asyncpg.Connection, count: int, first_at_ms: int, span_ms: int, groups: int, group_ms: int
) -> None:
    """Make `count` copies of the one schedule that is there, whose fires ahead are due evenly over a span.

    In so many groups: each is due over such a span, so long after the one before.
    """
    schedule = await raw.fetchval("SELECT id FROM schedules")
    fire = await raw.fetchval("SELECT next_id FROM schedules")
    await raw.execute("SET synchronous_commit = off")
    # A fire is of its schedule's partition, and younger.
    await raw.execute(COPIES, now_ms() - 3_600_000, 0, count)
    await raw.execute("ALTER TABLE copies RENAME TO made; ALTER TABLE made RENAME COLUMN id TO schedule")
    await raw.execute(COPIES, now_ms(), 0, count)
    await raw.execute("ALTER TABLE copies ADD COLUMN schedule uuid")
    await raw.execute("UPDATE copies SET schedule = made.schedule FROM made WHERE made.n = copies.n")
    at = f"{first_at_ms} + copies.n % {groups} * {group_ms} + copies.n / {groups} * {groups} * {span_ms} / {count}"
    own = {"id": "copies.id", "partition_id": "copies.partition_id"}
    of_fire = {**own, **dict.fromkeys(("run_at", "due_at", "wake_at"), at)}
    looks = dict.fromkeys(("next_at", "next_local_ms", "next_due_at", "look_at"), at)
    of_schedule = {"partition_id": own["partition_id"], "id": "copies.schedule", "next_id": "copies.id", **looks}
    for table, key, original, values in (
        ("tasks", "id", fire, {**of_fire, "template_id": "copies.schedule", "decide_by": f"{at} + 60000"}),
        ("task_details", "id", fire, {**own, "schedule_id": "hex_of(copies.schedule)"}),
        ("payloads", "task_id", schedule, {"partition_id": own["partition_id"], "task_id": "copies.schedule"}),
        ("schedules", "id", schedule, of_schedule),
    ):
        await _copy(raw, table, key, original, values)
        await raw.execute(f"DELETE FROM {table} WHERE {key} = $1", original)
    await raw.execute("DROP TABLE copies, made")
    await raw.execute("UPDATE counts SET tasks = $1 WHERE state = 2", count)
    await raw.execute("SET synchronous_commit = on")
    await _settle(raw)


async def _settle(raw: asyncpg.Connection) -> None:
    """What was made here is to be no work for the server beside what is measured next."""
    await raw.execute("VACUUM ANALYZE")
    await raw.execute("CHECKPOINT")


@asynccontextmanager
async def stock(url: str) -> AsyncIterator[Stock]:
    """A store of its own in an empty database."""
    raw = await asyncpg.connect(url, statement_cache_size=512, max_cacheable_statement_size=0)
    try:
        made = Stock(raw)
        await made.start()
        yield made
    finally:
        await raw.close()
