"""The writer: who waits together commits together, one bad row fails alone, and nothing follows the unknown."""

import asyncio
from typing import Any

import pytest

from tasktick.errors import StoreBroken, StoreError, StoreFull
from tasktick.store import lanes
from tasktick.store import writer as writer_module
from tasktick.store.lanes import TOGETHER
from tasktick.store.protocol import Batch, Lane, Transaction
from tests.unit.store.writing import BAD, Bench, broken, full, waiting


async def test_who_waits_together_commits_together(bench: Bench) -> None:
    callers = lanes.TOGETHER - 1  # and who holds the connection
    outcomes = await waiting(bench, *(bench.writer.write_batch(bench.batch(), [f"t{n}"]) for n in range(callers)))
    assert outcomes == [[f"t{n}!"] for n in range(callers)]
    assert bench.writer.commits == 2
    assert len(bench.turns) == 1, "they are one statement"
    assert bench.writer.waiting_rows == 0


async def test_many_go_in_two_lots_of_which_one_is_written_while_the_other_is_answered(bench: Bench) -> None:
    """Each comes again when it has its answer, as clients do."""
    callers, calls = 100, 5

    async def call(name: int) -> None:
        for n in range(calls):
            await bench.writer.write_batch(bench.batch(), [f"{name}-{n}"])

    await waiting(bench, *(call(name) for name in range(callers)))
    # The first went as soon as they were a lot, of who had come by then; and at the end nobody comes again.
    assert len(bench.turns[0]) < TOGETHER
    assert all(len(turn) == callers // 2 for turn in bench.turns[1 : 2 * calls])
    assert sorted(name for turn in bench.turns for name in turn) == sorted(
        f"{name}-{n}" for name in range(callers) for n in range(calls)
    )


@pytest.mark.parametrize(("lane", "comes_along"), [(Lane.CREATE, True), (Lane.FIRE, False)])
async def test_a_claim_waits_for_nobody_who_may_come_along(bench: Bench, lane: Lane, comes_along: bool) -> None:
    """Calls wait for it, and it is large by itself."""
    first = asyncio.ensure_future(bench.writer.write(bench.noting("first"), lane))
    for _ in range(lanes.GATHERING_TURNS):
        await asyncio.sleep(0)
    await asyncio.gather(first, bench.writer.write(bench.noting("second")))
    assert bench.writer.commits == (1 if comes_along else 2)


async def test_a_turn_is_bounded(bench: Bench) -> None:
    await waiting(bench, *(bench.writer.write_batch(bench.batch(), [f"t{n}"]) for n in range(1_200)))
    first, *others, last = [len(turn) for turn in bench.turns]
    assert (first < TOGETHER, others, last) == (True, [500, 500], 200 - first)


async def test_long_lists_go_in_slices(bench: Bench) -> None:
    items = [f"t{n}" for n in range(25)]
    assert await bench.writer.write_batch(bench.batch(rows_max=10), items) == [f"{item}!" for item in items]
    assert await bench.writer.write_batch(bench.batch(), []) == []


async def test_claims_go_before_creates_and_upkeep_last_and_one_at_a_time(bench: Bench) -> None:
    lanes = {"create": Lane.CREATE, "upkeep": Lane.UPKEEP, "fire": Lane.FIRE}
    names = ["upkeep", "create", "upkeep", "fire", "create", "fire"]
    await waiting(bench, *(bench.writer.write(bench.noting(name), lanes[name]) for name in names))
    assert bench.order == ["first", "fire", "fire", "create", "create", "upkeep", "upkeep"]
    assert bench.writer.commits == 4, "a claim went ahead, and the second upkeep had to wait for a turn of its own"


@pytest.mark.parametrize("bad_at", [0, 6, 12])
async def test_one_bad_row_fails_alone(bench: Bench, bad_at: int) -> None:
    items = [f"t{n:02}" for n in range(12)]
    items.insert(bad_at, BAD)
    results = await bench.writer.write_batch(bench.batch(), items)
    assert isinstance(results[bad_at], ValueError)
    assert [one for one in results if not isinstance(one, ValueError)] == [f"t{n:02}!" for n in range(12)]
    assert bench.kept == dict.fromkeys((f"t{n:02}" for n in range(12)), 1)
    assert bench.writer.waiting_rows == 0


async def test_one_bad_caller_fails_alone(bench: Bench) -> None:
    writes = [bench.writer.write_batch(bench.batch(), [name]) for name in ("a", "b", BAD, "c")]
    outcomes = await waiting(bench, *writes, bench.writer.write(bench.noting("d")))
    assert [outcomes[n] for n in (0, 1, 3, 4)] == [["a!"], ["b!"], ["c!"], "d"]
    assert isinstance(outcomes[2][0], ValueError)
    assert bench.kept == {"a": 1, "b": 1, "c": 1, "d": 1, "first": 1}


async def test_an_operation_that_fails_undoes_itself_alone(bench: Bench) -> None:
    async def failing(tx: Transaction) -> None:
        await tx.run("counts_add", rows=[["gone", 2, 1]])
        raise ValueError("not this one")

    outcomes = await waiting(bench, bench.writer.write(failing), bench.writer.write(bench.noting("kept")))
    assert isinstance(outcomes[0], ValueError)
    assert outcomes[1] == "kept"
    assert bench.kept == {"first": 1, "kept": 1}
    assert bench.writer.commits == 2


async def test_parts_are_marked_only_where_one_has_to_be_undone(bench: Bench) -> None:
    await waiting(bench, *(bench.writer.write(bench.noting(name)) for name in "ab"))
    assert not [one for one in bench.raw.executed if "SAVEPOINT" in one]

    async def in_part(tx: Transaction) -> bool:
        rows = [["gone", 2, 1]]
        return await tx.whole("counts_add", 2, rows=rows)

    outcomes = await waiting(bench, bench.writer.write(bench.noting("c")), bench.writer.write(in_part))
    assert outcomes == ["c", False]
    assert bench.kept == {"a": 1, "b": 1, "c": 1, "first": 2}
    assert bench.order.count("c") == 2, "all of it was made again"
    assert [one for one in bench.raw.executed if "SAVEPOINT" in one]

    await waiting(bench, bench.writer.write(bench.noting("d")), bench.writer.write(in_part))
    assert bench.order.count("d") == 1, "who comes again finds marks"


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
async def test_a_full_disk_refuses_and_recovers(bench: Bench, statement: str) -> None:
    bench.raw.fail[statement] = full()
    for write in (
        bench.writer.write(bench.noting("a")),
        bench.writer.write_batch(bench.batch(), ["b", "c"]),
    ):
        with pytest.raises(StoreFull):
            await write
    assert not bench.raw.raw.in_transaction
    bench.raw.fail.clear()
    assert await bench.writer.write(bench.noting("d")) == "d"
    assert bench.kept == {"d": 1}
    assert (bench.crashes, bench.writer.broken) == ([], False)


async def test_what_is_written_of_a_list_is_told_from_what_is_not(bench: Bench) -> None:
    add = bench.batch()

    async def operation(tx: Transaction, items: list[Any]) -> list[Any]:
        if "c" in items:
            raise full()
        return await add.operation(tx, items)

    items = ["a", "b", *["x"] * 498, "c", "d"]
    results = await bench.writer.write_batch(Batch("part", Lane.CREATE, operation), items)
    assert results[:2] == ["a!", "b!"]
    assert [type(one) for one in results[500:]] == [StoreFull, StoreFull]
    assert bench.kept == {"a": 1, "b": 1, "x": 498}


@pytest.mark.parametrize("statement", ["COMMIT", "INSERT", "ROLLBACK"])
async def test_nothing_is_written_after_the_unknown(bench: Bench, statement: str) -> None:
    bench.raw.fail[statement] = broken()
    if statement == "ROLLBACK":
        bench.raw.fail["INSERT"] = full()
    bench.link.free.clear()
    writes = [asyncio.ensure_future(bench.writer.write(bench.noting(f"t{n}"), Lane.UPKEEP)) for n in range(3)]
    await asyncio.sleep(0)
    bench.link.free.set()
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one) for one in outcomes] == [StoreBroken] * 3
    bench.raw.fail.clear()
    executed = len(bench.raw.executed)
    with pytest.raises(StoreBroken):
        await bench.writer.write(bench.noting("later"))
    assert len(bench.raw.executed) == executed
    assert [type(one) for one in bench.crashes] == [StoreBroken]
    assert (bench.writer.broken, bench.writer.waiting_rows) == (True, 0)


async def test_what_is_split_stops_at_the_unknown(bench: Bench) -> None:
    """A bad row makes the batch split; the commit of the first half breaks; the second half must not be tried."""
    bench.raw.fail["COMMIT"] = broken()
    outcomes = asyncio.ensure_future(bench.writer.write_batch(bench.batch(), ["a", "b", BAD, "c"]))
    with pytest.raises(StoreBroken):
        await outcomes
    assert [statement for statement in bench.raw.executed if statement == "COMMIT"] == ["COMMIT"]
    assert len(bench.crashes) == 1


async def test_an_idle_moment_shortens_the_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_ROWS", 3)
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_SECONDS", 0)
    await bench.writer.write_batch(bench.batch(), ["a", "b", "c"])
    assert not any("checkpoint" in one for one in bench.raw.executed)
    await bench.writer.write_batch(bench.batch(), ["d"])
    await bench.has_shortened()
    await bench.settle()
    assert [one for one in bench.raw.executed if "checkpoint" in one] == ["PRAGMA wal_checkpoint(PASSIVE)"]


async def test_between_two_calls_is_no_idle_moment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_ROWS", 0)
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_SECONDS", 3_600)
    for name in "ab":
        await bench.writer.write_batch(bench.batch(), [name])
    await asyncio.wait_for(bench.settle(), 5)
    assert not any("checkpoint" in one for one in bench.raw.executed)


async def test_long_bodies_shorten_the_log_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "CHECKPOINT_BUSY_CHARS", 1_000)
    await waiting(bench, *(bench.writer.write_batch(bench.batch(), ["x" * 600 + str(n)]) for n in range(2)))
    await bench.writer.write(bench.noting("after"))
    assert [one for one in bench.raw.executed if "checkpoint" in one] == ["PRAGMA wal_checkpoint(PASSIVE)"]


async def test_a_checkpoint_that_fails_is_unknown_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_ROWS", 0)
    bench.raw.fail["PRAGMA wal_checkpoint"] = broken()
    await bench.writer.write(bench.noting("a"))
    await asyncio.wait_for(bench.loop, 5)
    assert [type(one) for one in bench.crashes] == [StoreBroken]
    with pytest.raises(StoreBroken):
        await bench.writer.write(bench.noting("b"))


async def test_a_checkpoint_may_wait_for_a_full_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_ROWS", 0)
    monkeypatch.setattr(writer_module, "CHECKPOINT_IDLE_SECONDS", 0)
    bench.raw.fail["PRAGMA wal_checkpoint"] = full()
    await bench.writer.write(bench.noting("a"))
    await bench.has_shortened()
    assert await bench.writer.write(bench.noting("b")) == "b"
    assert bench.crashes == []


async def test_what_was_queued_before_the_close_is_written(bench: Bench) -> None:
    bench.link.free.clear()
    writes = [asyncio.ensure_future(bench.writer.write(bench.noting(f"t{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    bench.writer.close()
    with pytest.raises(StoreError, match="closing"):
        await bench.writer.write(bench.noting("late"))
    bench.link.free.set()
    assert await asyncio.gather(*writes) == [f"t{n}" for n in range(5)]
    await bench.loop


async def test_who_has_gone_away_is_not_written_for(bench: Bench) -> None:
    bench.link.free.clear()
    first = asyncio.ensure_future(bench.writer.write(bench.noting("first")))
    await bench.link.asked.wait()
    gone = asyncio.ensure_future(bench.writer.write_batch(bench.batch(), ["gone"]))
    await asyncio.sleep(0)
    gone.cancel()
    bench.link.free.set()
    assert await first == "first"
    assert await bench.writer.write(bench.noting("next")) == "next"
    assert bench.kept == {"first": 1, "next": 1}
    assert bench.writer.waiting_rows == 0


async def test_too_many_waiting_is_said_aloud(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "WAITING_MAX", 10)
    bench.link.free.clear()
    write = asyncio.ensure_future(bench.writer.write_batch(bench.batch(), [f"t{n}" for n in range(10)]))
    await asyncio.sleep(0)
    assert bench.writer.overloaded
    bench.link.free.set()
    await write
    assert not bench.writer.overloaded
