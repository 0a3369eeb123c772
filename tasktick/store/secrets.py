"""Signing secrets (sealed before they come here) and API keys (hashed before they come here)."""

from collections.abc import Collection

from tasktick.store.protocol import Transaction, only
from tasktick.store.rows import KeyRow, SecretRow

SIGNING = "signing"


async def add(tx: Transaction, secret: SecretRow) -> None:
    """Keep a sealed secret."""
    await tx.run(
        "secret_insert",
        id=secret.id,
        tenant=secret.tenant,
        kind=secret.kind,
        sealed=secret.sealed,
        now=secret.created_at,
    )


async def add_once(tx: Transaction, secret: SecretRow) -> int:
    """Keep a sealed secret, unless there is one of this id; 0 then."""
    return await tx.run(
        "secret_insert_once",
        id=secret.id,
        tenant=secret.tenant,
        kind=secret.kind,
        sealed=secret.sealed,
        now=secret.created_at,
    )


async def read(tx: Transaction, tenant: str | None = None, kind: str | None = None) -> list[SecretRow]:
    """Secrets, newest first."""
    return await tx.rows("secrets_read", SecretRow, tenant=tenant, kind=kind)


async def read_of(tx: Transaction, tenants: Collection[str], kind: str) -> list[SecretRow]:
    """Secrets of these tenants, newest first."""
    return await tx.rows("secrets_of", SecretRow, tenants=sorted(tenants), kind=kind)


async def retire(tx: Transaction, tenant: str, ids: list[str], now: int) -> int:
    """Let these secrets sign no more; how many did until now."""
    return await tx.run("secrets_retire", tenant=tenant, ids=ids, now=now)


async def retire_at(tx: Transaction, tenant: str, ids: list[str], at: int) -> int:
    """Let these secrets sign until then at most; for how many that is new."""
    return await tx.run("secrets_retire_at", tenant=tenant, ids=ids, at=at)


async def forget_retired(tx: Transaction, tenant: str, kind: str, now: int, kept: int) -> int:
    """Remove secrets that are used no more, but for the newest; how many."""
    return await tx.run("secrets_forget", tenant=tenant, kind=kind, now=now, kept=kept)


async def add_key(tx: Transaction, key: KeyRow) -> int:
    """Keep an API key's hash; 0 if it is there."""
    return await tx.run(
        "key_insert",
        id=key.id,
        prefix=key.prefix,
        hash=key.hash,
        tenant=key.tenant,
        role=key.role,
        name=key.name,
        now=key.created_at,
        expires_at=key.expires_at,
    )


async def keys(tx: Transaction) -> list[KeyRow]:
    """Every API key."""
    return await tx.rows("keys_read", KeyRow, prefix=None)


async def key_by_prefix(tx: Transaction, prefix: str) -> KeyRow | None:
    """The key that starts so."""
    return only(await tx.rows("keys_read", KeyRow, prefix=prefix))


async def keys_page(
    tx: Transaction, tenant: str | None, roles: list[str], *, revoked: bool, beyond: str | None, limit: int
) -> list[KeyRow]:
    """Keys of a tenant, or of all, with one of these roles; newest first."""
    return await tx.rows(
        "keys_page", KeyRow, tenant=tenant, roles=roles, revoked=int(revoked), beyond=beyond, limit=limit
    )


async def key_by_id(tx: Transaction, tenant: str | None, key_id: str) -> KeyRow | None:
    """The key with this id, of a tenant or of all."""
    return only(await tx.rows("keys_by_id", KeyRow, tenant=tenant, id=key_id))


async def count_keys(tx: Transaction, now: int, *, tenant: str | None = None, role: str | None = None) -> int:
    """How many keys work now."""
    return (await tx.rows("keys_count", int, tenant=tenant, role=role, now=now))[0]


async def revoke_key(tx: Transaction, key_id: str, now: int) -> int:
    """Let a key open nothing any more; 0 if it did not before."""
    return await tx.run("key_revoke", id=key_id, now=now)


async def revoke_keys_of(tx: Transaction, tenant: str, now: int) -> int:
    """Let no key of this tenant open anything any more; how many did."""
    return await tx.run("keys_revoke_of", tenant=tenant, now=now)


async def note_use(tx: Transaction, used: list[tuple[str, int]]) -> int:
    """Note when keys (id, time) were used; what is known to be later stays."""
    return await tx.run("keys_used", rows=used)
