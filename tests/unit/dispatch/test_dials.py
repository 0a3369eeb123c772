"""Connections that are wanted at once: begun a few a turn of the loop, and late by us alone when their turn is late."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from tasktick.dispatch.outcome import NEVER_MS, Outcome, Request
from tasktick.dispatch.sender import SenderLimits
from tasktick.dispatch.wire_sender import DIALS_PER_TURN, WireSender
from tests.fakes.receivers import Receiver, honest
from tests.fakes.sending import LOOPBACK, FakeResolver, monotonic_ms, request, until

WANTED = 5 * DIALS_PER_TURN


class Turns:
    """Counts the turns of the loop, and what was spawned in each."""

    def __init__(self) -> None:
        self.number = 0
        self.spawned: Counter[int] = Counter()
        self._goes_on = True
        self._turn()

    def _turn(self) -> None:
        self.number += 1
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._turn)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        self.spawned[self.number] += 1
        return asyncio.create_task(work, name=name)

    def end(self) -> None:
        self._goes_on = False


async def test_connections_are_begun_a_few_a_turn() -> None:
    turns = Turns()
    sender = WireSender(LOOPBACK, monotonic_ms, SenderLimits(), FakeResolver(), None, turns.spawn)
    await sender.start()
    outcomes: list[Outcome] = []
    try:
        async with Receiver(honest) as receiver:
            for _ in range(WANTED):
                sender.begin(request(receiver.url), outcomes.append)
            assert sender.connecting == WANTED
            await until(lambda: len(outcomes) == WANTED)
            assert {outcome.status for outcome in outcomes} == {200}
            assert receiver.connections <= WANTED
        assert sender.connecting == 0
        assert max(turns.spawned.values()) <= DIALS_PER_TURN
    finally:
        turns.end()
        await sender.close()


async def test_whose_turn_does_not_come_in_time_has_asked_nobody() -> None:
    sender = WireSender(LOOPBACK, monotonic_ms, SenderLimits(), FakeResolver())
    await sender.start()
    outcomes: list[Outcome] = []
    try:
        async with Receiver(honest) as receiver:
            for _ in range(WANTED):
                sender.begin(request(receiver.url, start_within_ms=1_000), outcomes.append)
            assert sender.sweep(NEVER_MS) == WANTED
            assert [outcome.error_code for outcome in outcomes] == ["too_late"] * WANTED
            assert not any(outcome.byte_left for outcome in outcomes)
            # Their places are free again.
            await until(lambda: sender.connecting == 0)
            assert sender._wires._count == 0
            assert receiver.connections == 0
    finally:
        await sender.close()


async def test_whose_turn_comes_too_late_has_asked_nobody_though_it_was_not_swept() -> None:
    now_ms = 0.0
    sender = WireSender(LOOPBACK, lambda: now_ms, SenderLimits(), FakeResolver())
    await sender.start()
    outcomes: list[Outcome] = []
    try:
        async with Receiver(honest) as receiver:
            for _ in range(WANTED):
                late = Request("POST", receiver.url, [], b"{}", deadline_ms=9.0, start_by_ms=1.0)
                sender.begin(late, outcomes.append)
            now_ms = 2.0
            await until(lambda: len(outcomes) == WANTED)
            assert {(outcome.error_code, outcome.byte_left) for outcome in outcomes} == {("too_late", False)}
            assert (sender.connecting, sender._wires._count, receiver.connections) == (0, 0, 0)
    finally:
        await sender.close()


async def test_one_that_is_cut_before_its_turn_leaves_its_place() -> None:
    sender = WireSender(LOOPBACK, monotonic_ms, SenderLimits(connections_max=1), FakeResolver())
    await sender.start()
    outcomes: list[Outcome] = []
    try:
        async with Receiver(honest) as receiver:
            sender.begin(request(receiver.url), outcomes.append).cut()
            sender.begin(request(receiver.url), outcomes.append)
            await until(lambda: len(outcomes) == 1)
            assert outcomes[0].status == 200
    finally:
        await sender.close()
