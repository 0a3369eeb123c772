"""Signing secrets (sealed before they come here) and API keys (hashed before they come here)."""

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


async def read(tx: Transaction, tenant: str | None = None, kind: str | None = None) -> list[SecretRow]:
    """Secrets, newest first."""
    return await tx.rows("secrets_read", SecretRow, tenant=tenant, kind=kind)


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
