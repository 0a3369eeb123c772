"""Signing secrets in the store: sealed there, opened to sign and to be shown to who may see them."""

from collections.abc import Callable, Collection

import msgspec

from tasktick.access.vault import Vault, signing_context
from tasktick.model.ids import IdMaker
from tasktick.store import secrets as stored
from tasktick.store.protocol import Database, Transaction
from tasktick.store.rows import SecretRow

# Each one adds a signature to every request.
ACTIVE_MAX = 5
RETIRED_KEPT = 20


class SigningSecret(msgspec.Struct, frozen=True):
    """A signing secret in the clear. It signs until it is retired, which may be set beforehand."""

    id: str
    text: str
    created_at: int
    retired_at: int | None = None

    def signs_at(self, now: int) -> bool:
        """Whether it signs then."""
        return self.retired_at is None or self.retired_at > now


async def read(tx: Transaction, tenant: str, vault: Vault) -> list[SigningSecret]:
    """A tenant's secrets, newest first, retired ones too."""
    return [_opened(row, vault) for row in await stored.read(tx, tenant, stored.SIGNING)]


async def active(
    database: Database, tenants: Collection[str], vault: Vault, now_ms: int
) -> dict[str, list[SigningSecret]]:
    """The secrets that sign these tenants' requests now, newest first."""
    found: dict[str, list[SigningSecret]] = {tenant: [] for tenant in tenants}
    for row in await database.near.read(lambda tx: stored.read_of(tx, tenants, stored.SIGNING)):
        secret = _opened(row, vault)
        if secret.signs_at(now_ms):
            found[row.tenant].append(secret)
    return found


def _opened(row: SecretRow, vault: Vault) -> SigningSecret:
    text = vault.open(row.sealed, signing_context(row.tenant, row.id))
    return SigningSecret(row.id, text, row.created_at, row.retired_at)


async def add(tx: Transaction, tenant: str, vault: Vault, secret: SigningSecret) -> None:
    """Keep a new secret, sealed; the oldest that sign no more make way."""
    sealed = vault.seal(secret.text, signing_context(tenant, secret.id))
    await stored.add(tx, SecretRow(secret.id, tenant, stored.SIGNING, sealed, secret.created_at))
    await stored.forget_retired(tx, tenant, stored.SIGNING, secret.created_at, RETIRED_KEPT)


async def ensure(
    database: Database, tenants: Collection[str], vault: Vault, ids: IdMaker, now_ms: int, make: Callable[[], str]
) -> list[str]:
    """Make the first secret of each of these tenants that has none; for whom. Two that race make one."""

    async def operation(tx: Transaction) -> list[str]:
        present = await stored.read_of(tx, tenants, stored.SIGNING)
        signing = {row.tenant for row in present if row.retired_at is None or row.retired_at > now_ms}
        wanting = sorted(set(tenants) - signing)
        for tenant in wanting:
            await add(tx, tenant, vault, SigningSecret(ids.new(now_ms, 0), make(), now_ms))
        return wanting

    return await database.write(operation)
