"""The operator's key and the first signing secret, on a real store."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from tasktick.access import keys, operator_key, secret_files, signing_secrets
from tasktick.access.roles import Role
from tasktick.access.vault import SealBroken, Vault
from tasktick.errors import ConfigError
from tasktick.model.ids import IdMaker
from tasktick.store import secrets as stored
from tasktick.store.protocol import Database
from tests.store.drivers import sqlite

NOW = 1_800_000_000_000
IDS = IdMaker(Random(5))


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """An open, empty store."""
    async with sqlite(tmp_path / "store") as database:
        yield database


async def test_it_is_made_once_and_then_adopted(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator.key"
    first = await operator_key.adopt_or_make(database, file, IDS, NOW)
    second = await operator_key.adopt_or_make(database, file, IDS, NOW)

    assert first is not None
    assert second is not None
    assert (first.made_now, second.made_now) == (True, False)
    assert first.key == second.key == secret_files.read(file)
    [row] = await database.read(stored.keys)
    assert (row.role, row.tenant) == (Role.OPERATOR, "default")
    assert keys.matches(first.key, row.hash)
    assert first.key not in repr(row)


async def test_after_a_crash_between_file_and_row(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator.key"
    secret_files.create(file, keys.make(bytes(keys.RANDOM_BYTES)))

    found = await operator_key.adopt_or_make(database, file, IDS, NOW)
    assert found is not None
    assert not found.made_now
    assert len(await database.read(stored.keys)) == 1


async def test_a_store_that_has_keys_gets_none(database: Database, tmp_path: Path) -> None:
    await operator_key.adopt_or_make(database, tmp_path / "one.key", IDS, NOW)

    assert await operator_key.adopt_or_make(database, tmp_path / "two.key", IDS, NOW) is None
    assert not (tmp_path / "two.key").exists()


async def test_a_store_whose_operators_keys_open_nothing_gets_one(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator.key"
    await operator_key.adopt_or_make(database, file, IDS, NOW)
    [row] = await database.read(stored.keys)
    await database.write(lambda tx: stored.revoke_key(tx, row.id, NOW))
    with pytest.raises(ConfigError, match="revoked"):
        await operator_key.adopt_or_make(database, file, IDS, NOW)

    file.unlink()
    found = await operator_key.adopt_or_make(database, file, IDS, NOW)
    assert found is not None
    assert found.made_now


async def test_a_file_that_is_no_key_is_refused(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator.key"
    secret_files.create(file, "nonsense")
    with pytest.raises(ConfigError, match="holds no TaskTick key"):
        await operator_key.adopt_or_make(database, file, IDS, NOW)


async def test_another_secret_under_a_known_prefix_is_refused(database: Database, tmp_path: Path) -> None:
    for at, last in enumerate((0, 1)):
        file = tmp_path / f"{at}.key"
        secret_files.create(file, keys.make(bytes(keys.RANDOM_BYTES - 1) + bytes([last])))
    await operator_key.adopt_or_make(database, tmp_path / "0.key", IDS, NOW)

    with pytest.raises(ConfigError, match="under another secret"):
        await operator_key.adopt_or_make(database, tmp_path / "1.key", IDS, NOW)


async def test_the_first_signing_secret(database: Database) -> None:
    vault = Vault(bytes(32))
    made = [await signing_secrets.ensure(database, ["acme"], vault, IDS, NOW, lambda: "whsec_x") for _ in range(2)]

    assert made == [["acme"], []]
    found = await signing_secrets.active(database, ["acme", "other"], vault, NOW)
    assert {tenant: [one.text for one in secrets] for tenant, secrets in found.items()} == {
        "acme": ["whsec_x"],
        "other": [],
    }
    with pytest.raises(SealBroken):
        await signing_secrets.active(database, ["acme"], Vault(bytes(range(32))), NOW)


def test_who_shares_a_store_is_sent_to_another_nodes_folder() -> None:
    assert "data folder of another node" in operator_key.advice(shared=True)
    assert "put it back" in operator_key.advice(shared=False)
    assert all("--key-file" in operator_key.advice(shared=shared) for shared in (True, False))
