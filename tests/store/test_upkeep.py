"""Retention, leases and nodes, secrets and keys."""

from functools import partial
from typing import Any

import msgspec
import pytest

from tasktick.clock import SystemClock
from tasktick.errors import StoreError
from tasktick.model.partition import ALL_PARTITIONS
from tasktick.model.state import State
from tasktick.store import attempts, leases, names, retention, secrets, tasks
from tasktick.store.counts import PURGED
from tasktick.store.names import IdempotencyKey
from tasktick.store.protocol import Database, Transaction
from tasktick.store.rows import KeyRow, SecretRow
from tasktick.store.singletons import HELD_MS, RETENTION, AloneWriter, HeldElsewhere
from tests.store.drivers import skip_where_history_moves
from tests.store.test_listing import dead
from tests.store.world import HOUR_MS, NODE, TENANT, World


class StandingClock(SystemClock):
    """Tells the time that it is set to."""

    def __init__(self, now: int) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now


async def remove(world: World, before: int, limit: int) -> int:
    return await world.database.write(lambda tx: retention.remove_finished(tx, before, limit))


async def test_what_finished_long_ago_goes_in_batches_and_stays_counted(world: World) -> None:
    skip_where_history_moves(world.database)
    for nth in range(7):
        claimed = await world.claimed(key=f"k-{nth}")
        await world.finish(claimed, 200 if nth % 2 else 404)
        world.now += 1_000
    waiting, running = await world.create(key="waiting"), (await world.claimed()).id
    cut = world.now - 2_000
    assert [await remove(world, cut, 4), await remove(world, cut, 4), await remove(world, cut, 4)] == [4, 2, 0]
    counted = await world.counted()
    assert counted[TENANT, PURGED] == 6
    assert sum(counted.values()) == 9, "created = live + finished + removed"
    assert {(await world.state(one)).state for one in (waiting, running)} == {State.SCHEDULED, State.RUNNING}


async def test_with_a_task_goes_all_that_hangs_on_it(world: World) -> None:
    task_id = await dead(world, 500, key="k-1")
    await remove(world, world.now, 10)
    assert await world.database.read(lambda tx: tasks.states(tx, [task_id])) == []
    assert await world.database.read(lambda tx: tasks.payloads(tx, [(task_id, 1)])) == []
    assert await world.database.read(lambda tx: attempts.of_task(tx, task_id)) == []
    assert await world.dead_letters(unresolved=None) == []


async def test_a_task_is_deleted_once(world: World) -> None:
    task_id = await world.create(key="k-1")
    rows = [(task_id, TENANT, int(State.SCHEDULED))]
    await world.database.write(lambda tx: tasks.delete(tx, rows))
    assert await world.database.read(lambda tx: names.find(tx, TENANT, names.TASK, "k-1")) is None
    with pytest.raises(StoreError):
        await world.database.write(lambda tx: tasks.delete(tx, rows))


async def test_idempotency_keys_go_when_their_window_has_closed(world: World) -> None:
    for nth in range(6):
        create = world.idempotent(world.task(key=f"k-{nth}"), f"i-{nth}", window_ms=1_000 * (nth + 1))
        await world.create_all([create])

    async def purge(limit: int) -> int:
        return await world.database.write(lambda tx: retention.remove_names(tx, world.now + 4_000, limit))

    assert [await purge(3), await purge(3), await purge(3)] == [3, 1, 0]
    key = IdempotencyKey(TENANT, "i-4", "body-1", world.now, world.now)
    assert await world.database.read(lambda tx: names.replay(tx, key)) is not None
    assert await world.database.read(lambda tx: names.find(tx, TENANT, names.TASK, "k-0")) is not None


async def test_an_answer_outlives_its_task(world: World) -> None:
    create = world.idempotent(world.task(), "i-1")
    await world.create_all([create])
    (claimed,) = await world.claim(create.task.state.id)
    await world.finish(claimed)
    await remove(world, world.now, 10)
    (again,) = await world.create_all([world.idempotent(world.task(), "i-1")])
    assert again.replayed


async def test_attempts_page_and_the_last_is_known(world: World) -> None:
    task_id = await dead(world, 500)
    other = await world.create()
    rows = await world.attempts(task_id)
    assert [row.attempt for row in rows] == [1, 2, 3, 4, 5]
    assert await world.database.read(lambda tx: attempts.of_task(tx, task_id, after=2, limit=2)) == rows[2:4]
    assert await world.database.read(lambda tx: attempts.last(tx, [task_id, other])) == {task_id: rows[-1]}
    assert await world.database.read(lambda tx: attempts.count(tx, task_id)) == 5
    assert await world.database.read(lambda tx: attempts.count(tx, other)) == 0


async def test_an_attempt_keeps_what_came_back(world: World) -> None:
    claimed = await world.claimed()
    headers = (("content-type", "text/plain"), ("x-a", "ä"))
    await world.end(await world.answered(claimed, 500, headers=headers, body=b"caf\xc3\xa9", truncated=True))
    (row,) = await world.attempts(claimed.id)
    assert (row.response_body, row.response_encoding, row.truncated) == ("café", "text", True)
    assert row.response_headers == dict(headers)


async def test_each_acquisition_raises_the_epoch(store: Database) -> None:
    world = World(store)
    await world.start("a")
    assert world.epochs == dict.fromkeys(ALL_PARTITIONS, 1)
    assert await store.write(lambda tx: leases.acquire(tx, "a", 0)) == world.epochs, "what is held is not taken again"
    await world.start("b")
    assert world.epochs == dict.fromkeys(ALL_PARTITIONS, 2)
    await store.write(lambda tx: leases.end_node(tx, "b", world.now))
    assert {lease.incarnation for lease in await store.read(leases.read)} == {None}
    await world.start("c")
    assert world.epochs == dict.fromkeys(ALL_PARTITIONS, 3)


async def test_a_lease_of_the_living_is_not_taken(store: Database) -> None:
    world = World(store)
    await world.start("a")
    assert await store.write(lambda tx: leases.acquire(tx, "b", 0)) == {}
    assert set((await store.read(lambda tx: leases.owned(tx, "a"))).values()) == {1}


async def test_one_process_of_several_declares_none_of_them_dead(store: Database) -> None:
    world = World(store)
    await world.start("a")
    sibling = leases.Start("b", "node-b", proves_home=False)
    await store.write(lambda tx: leases.start_node(tx, sibling, world.now))
    assert await store.write(lambda tx: leases.acquire(tx, "b", 0)) == {}
    assert len(await store.read(lambda tx: leases.owned(tx, "a"))) == len(ALL_PARTITIONS)


async def test_the_dead_are_forgotten_when_they_hold_nothing(store: Database) -> None:
    world = World(store)
    await world.start("a")
    claimed = await world.claimed()

    async def forget() -> int:
        return await store.write(lambda tx: leases.forget_nodes(tx, world.now + 1))

    assert await forget() == 0, "it lives"
    await store.write(lambda tx: leases.start_node(tx, leases.Start("b", "node-b"), world.now))
    assert await forget() == 0, "it is dead, and still has leases and an attempt"
    await store.write(lambda tx: leases.acquire(tx, "b", 0))
    assert await forget() == 0, "it still has an attempt"
    await world.rescue(claimed)
    assert await forget() == 1


async def test_secrets_come_newest_first_and_by_tenant(store: Database) -> None:
    rows = [SecretRow(f"id-{n}", "a" if n < 2 else "b", secrets.SIGNING, f"sealed-{n}", n) for n in range(3)]

    async def add(tx: Any) -> None:
        for row in rows:
            await secrets.add(tx, row)

    await store.write(add)
    assert await store.read(secrets.read) == rows[::-1]
    assert await store.read(lambda tx: secrets.read(tx, "a")) == [rows[1], rows[0]]
    assert await store.read(lambda tx: secrets.read(tx, "a", "other")) == []


async def test_a_key_is_kept_whole_and_once(store: Database) -> None:
    key = KeyRow("key-1", "ttk_abc", "0" * 64, TENANT, "operator", "first", 5, HOUR_MS)
    assert await store.write(lambda tx: secrets.add_key(tx, key)) == 1
    assert await store.write(lambda tx: secrets.add_key(tx, msgspec.structs.replace(key, id="key-2", hash="1"))) == 0
    assert await store.read(secrets.keys) == [key]
    assert await store.read(lambda tx: secrets.key_by_prefix(tx, "ttk_abc")) == key
    assert await store.read(lambda tx: secrets.key_by_prefix(tx, "ttk_ab")) is None


async def test_a_secret_is_retired_once_and_only_earlier(store: Database) -> None:
    async def ends() -> list[int | None]:
        return [row.retired_at for row in await store.read(lambda tx: secrets.read(tx, "a"))]

    for number in range(2):
        await store.write(partial(secrets.add, secret=SecretRow(f"id-{number}", "a", secrets.SIGNING, "x", number)))
    assert await store.write(lambda tx: secrets.retire_at(tx, "a", ["id-0"], 50)) == 1
    assert await store.write(lambda tx: secrets.retire_at(tx, "a", ["id-0"], 60)) == 0
    assert await store.write(lambda tx: secrets.retire_at(tx, "b", ["id-1"], 10)) == 0
    assert await ends() == [None, 50]
    assert await store.write(lambda tx: secrets.retire(tx, "a", ["id-0"], 55)) == 0, "it has ended by itself"
    assert await store.write(lambda tx: secrets.retire(tx, "a", ["id-0", "id-1"], 40)) == 2
    assert await store.write(lambda tx: secrets.retire(tx, "a", ["id-0", "id-1"], 41)) == 0
    assert await ends() == [40, 40]


async def test_keys_are_listed_revoked_counted_and_their_use_is_noted(store: Database) -> None:
    for number, (tenant, role) in enumerate((("a", "viewer"), ("a", "operator"), ("b", "viewer"))):
        row = KeyRow(f"id-{number}", f"prefix-{number}", "0" * 64, tenant, role, None, 5, 100 if number == 2 else None)
        await store.write(partial(secrets.add_key, key=row))

    async def page(tenant: str | None, roles: list[str], *, revoked: bool = False, **more: Any) -> list[str]:
        asked = {"beyond": None, "limit": 10, **more}
        found = await store.read(lambda tx: secrets.keys_page(tx, tenant, roles, revoked=revoked, **asked))
        return [row.id for row in found]

    async def count(now: int, **by: str) -> int:
        return await store.read(lambda tx: secrets.count_keys(tx, now, **by))

    both = ["operator", "viewer"]
    assert await page(None, both) == ["id-2", "id-1", "id-0"]
    assert await page(None, both, limit=1, beyond="id-2") == ["id-1"]
    assert await page("a", ["viewer"]) == ["id-0"]
    assert [await count(99), await count(100), await count(99, tenant="a", role="viewer")] == [3, 2, 1]
    assert [await store.write(lambda tx: secrets.revoke_key(tx, "id-0", 7)) for _ in range(2)] == [1, 0]
    assert await page("a", both) == ["id-1"]
    assert await page("a", both, revoked=True) == ["id-0"]
    assert await store.write(lambda tx: secrets.revoke_keys_of(tx, "a", 8)) == 1
    assert await store.write(lambda tx: secrets.note_use(tx, [("id-1", 9), ("id-2", 9)])) == 2
    assert await store.write(lambda tx: secrets.note_use(tx, [("id-1", 8), ("id-2", 10), ("gone", 1)])) == 1
    used = [await store.read(partial(secrets.key_by_id, tenant=None, key_id=f"id-{n}")) for n in range(3)]
    assert [row and (row.revoked_at, row.last_used_at) for row in used] == [(7, None), (8, 9), (None, 10)]
    assert await store.read(lambda tx: secrets.key_by_id(tx, "a", "id-2")) is None


async def test_what_one_does_for_all_is_done_by_one_until_it_stops(store: Database) -> None:
    clock = StandingClock(1_800_000_000_000)
    done: list[str] = []

    def by(name: str) -> AloneWriter:
        return AloneWriter(store, clock, RETENTION, lambda: name)

    async def work(tx: Transaction) -> None:
        done.append("once")

    await by("a").write(work)
    with pytest.raises(HeldElsewhere):
        await by("b").write(work)
    clock.now += HELD_MS - 1
    await by("a").write(work)
    clock.now += HELD_MS - 1
    with pytest.raises(HeldElsewhere):
        await by("b").write(work)
    clock.now += 1
    await by("b").write(work)
    with pytest.raises(HeldElsewhere):
        await by("a").write(work)
    assert len(done) == 3


async def test_a_drained_node_that_does_not_run_is_in_sight_until_it_is_undrained(store: Database) -> None:
    world = World(store)
    await world.start("a-1")
    await world.start("a-2")
    await store.write(lambda tx: leases.drain(tx, NODE, world.now))
    await store.write(lambda tx: leases.end_node(tx, "a-2", world.now))
    assert await store.write(lambda tx: leases.forget_nodes(tx, world.now + 1)) == 0
    view = await store.read(lambda tx: leases.view(tx, world.now))
    assert len(view.nodes) == 1
    assert view.nodes[0].drained
    await store.write(lambda tx: leases.undrain(tx, NODE))
    assert (await store.read(lambda tx: leases.view(tx, world.now))).nodes == []
