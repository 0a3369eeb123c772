"""Idempotency keys whose requests are being handled in this process."""

from contextlib import AbstractContextManager, nullcontext

from tasktick.errors import Refused
from tasktick.store.names import IdempotencyKey

RETRY_MS = 1_000
_NOTHING = nullcontext()


class InFlight:
    """The keys of requests that are being handled."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    def held(self, key: IdempotencyKey | None) -> AbstractContextManager[None]:
        """Hold a key while its request is handled; one that is held already is refused."""
        return _NOTHING if key is None else _Held(self._keys, (key.tenant, key.name))


class _Held(AbstractContextManager[None]):
    """A key that is held."""

    def __init__(self, keys: set[tuple[str, str]], name: tuple[str, str]) -> None:
        self._keys = keys
        self._name = name

    def __enter__(self) -> None:
        if self._name in self._keys:
            raise Refused(
                "idempotency_in_flight",
                "A request with this Idempotency-Key is still being handled. Send it again in a moment.",
                retry_after_ms=RETRY_MS,
            )
        self._keys.add(self._name)

    def __exit__(self, *error: object) -> None:
        self._keys.discard(self._name)
