"""The vault of a store: every node that uses the store has the same one, or does not start.

A text that is sealed in the store says which one it is. The first start on a new store makes the key's file and seals
that text; of two that do so at once one is first, and the other's file goes again.
"""

from pathlib import Path

from tasktick.access import secret_files, vault
from tasktick.access.vault import Vault
from tasktick.errors import ConfigError
from tasktick.model.task import DEFAULT_TENANT
from tasktick.store import secrets as stored
from tasktick.store.protocol import Database
from tasktick.store.rows import SecretRow

SEALED_ID = "vault"
SEALED_KIND = "vault"
SEALED_TEXT = "the vault of this store"
CONTEXT = "vault"


async def load_or_make(database: Database, file: Path, now_ms: int) -> Vault:
    """The vault that opens what the store holds sealed; its key is made where nothing is sealed yet."""
    there = await _sealed(database)
    was_there = secret_files.read(file) is not None
    try:
        found = vault.load_or_make(file, may_make=there is None)
    except ConfigError as error:
        if there is None or was_there:
            raise
        raise ConfigError(_missing(file, vault.key_id_of(there))) from error
    if there is None:
        row = SecretRow(SEALED_ID, DEFAULT_TENANT, SEALED_KIND, found.seal(SEALED_TEXT, CONTEXT), now_ms)
        await database.write(lambda tx: stored.add_once(tx, row))
        there = await _sealed(database)
        assert there is not None, "it was just written"
    if vault.key_id_of(there) != found.key_id:
        if not was_there:
            secret_files.remove(file)
            raise ConfigError(_missing(file, vault.key_id_of(there)))
        raise ConfigError(
            f"{file} holds the key {found.key_id}, but the store's secrets are sealed under {vault.key_id_of(there)}. "
            f"Every node needs the same: copy {vault.FILE_NAME} from the data folder of a node that runs on this store."
        )
    return found


async def _sealed(database: Database) -> str | None:
    """What tells of the store's vault: the text for it, or, from before there was one, any secret."""
    rows = await database.read(stored.read)
    told = [row.sealed for row in rows if row.kind == SEALED_KIND]
    return next(iter([*told, *(row.sealed for row in rows)]), None)


def _missing(file: Path, key_id: str) -> str:
    return (
        f"{file} is not there, and the store has secrets that only it opens (the key {key_id}). Put it back; for a "
        f"further node, copy {vault.FILE_NAME} from the data folder of one that runs on this store."
    )
