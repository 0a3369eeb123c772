"""Who is asking: the key, the tenant, and how often an address may be wrong."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgspec

from tasktick.access import keys
from tasktick.access.keys import Principal
from tasktick.access.roles import Permission, Role, least, may
from tasktick.api.faults import Faults
from tasktick.api.rates import Allowance, Bucket, Rate
from tasktick.clock import Clock
from tasktick.errors import Refused
from tasktick.store import secrets as stored
from tasktick.store.protocol import Reader

TENANT_HEADER = "TaskTick-Tenant"
# A key that is revoked works no longer than this anywhere.
CACHED_MS = 4_000
CACHED_MAX = 4_096
# Wrong keys of one address. Each is forgotten in three seconds.
WRONG_KEYS = Rate(20, 60_000, "wrong-keys")
ADDRESSES_MAX = 10_000
UNUSED = Bucket()

UNKNOWN_KEY = "This API key is unknown, expired or revoked."
TENANT_HELP = "A tenant's name is 1 to 64 characters of a-z 0-9 _ -, with a letter or digit at both ends."
_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?", re.ASCII)


class Failures:
    """How often each address was wrong lately. Bounded: the address that was quiet longest is forgotten first."""

    def __init__(self) -> None:
        self._by_address: OrderedDict[str, Bucket] = OrderedDict()

    def ask(self, address: str, now: float) -> Allowance:
        """Whether this address may be wrong once more, or how long it must wait for that."""
        return self._by_address.get(address, UNUSED).ask(WRONG_KEYS, now)

    def note(self, address: str, now: float) -> Allowance:
        """This address was wrong; what that leaves it."""
        bucket = self._by_address.setdefault(address, Bucket())
        self._by_address.move_to_end(address)
        while len(self._by_address) > ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        return bucket.take(WRONG_KEYS, 1, now)


class Known(msgspec.Struct, frozen=True, gc=False):
    """A key that was right, and when that was checked."""

    principal: Principal
    checked_at: float


class Authenticator:
    """From a request's headers to its principal."""

    def __init__(self, reader: Reader, clock: Clock, used: Callable[[str, int], None]) -> None:
        self._reader = reader
        self._clock = clock
        self._used = used
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._failures = Failures()

    async def principal(self, headers: Mapping[str, str], address: str, told: dict[str, str]) -> Principal:
        """Whoever shows a valid key, or the refusal; what the address may still do is added to `told` then."""
        now = self._clock.monotonic_ms()
        key = _key_of(headers)
        fingerprint = _fingerprint(key)
        known = self._known.get(fingerprint)
        if known is None or now - known.checked_at > CACHED_MS:
            # An address that was wrong too often is not listened to, unless its key was right before.
            if known is None:
                self._hear(address, now, told)
            known = await self._check(key, fingerprint, address, now, told)
        return _acting_for(known.principal, headers.get(TENANT_HEADER))

    def at_hand(self, fingerprint: bytes, permission: Permission | None) -> Principal | None:
        """Whoever has a key that was right a moment ago and may do this, within its own tenant."""
        known = self._known.get(fingerprint)
        if known is None or self._clock.monotonic_ms() - known.checked_at > CACHED_MS:
            return None
        principal = known.principal
        return principal if permission is not None and may(principal.role, permission) else None

    def _hear(self, address: str, now: float, told: dict[str, str]) -> None:
        asked = self._failures.ask(address, now)
        if asked.granted:
            return
        told.update(asked.headers)
        detail = "Too many wrong keys came from this address. Any that is new here waits as long as Retry-After says."
        raise Refused("rate_limited", detail, retry_after_ms=asked.retry_after_ms)

    async def _check(self, key: str, fingerprint: bytes, address: str, now: float, told: dict[str, str]) -> Known:
        principal = await self._look_up(key)
        if principal is None:
            self._known.pop(fingerprint, None)
            told.update(self._failures.note(address, now).headers)
            detail = UNKNOWN_KEY if key else "Send a key: Authorization: Bearer tt_..."
            raise Refused("unauthenticated", detail)
        known = self._known[fingerprint] = Known(principal, now)
        self._known.move_to_end(fingerprint)
        while len(self._known) > CACHED_MAX:
            self._known.popitem(last=False)
        return known

    async def _look_up(self, key: str) -> Principal | None:
        prefix = keys.prefix_of(key)
        if prefix is None:
            return None
        row = await self._reader.read(lambda tx: stored.key_by_prefix(tx, prefix))
        now = self._clock.now_ms()
        if row is None or not keys.matches(key, row.hash) or not row.works_at(now):
            return None
        self._used(row.id, now)
        return Principal(row.tenant, Role(row.role), row.id)


def _key_of(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def fingerprint_of(headers: Mapping[str, str]) -> bytes:
    """What a key is known by; requests without one have one too, which is nobody's."""
    return _fingerprint(_key_of(headers))


def _fingerprint(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="replace")).digest()


def _acting_for(principal: Principal, tenant: str | None) -> Principal:
    """The principal in the tenant that it asks for: any one for an operator, its own for the others."""
    if tenant is None or tenant == principal.tenant:
        return principal
    if not may(principal.role, Permission.OPERATE):
        raise Refused("forbidden", f"Only an operator's key may act for another tenant with {TENANT_HEADER}.")
    faults = Faults()
    check_tenant(faults, TENANT_HEADER, tenant)
    faults.end()
    return msgspec.structs.replace(principal, tenant=tenant)


def check_tenant(faults: Faults, pointer: str, name: str) -> None:
    """Note a fault where this is no tenant's name."""
    if _TENANT.fullmatch(name) is None:
        faults.add(pointer, TENANT_HELP)


def permit(principal: Principal, permission: Permission) -> None:
    """Refuse what the role of this key does not allow."""
    if not may(principal.role, permission):
        raise Refused(
            "forbidden", f"A {principal.role} may not do that; it takes a key with the role {least(permission)}."
        )
