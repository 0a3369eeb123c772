"""Slices of a batch on their way to the store: some at a time, and what becomes of them where one fails."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tasktick.api import batch_reading
from tasktick.api.task_batches import SLICES_UNDER_WAY
from tasktick.api.task_requests import Making, row_of
from tasktick.errors import StoreUnavailable
from tasktick.store.protocol import Batch
from tasktick.store.task_rows import NewRow
from tests.api.served import WAIT_S, Served
from tests.api.test_batches import BATCH, NDJSON, TASK, lines


async def test_the_next_are_read_while_those_before_are_written(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = SLICES_UNDER_WAY + 1
    count, made = served.database.slice_rows * (slices - 1) + 100, 0
    all_read = asyncio.Event()
    held: list[Callable[[], None]] = []
    begin = served.database.begin

    def counting(request: Any, making: Making) -> NewRow:
        nonlocal made
        made += 1
        if made == count:
            all_read.set()
        return row_of(request, making)

    def waiting(batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        if all_read.is_set():
            begin(batch, item, told)
        else:
            held.append(lambda: begin(batch, item, told))

    monkeypatch.setattr(batch_reading, "row_of", counting)
    monkeypatch.setattr(served.database, "begin", waiting)
    asking = asyncio.ensure_future(served.ask("POST", BATCH, raw=lines(*[TASK] * count), headers=NDJSON))
    await asyncio.wait_for(all_read.wait(), WAIT_S)
    assert len(held) == SLICES_UNDER_WAY
    for one in held:
        one()
    answer = await asking

    assert len({one["id"] for one in answer.json["data"]}) == len(served.created) == count


async def test_a_store_that_takes_no_more_is_said_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, asked, under_way = served.database.begin, 0, 0
    all_told = asyncio.Event()

    def once(batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        nonlocal asked, under_way

        def heard(outcome: Any) -> None:
            nonlocal under_way
            told(outcome)
            under_way -= 1
            if not under_way:
                all_told.set()

        asked += 1
        if asked == 2:
            asyncio.get_running_loop().call_soon(told, StoreUnavailable("The store is away."))
        else:
            under_way += 1
            all_told.clear()
            begin(batch, item, heard)

    monkeypatch.setattr(served.database, "begin", once)
    body = lines(*[TASK] * (served.database.slice_rows * 6))
    answer = await served.ask("POST", BATCH, raw=body, headers=NDJSON)

    assert (answer.status, answer.code) == (503, "store_unavailable")
    assert asked <= SLICES_UNDER_WAY + 1, "what has not been handed on is not"
    await asyncio.wait_for(all_told.wait(), WAIT_S)
    assert len(served.created) == (asked - 1) * served.database.slice_rows, (
        "what was on its way is told to the scheduler"
    )


async def test_an_answer_waits_for_all_that_is_on_its_way(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end in any order."""
    begin = served.database.begin
    first: list[Callable[[], None]] = []

    def last_first(batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        def then_the_first(outcome: Any) -> None:
            told(outcome)
            first[0]()

        if not first:
            first.append(lambda: begin(batch, item, told))
        else:
            begin(batch, item, then_the_first)

    monkeypatch.setattr(served.database, "begin", last_first)
    count = served.database.slice_rows + 1
    answer = await served.ask("POST", BATCH, raw=lines(*[TASK] * count), headers=NDJSON)

    ids = [one["id"] for one in answer.json["data"]]
    assert ids == sorted(set(ids))
    assert len(ids) == len(served.created) == count


async def test_what_fails_when_it_is_written_is_said_and_nobody_waits_for_ever(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("tasktick.api.task_batches.made", fail)
    answer = await asyncio.wait_for(
        served.ask("POST", BATCH, raw=lines(*[TASK] * served.database.slice_rows), headers=NDJSON), WAIT_S
    )

    assert (answer.status, answer.code) == (500, "internal")
