"""The vault that every node of a store has: who has another is told where to get it, and two first ones make one."""

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tasktick.access import shared_vault, vault
from tasktick.access.vault import Vault
from tasktick.errors import ConfigError
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Database
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import NOW


def _file(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder / vault.FILE_NAME


async def test_a_key_that_differs_is_refused_with_what_to_do_about_it(store: Database, tmp_path: Path) -> None:
    first = await shared_vault.load_or_make(store, _file(tmp_path / "a"), NOW)
    other = _file(tmp_path / "b")
    theirs = vault.load_or_make(other, may_make=True)
    text = other.read_bytes()
    with pytest.raises(ConfigError) as refused:
        await shared_vault.load_or_make(store, other, NOW)
    said = str(refused.value)
    assert f"{other} holds the key {theirs.key_id}" in said
    assert f"sealed under {first.key_id}" in said
    assert "copy vault.key from the data folder of a node that runs on this store" in said
    assert other.read_bytes() == text, "it may open another store"
    shutil.copy(_file(tmp_path / "a"), other)
    assert (await shared_vault.load_or_make(store, other, NOW)).key_id == first.key_id


@pytest.mark.postgres
@pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here")
async def test_of_two_first_starts_at_once_one_makes_the_key_and_the_other_is_told(
    newest_server: str, tmp_path: Path
) -> None:
    """From an empty schema on: both migrate, and both find no vault."""
    address = PostgresAddress(newest_server, "tests")

    async def start(name: str) -> Vault:
        database = await stack.enter_async_context(opened(address, tmp_path / name))
        return await shared_vault.load_or_make(database, _file(tmp_path / name), NOW)

    async with AsyncExitStack() as stack:
        for name in "ab":
            _file(tmp_path / name)
        made = await asyncio.gather(start("a"), start("b"), return_exceptions=True)
        [refused] = [one for one in made if isinstance(one, ConfigError)]
        [there] = [one for one in made if isinstance(one, Vault)]
        assert "copy vault.key" in str(refused)
        kept = [name for name in "ab" if (tmp_path / name / vault.FILE_NAME).exists()]
        assert len(kept) == 1, "what the other made is gone again"
        (late,) = set("ab") - set(kept)
        shutil.copy(_file(tmp_path / kept[0]), _file(tmp_path / late))
        database = await stack.enter_async_context(opened(address, tmp_path / "c"))
        assert (await shared_vault.load_or_make(database, _file(tmp_path / late), NOW)).key_id == there.key_id
