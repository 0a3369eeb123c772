"""The operator's key: made at first start, adopted where the file is there already.

The file comes before the row: after a crash between the two, the next start adopts the file. A node that
joins a store which has an operator's key makes none.
"""

import secrets
from pathlib import Path

import msgspec

from tasktick import logs
from tasktick.access import keys, secret_files
from tasktick.access.roles import Role
from tasktick.errors import ConfigError
from tasktick.model.ids import IdMaker
from tasktick.model.task import DEFAULT_TENANT
from tasktick.store import secrets as stored
from tasktick.store.protocol import Database
from tasktick.store.rows import KeyRow

FILE_NAME = "operator.key"


class OperatorKey(msgspec.Struct, frozen=True):
    """The key, and whether it was made just now, so that it may be shown once."""

    key: str
    made_now: bool


async def adopt_or_make(database: Database, file: Path, ids: IdMaker, now_ms: int) -> OperatorKey | None:
    """Make sure that there is an operator's key; None if the store has one whose file is elsewhere."""
    text = secret_files.read(file)
    if text is not None:
        await _adopt(database, text, str(file), ids, now_ms)
        return OperatorKey(text, made_now=False)
    if await database.read(lambda tx: stored.count_keys(tx, now_ms, role=Role.OPERATOR)):
        return None
    key = keys.make(secrets.token_bytes(keys.RANDOM_BYTES))
    secret_files.create(file, key)
    await _adopt(database, key, str(file), ids, now_ms)
    return OperatorKey(key, made_now=True)


def advice(*, shared: bool) -> str:
    """What to do where the store has an operator's key and this folder has no file of it."""
    if shared:
        return (
            "the operator's key of this store is in the data folder of another node, the one that was first: name that "
            "file to `tasktick ctl` with --key-file, or copy it here"
        )
    return "the store has an operator's key whose file is elsewhere: put it back, or name it to ctl with --key-file"


async def _adopt(database: Database, key: str, where: str, ids: IdMaker, now_ms: int) -> None:
    """Keep the hash of this key; one that is there already must be the same."""
    logs.hide(key)
    prefix = keys.prefix_of(key)
    if prefix is None:
        raise ConfigError(f"{where} holds no TaskTick key. Remove it, and the next start makes one.")
    row = KeyRow(
        id=ids.new(now_ms, 0),
        prefix=prefix,
        hash=keys.digest(key),
        tenant=DEFAULT_TENANT,
        role=Role.OPERATOR,
        name="operator",
        created_at=now_ms,
    )
    if await database.write(lambda tx: stored.add_key(tx, row)):
        return
    present = await database.read(lambda tx: stored.key_by_prefix(tx, prefix))
    if present is None or not keys.matches(key, present.hash):
        raise ConfigError(f"{where} holds a key that the store knows under another secret.")
    if not present.works_at(now_ms) or present.role != Role.OPERATOR:
        raise ConfigError(
            f"{where} holds a key that is revoked, has expired, or is no operator's. Put one that works in its place, "
            "or remove the file: the next start makes one if there is no other."
        )
