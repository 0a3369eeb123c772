"""What a writer hands on while something is written: one claim, with the ends that wait; nothing after the unknown."""

import asyncio
from typing import Any

import msgspec
import pytest

from tasktick.clock import turns
from tasktick.errors import StoreBroken
from tasktick.store.lanes import TOGETHER, lot_of
from tasktick.store.protocol import Lane
from tests.unit.store.writing import Bench, broken


@pytest.mark.parametrize("statement", ["COMMIT", "INSERT"])
async def test_what_was_handed_on_ahead_is_not_written_after_the_unknown(bench: Bench, statement: str) -> None:
    """It waits behind it in the connection's thread, where nobody can call it back."""
    bench.link.free.clear()
    first = asyncio.ensure_future(bench.writer.write(bench.noting("first")))
    await bench.link.asked.wait()
    ahead = asyncio.ensure_future(bench.writer.write(bench.noting("claim"), Lane.FIRE))
    await turns(3)
    assert not bench.writer._lanes[Lane.FIRE], "it is on its way"
    bench.raw.fail[statement] = broken()
    bench.link.free.set()
    outcomes = await asyncio.gather(first, ahead, return_exceptions=True)
    assert [type(one) for one in outcomes] == [StoreBroken] * 2
    assert bench.order == ["first"]
    assert bench.raw.executed.count("BEGIN IMMEDIATE") == 1
    assert len(bench.crashes) == 1
    assert bench.writer.waiting_rows == 0


async def test_only_one_claim_is_handed_on_ahead_and_creates_are_not(bench: Bench) -> None:
    bench.link.free.clear()
    writes = [asyncio.ensure_future(bench.writer.write(bench.noting("first")))]
    await bench.link.asked.wait()
    for name, lane in (("create", Lane.CREATE), ("claim", Lane.FIRE), ("next claim", Lane.FIRE)):
        writes.append(asyncio.ensure_future(bench.writer.write(bench.noting(name), lane)))
        await turns(3)
    assert [len(bench.writer._lanes[lane]) for lane in (Lane.FIRE, Lane.CREATE)] == [1, 1]
    bench.link.free.set()
    await asyncio.gather(*writes)
    assert bench.order == ["first", "claim", "next claim", "create"]


async def held(bench: Bench, *names: str, rows: int = 1) -> list["asyncio.Future[Any]"]:
    """These want to create, each of so many rows, while something is under way."""
    bench.link.free.clear()
    writes: list[asyncio.Future[Any]] = [asyncio.ensure_future(bench.writer.write(bench.noting("first")))]
    await bench.link.asked.wait()
    batch = msgspec.structs.replace(bench.batch(), rows_of=lambda item: rows)
    writes += [asyncio.ensure_future(bench.writer.write_batch(batch, [name])) for name in names]
    await turns(3)
    return writes


async def let_go(bench: Bench, writes: list["asyncio.Future[Any]"]) -> list[Any]:
    bench.link.free.set()
    return await asyncio.gather(*writes)


async def test_a_lot_that_is_complete_is_handed_on_ahead(bench: Bench) -> None:
    names = [f"t{n:02}" for n in range(TOGETHER)]
    writes = await held(bench, *names[:-1])
    missing_one = len(bench.writer._lanes[Lane.CREATE])
    told = asyncio.get_running_loop().create_future()
    bench.writer.begin(bench.batch(), names[-1], told.set_result)
    await turns(3)
    left = len(bench.writer._lanes[Lane.CREATE])
    assert await let_go(bench, [*writes, told]) == ["first", *([f"{name}!"] for name in names[:-1]), f"{names[-1]}!"]
    assert missing_one == TOGETHER - 1
    assert left == TOGETHER - lot_of(TOGETHER + 1), "of all, with who is being written, half"


@pytest.mark.parametrize(("rows", "ahead"), [(500, 0), (501, 1)])
async def test_a_slice_of_more_than_a_turn_is_handed_on_ahead(bench: Bench, rows: int, ahead: int) -> None:
    """It was made so since nothing is about to start; a smaller one may be in the way of what is."""
    writes = await held(bench, "a", "b", rows=rows)
    waiting = len(bench.writer._lanes[Lane.CREATE])
    assert await let_go(bench, writes) == ["first", ["a!"], ["b!"]]
    assert waiting == 2 - ahead


@pytest.mark.parametrize("lane", [Lane.FIRE, Lane.UPKEEP])
async def test_no_creates_are_handed_on_ahead_of_others_who_wait(bench: Bench, lane: Lane) -> None:
    """They would never have a turn. An end waits for the next commit; only a claim does not."""
    names = [f"t{n:02}" for n in range(2 * TOGETHER)]
    writes = await held(bench)
    other = asyncio.ensure_future(bench.writer.write_batch(bench.batch("other", lane), ["other"]))
    await turns(3)
    for name in names:
        told = asyncio.get_running_loop().create_future()
        bench.writer.begin(bench.batch(), name, told.set_result)
        writes.append(told)
    await turns(3)
    waiting = len(bench.writer._lanes[Lane.CREATE])
    assert await let_go(bench, [*writes, other]) == ["first", *(f"{name}!" for name in names), ["other!"]]
    assert waiting == len(names)


class Gates:
    """A connection on which each thing waits until it is let through."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._gates: list[asyncio.Event] = []
        bench.link.call = self._call  # type: ignore[method-assign] # it stands in for it

    async def _call(self, work: Any) -> Any:
        gate = asyncio.Event()
        self._gates.append(gate)
        await gate.wait()
        return work(self._bench.raw)

    @property
    def asked(self) -> int:
        """How many came."""
        return len(self._gates)

    async def let_through(self, place: int) -> None:
        """That one, and everything that follows from it."""
        self._gates[place].set()
        await turns(8)


async def test_who_waits_only_for_what_was_handed_on_ahead_is_woken_by_its_end(bench: Bench) -> None:
    gates = Gates(bench)
    first = asyncio.ensure_future(bench.writer.write(bench.noting("first")))
    await turns(8)
    claim = asyncio.ensure_future(bench.writer.write(bench.noting("claim"), Lane.FIRE))
    await turns(8)
    create = asyncio.ensure_future(bench.writer.write(bench.noting("create")))
    await turns(8)
    await gates.let_through(0)
    assert (first.done(), gates.asked) == (True, 2), "it waits for the claim, to go with what else comes"
    await gates.let_through(1)
    assert (claim.done(), gates.asked) == (True, 3)
    await gates.let_through(2)
    assert await create == "create"


async def test_a_claim_that_was_taken_back_is_not_handed_on(bench: Bench) -> None:
    gates = Gates(bench)
    first = asyncio.ensure_future(bench.writer.write(bench.noting("first")))
    await turns(8)
    claim = asyncio.ensure_future(bench.writer.write(bench.noting("claim"), Lane.FIRE))
    await asyncio.sleep(0)
    claim.cancel()
    await turns(8)
    assert gates.asked == 1
    await gates.let_through(0)
    assert await first == "first"
    assert (bench.crashes, bench.writer.waiting_rows) == ([], 0)


async def test_two_claims_are_two_commits(bench: Bench) -> None:
    gates = Gates(bench)
    batch = msgspec.structs.replace(bench.batch("claim", Lane.FIRE), is_prompt=True)
    claims = [asyncio.ensure_future(bench.writer.write_batch(batch, [name])) for name in "abc"]
    await turns(8)
    assert gates.asked == 2
    for place in range(3):
        await gates.let_through(place)
    assert [await one for one in claims] == [["a!"], ["b!"], ["c!"]]
    assert bench.turns == [["a"], ["b"], ["c"]]
