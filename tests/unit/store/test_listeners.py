"""Who waits for a write in no task is told what came of it, once, and never from within the writer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tasktick.errors import StoreError, StoreFull
from tasktick.store.connect import OperationalError
from tests.unit.store.writing import BAD, Bench

WAIT_S = 5


class Ears:
    """What was told, and to whom."""

    def __init__(self, wanted: int) -> None:
        self.heard: dict[str, Any] = {}
        self._wanted = wanted
        self._all = asyncio.Event()

    def of(self, name: str) -> Any:
        """One that listens."""

        def told(outcome: Any) -> None:
            assert name not in self.heard
            self.heard[name] = outcome
            if len(self.heard) == self._wanted:
                self._all.set()

        return told

    async def all_heard(self) -> dict[str, Any]:
        await asyncio.wait_for(self._all.wait(), WAIT_S)
        return self.heard


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    await bench.settle()
    await bench.link.close()


async def test_listeners_share_a_commit_with_who_waits(bench: Bench) -> None:
    batch, ears = bench.batch(), Ears(2)
    bench.writer.begin(batch, "a", ears.of("a"))
    waiting = asyncio.create_task(bench.writer.write_batch(batch, ["b", "c"]))
    await asyncio.sleep(0)
    bench.writer.begin(batch, "d", ears.of("d"))

    assert await ears.all_heard() == {"a": "a!", "d": "d!"}
    assert await waiting == ["b!", "c!"]
    assert (bench.writer.commits, bench.turns) == (1, [["a", "b", "c", "d"]])
    assert bench.writer.waiting_rows == 0


async def test_one_bad_item_is_told_alone(bench: Bench) -> None:
    batch, ears = bench.batch(), Ears(3)
    for name in ("a", BAD, "c"):
        bench.writer.begin(batch, name, ears.of(name))
    heard = await ears.all_heard()

    assert (heard["a"], heard["c"]) == ("a!", "c!")
    assert isinstance(heard[BAD], ValueError)


async def test_a_full_disk_is_told(bench: Bench) -> None:
    error = OperationalError("database or disk is full")
    error.sqlite_errorcode = 13
    bench.raw.fail["BEGIN"] = error
    ears = Ears(1)
    bench.writer.begin(bench.batch(), "a", ears.of("a"))

    assert isinstance((await ears.all_heard())["a"], StoreFull)


async def test_one_that_fails_takes_nothing_from_the_others(bench: Bench) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def fail(outcome: Any) -> None:
        raise RuntimeError(f"of no use: {outcome}")

    batch, ears = bench.batch(), Ears(1)
    bench.writer.begin(batch, "a", fail)
    bench.writer.begin(batch, "b", ears.of("b"))

    assert await ears.all_heard() == {"b": "b!"}
    assert [str(one["exception"]) for one in complaints] == ["of no use: a!"]


async def test_a_closed_writer_says_so_and_not_from_within(bench: Bench) -> None:
    bench.writer.close()
    ears = Ears(1)
    bench.writer.begin(bench.batch(), "a", ears.of("a"))

    assert ears.heard == {}
    assert isinstance((await ears.all_heard())["a"], StoreError)
    assert bench.writer.waiting_rows == 0
