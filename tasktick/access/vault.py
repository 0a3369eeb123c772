"""Seals what must be kept secret and read again: AES-256-GCM, under a key that lies beside the database.

A sealed text is `v1.<key id>.<nonce and ciphertext>`. The context (whose it is, and what for) is
authenticated with it, so that a sealed text moved elsewhere does not open there.
"""

import hashlib
import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tasktick.access import secret_files
from tasktick.errors import ConfigError, TaskTickError

FILE_NAME = "vault.key"
KEY_START = "ttvault_"
KEY_BYTES = 32
NONCE_BYTES = 12
KEY_ID_CHARS = 8
VERSION = "v1"

MASK = "***"
# Of a secret shorter than this, even four characters say too much.
MASK_WHOLE_CHARS = 12
MASK_SHOWN_CHARS = 4


class SealBroken(TaskTickError):
    """A sealed text does not open: another key, another context, or a changed text."""

    code = "seal_broken"


class Vault:
    """Seals and opens under one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a vault's key has {KEY_BYTES} bytes, not {len(key)}")
        self._cipher = AESGCM(key)
        self._derived = hmac.new(key, b"tasktick derived keys", hashlib.sha256).digest()
        self.key_id = hashlib.sha256(b"tasktick vault key id" + key).hexdigest()[:KEY_ID_CHARS]

    def seal(self, plaintext: str, context: str) -> str:
        """Encrypt a text for this context."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, plaintext.encode(), context.encode())
        return f"{VERSION}.{self.key_id}.{urlsafe_b64encode(nonce + sealed).decode().rstrip('=')}"

    def open(self, sealed: str, context: str) -> str:
        """The text that was sealed for this context, or `SealBroken`."""
        version, _, rest = sealed.partition(".")
        key_id, _, body = rest.partition(".")
        if version != VERSION:
            raise SealBroken("A sealed text is of a version that this program does not know.")
        if key_id != self.key_id:
            raise SealBroken(
                f"A text was sealed under the key {key_id}, but {FILE_NAME} holds {self.key_id}. Put the old file back."
            )
        try:
            raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
            return self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], context.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise SealBroken("A sealed text does not open: it was changed, or belongs elsewhere.") from error

    def derive(self, purpose: str) -> bytes:
        """A key for this purpose: the same for whoever has the same file, and saying nothing of what it holds."""
        return hmac.digest(self._derived, purpose.encode(), hashlib.sha256)

    def open_masked(self, sealed: str, context: str) -> str:
        """A sealed text as it may be shown."""
        try:
            return masked(self.open(sealed, context))
        except SealBroken:
            return MASK


def key_id_of(sealed: str) -> str:
    """The key under which a text was sealed."""
    return sealed.split(".")[1]


def masked(secret: str) -> str:
    """A secret as it may be shown: `***` and, if it is long enough, its last four characters."""
    return MASK + (secret[-MASK_SHOWN_CHARS:] if len(secret) >= MASK_WHOLE_CHARS else "")


def is_masked(value: str) -> bool:
    """Whether this is what we show in place of a secret, sent back to us."""
    return value.startswith(MASK)


def header_context(tenant: str, name: str) -> str:
    """The context of a sensitive header of a tenant's target."""
    return f"header:{tenant}:{name.lower()}"


def signing_context(tenant: str, secret_id: str) -> str:
    """The context of a signing secret."""
    return f"signing:{tenant}:{secret_id}"


def open_headers(vault: Vault, tenant: str, sealed: Mapping[str, str]) -> dict[str, str]:
    """A target's sensitive headers, as they are sent."""
    return {name: vault.open(text, header_context(tenant, name)) for name, text in sealed.items()}


def load_or_make(path: Path, *, may_make: bool = True) -> Vault:
    """The vault whose key the file holds; it is made where there is none, unless something is sealed already."""
    text = secret_files.read(path)
    if text is None and not may_make:
        raise ConfigError(f"{path} is not there, and the store has secrets that only it opens. Put it back.")
    if text is None:
        key = secrets.token_bytes(KEY_BYTES)
        secret_files.create(path, KEY_START + key.hex())
        return Vault(key)
    return parse(text, str(path))


def parse(text: str, where: str) -> Vault:
    """A vault from the text of its key, as a file or a credential gives it."""
    try:
        key = bytes.fromhex(text.removeprefix(KEY_START)) if text.startswith(KEY_START) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{where} is no vault key: it should be {KEY_START} and {2 * KEY_BYTES} hexadecimal digits.")
    return Vault(key)
