"""API keys: `tt_<prefix>_<secret><checksum>`. Pure: the random bytes come in.

The prefix is public: it finds the row, and names the key in logs. The secret has 256 random bits, so a plain
SHA-256 of the whole key is all that needs to be kept. The checksum tells a mistyped key from a wrong one
without asking the store.
"""

import hashlib
import re
import zlib
from base64 import b32encode
from hmac import compare_digest

import msgspec

from tasktick.access.roles import Role

KEY_START = "tt"
PREFIX_BYTES = 5
SECRET_BYTES = 32
RANDOM_BYTES = PREFIX_BYTES + SECRET_BYTES
KEY_CHARS_MAX = 128

_SHAPE = re.compile(r"tt_([a-z2-7]{8})_([a-z2-7]{52})([0-9a-f]{8})")


class Principal(msgspec.Struct, frozen=True):
    """Whoever sent a request: the tenant it acts for, what it may do, and under which key."""

    tenant: str
    role: Role
    key_id: str


def make(random_bytes: bytes) -> str:
    """A new key from bytes that nobody can guess."""
    if len(random_bytes) != RANDOM_BYTES:
        raise ValueError(f"a key is made of {RANDOM_BYTES} random bytes, not {len(random_bytes)}")
    prefix = _base32(random_bytes[:PREFIX_BYTES])
    body = f"{KEY_START}_{prefix}_{_base32(random_bytes[PREFIX_BYTES:])}"
    return body + _checksum(body)


def prefix_of(key: str) -> str | None:
    """The public part of a key; None if this is no key at all, or was mistyped."""
    if len(key) > KEY_CHARS_MAX:
        return None
    match = _SHAPE.fullmatch(key)
    if match is None or not compare_digest(_checksum(key[:-8]), match[3]):
        return None
    return match[1]


def digest(key: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def matches(key: str, stored_digest: str) -> bool:
    """Whether this is the key of which that is the digest."""
    return compare_digest(digest(key), stored_digest)


def _base32(raw: bytes) -> str:
    return b32encode(raw).decode().rstrip("=").lower()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
