"""Answers that are made once for all who ask at the same time."""

import asyncio

import pytest

from tasktick.api import kept
from tasktick.api.kept import Kept
from tasktick.api.pace import STEPS_PER_SLICE_MAX, Pace
from tasktick.errors import Refused


class Clock:
    """Moves when it is moved, and counts rests."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rests = 0

    def now_ms(self) -> int:
        return int(self.now)

    def monotonic_ms(self) -> float:
        return self.now

    async def sleep_ms(self, duration_ms: float) -> None:
        self.rests += 1
        self.now += duration_ms
        await asyncio.sleep(0)


async def test_it_is_made_once_and_kept_for_a_moment() -> None:
    clock, made = Clock(), list[str]()
    answers = Kept(clock)

    async def make(name: str) -> bytes:
        await asyncio.sleep(0)
        made.append(name)
        return name.encode()

    got = await asyncio.gather(*(answers.get(name, lambda name=name: make(name)) for name in "aaba"))  # type: ignore[misc] # a default binds the name
    assert got == [b"a", b"a", b"b", b"a"]
    assert made == ["a", "b"]
    clock.now = kept.KEPT_MS
    assert await answers.get("a", lambda: make("c")) == b"c"


async def test_what_fails_is_not_kept() -> None:
    answers = Kept(Clock())

    async def fail() -> bytes:
        raise Refused("store_unavailable", "away")

    async def make() -> bytes:
        return b"there"

    with pytest.raises(Refused):
        await answers.get("a", fail)
    assert await answers.get("a", make) == b"there"


async def test_so_many_wait_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WAITING_MAX", 2)
    answers, gate = Kept(Clock()), asyncio.Event()

    async def make() -> bytes:
        await gate.wait()
        return b""

    waiting = [asyncio.ensure_future(answers.get(name, make)) for name in "ab"]
    await asyncio.sleep(0)
    with pytest.raises(Refused) as refused:
        await answers.get("c", make)
    assert refused.value.code == "overloaded"
    gate.set()
    assert await asyncio.gather(*waiting) == [b"", b""]


async def test_long_work_rests() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(2 * STEPS_PER_SLICE_MAX):
        await pace.step()
    assert (clock.rests, pace.steps) == (2, 2 * STEPS_PER_SLICE_MAX)
    for _ in range(10):
        clock.now += 4
        await pace.step(128)
    assert clock.rests == 2 + 5
