"""The signing secrets that are in use, when the store does not answer."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, cast

import pytest

from tasktick.access import signing_secrets
from tasktick.access.signing_keys import SigningKeys
from tasktick.access.vault import KEY_BYTES, Vault
from tasktick.clock import SystemClock
from tasktick.errors import StoreFull
from tasktick.model.ids import IdMaker
from tasktick.store.protocol import Database


async def test_a_change_that_could_not_be_read_is_read_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, full = ["old"], [False]

    async def ensure(*_: object) -> bool:
        if full[0]:
            raise StoreFull("The disk that holds the store is full.")
        return False

    async def active(*_: object) -> list[str]:
        return stored

    replaced: dict[str, Callable[..., Awaitable[Any]]] = {"ensure": ensure, "active": active}
    for name, function in replaced.items():
        monkeypatch.setattr(signing_secrets, name, function)
    ids = IdMaker(Random(1))
    keys = SigningKeys(
        cast(Database, None), Vault(bytes(KEY_BYTES)), ids, SystemClock(), lambda: "made", lambda text: text.encode()
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
