"""What a writer hands on while something is written: one claim, with the ends that wait; nothing after the unknown."""

import asyncio

import pytest

from tasktick.clock import turns
from tasktick.errors import StoreBroken
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
