"""The signing secrets that are in use: when one of them ends, and when the store does not answer."""

import asyncio
from pathlib import Path
from random import Random
from typing import TypeVar, cast

import pytest

from tasktick.access import signing_secrets
from tasktick.access.signing_keys import SigningKeys
from tasktick.access.signing_secrets import SigningSecret
from tasktick.access.vault import KEY_BYTES, Vault
from tasktick.clock import SystemClock
from tasktick.errors import StoreFull
from tasktick.model.ids import IdMaker
from tasktick.store import secrets as stored_secrets
from tasktick.store.protocol import Database, Operation
from tests.fakes.clock import StandingClock
from tests.store.drivers import sqlite

T = TypeVar("T")
NOW = 1_800_000_000_000


async def test_a_change_that_could_not_be_read_is_read_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, full = ["old"], [False]

    async def active(*_: object) -> dict[str, list[SigningSecret]]:
        if full[0]:
            raise StoreFull("The disk that holds the store is full.")
        return {"ada": [SigningSecret(text, text, 0) for text in stored]}

    monkeypatch.setattr(signing_secrets, "active", active)
    ids, database = IdMaker(Random(1)), cast(Database, CountingDatabase(cast(Database, None)))
    keys = SigningKeys(
        database, Vault(bytes(KEY_BYTES)), ids, SystemClock(), lambda: "made", lambda text: text.encode()
    )
    await keys.load(["ada"])
    stored[:], full[0] = ["new", "old"], True
    keys.changed("ada")
    with pytest.raises(StoreFull):
        await keys.load(["ada"])
    assert list(keys.of("ada")) == [b"old"]
    full[0] = False
    await keys.load(["ada"])
    assert list(keys.of("ada")) == [b"new", b"old"]


class Readings:
    """Each reading of what is stored waits until it is let go."""

    def __init__(self) -> None:
        self.stored = ["v1"]
        self.under_way: list[asyncio.Event] = []

    async def active(self, *_: object) -> dict[str, list[SigningSecret]]:
        found = {"ada": [SigningSecret(text, text, 0) for text in self.stored]}
        self.under_way.append(asyncio.Event())
        await self.under_way[-1].wait()
        return found


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    made = Readings()
    monkeypatch.setattr(signing_secrets, "active", made.active)
    return made


@pytest.fixture
def slow_keys(readings: Readings) -> SigningKeys:
    ids, database = IdMaker(Random(1)), cast(Database, CountingDatabase(cast(Database, None)))
    return SigningKeys(
        database, Vault(bytes(KEY_BYTES)), ids, SystemClock(), lambda: "made", lambda text: text.encode()
    )


async def test_a_change_is_not_known_until_it_has_been_read(readings: Readings, slow_keys: SigningKeys) -> None:
    """Who comes while another reads it does not sign with what was removed."""
    first = asyncio.ensure_future(slow_keys.load(["ada"]))
    await asyncio.sleep(0)
    readings.under_way[0].set()
    await first
    readings.stored = ["v2"]
    slow_keys.changed("ada")
    ahead = asyncio.ensure_future(slow_keys.load(["ada"]))
    await asyncio.sleep(0)
    assert not slow_keys.knows(["ada"])
    readings.under_way[1].set()
    await ahead
    assert slow_keys.knows(["ada"])
    assert list(slow_keys.of("ada")) == [b"v2"]


async def test_a_reading_that_ends_late_takes_nothing_back(readings: Readings, slow_keys: SigningKeys) -> None:
    ahead = asyncio.ensure_future(slow_keys.load(["ada"]))
    await asyncio.sleep(0)
    readings.stored = ["v2"]
    slow_keys.changed("ada")
    batch = asyncio.ensure_future(slow_keys.load(["ada"]))
    await asyncio.sleep(0)
    readings.under_way[1].set()
    await batch
    assert list(slow_keys.of("ada")) == [b"v2"]
    readings.under_way[0].set()
    await ahead
    assert list(slow_keys.of("ada")) == [b"v2"]
    assert slow_keys.knows(["ada"])


async def test_a_first_secret_that_could_not_be_made_is_made_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then nothing is known of the tenant: nothing is sent unsigned."""
    stored: list[str] = []
    full = [True]

    async def active(*_: object) -> dict[str, list[SigningSecret]]:
        return {"ada": [SigningSecret(text, text, 0) for text in stored]}

    async def ensure(*_: object) -> list[str]:
        if full[0]:
            raise StoreFull("The disk is full.")
        stored.append("first")
        return ["ada"]

    monkeypatch.setattr(signing_secrets, "active", active)
    monkeypatch.setattr(signing_secrets, "ensure", ensure)
    ids, database = IdMaker(Random(1)), cast(Database, CountingDatabase(cast(Database, None)))
    keys = SigningKeys(
        database, Vault(bytes(KEY_BYTES)), ids, SystemClock(), lambda: "made", lambda text: text.encode()
    )
    with pytest.raises(StoreFull):
        await keys.load(["ada"])
    assert not keys.knows(["ada"])
    full[0] = False
    await keys.load(["ada"])
    assert list(keys.of("ada")) == [b"first"]


async def test_a_secret_signs_until_its_end_and_not_beyond(tmp_path: Path) -> None:
    vault, ids, clock = Vault(bytes(KEY_BYTES)), IdMaker(Random(1)), StandingClock(NOW)
    async with sqlite(tmp_path) as database:

        async def add(text: str) -> str:
            secret = SigningSecret(ids.new(clock.now, 0), text, clock.now)
            await database.write(lambda tx: signing_secrets.add(tx, "ada", vault, secret))
            return secret.id

        keys = SigningKeys(database, vault, ids, clock, lambda: "made", lambda text: text.encode())
        old = await add("old")
        await keys.load(["ada"])
        clock.now += 1
        await add("new")
        assert await database.write(lambda tx: stored_secrets.retire_at(tx, "ada", [old], clock.now + 100)) == 1
        await keys.load(["ada"])
        assert list(keys.of("ada")) == [b"old"], "it waits to be told"
        keys.changed("ada")
        assert not keys.knows(["ada"])
        await keys.load(["ada"])
        assert list(keys.of("ada")) == [b"new", b"old"]
        clock.now += 99
        await keys.load(["ada"])
        assert list(keys.of("ada")) == [b"new", b"old"]
        clock.now += 1
        await keys.load(["ada"])
        assert list(keys.of("ada")) == [b"new"]


class CountingDatabase:
    """Counts what is asked of a database."""

    shared = False

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.reads = self.writes = 0

    @property
    def near(self) -> "CountingDatabase":
        return self

    async def read(self, operation: Operation[T]) -> T:
        self.reads += 1
        return await self._inner.read(operation)

    async def write(self, operation: Operation[T]) -> T:
        self.writes += 1
        return await self._inner.write(operation)


async def test_the_tenants_of_a_batch_are_read_and_made_together(tmp_path: Path) -> None:
    vault, ids, clock = Vault(bytes(KEY_BYTES)), IdMaker(Random(1)), StandingClock(NOW)
    tenants = [f"tenant-{number}" for number in range(100)]
    async with sqlite(tmp_path) as database:
        counted = CountingDatabase(database)
        made = iter(f"secret-{number}" for number in range(200))
        keys = SigningKeys(cast(Database, counted), vault, ids, clock, lambda: next(made), lambda text: text.encode())
        assert not keys.knows(tenants)
        await keys.load(tenants)
        assert keys.knows(tenants)
        assert not keys.knows([*tenants, "another"])
        assert (counted.reads, counted.writes) == (2, 1), "what there is, what is made, and that"
        assert len({tuple(keys.of(tenant)) for tenant in tenants}) == len(tenants)
        await keys.load(tenants)
        assert (counted.reads, counted.writes) == (2, 1)
        again = SigningKeys(cast(Database, counted), vault, ids, clock, lambda: next(made), lambda text: text.encode())
        await again.load(tenants)
        assert (counted.reads, counted.writes) == (3, 1)
        assert [again.of(tenant) for tenant in tenants] == [keys.of(tenant) for tenant in tenants]
