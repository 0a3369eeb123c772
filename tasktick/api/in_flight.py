"""Idempotency keys whose requests are being handled in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasktick.errors import Refused
from tasktick.store.names import IdempotencyKey

RETRY_MS = 1_000


class InFlight:
    """The keys of requests that are being handled."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    @contextmanager
    def held(self, key: IdempotencyKey | None) -> Iterator[None]:
        """Hold a key while its request is handled; one that is held already is refused."""
        if key is None:
            yield
            return
        name = key.tenant, key.name
        if name in self._keys:
            raise Refused(
                "idempotency_in_flight",
                "A request with this Idempotency-Key is still being handled. Send it again in a moment.",
                retry_after_ms=RETRY_MS,
            )
        self._keys.add(name)
        try:
            yield
        finally:
            self._keys.discard(name)
