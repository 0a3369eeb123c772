"""Every error of TaskTick: a small tree, each with a stable code and a sentence that says what to do.

The API turns `Refused` into a problem document, the command line prints it; whatever else reaches
an edge is a bug and becomes `internal`.
"""


class TaskTickError(Exception):
    """The root. `code` is stable: clients and logs may match on it."""

    code = "internal"


class ConfigError(TaskTickError):
    """A setting is unknown, malformed or out of range; the message names its path."""

    code = "config_invalid"


class IllegalTransition(TaskTickError):
    """A task in this state cannot do that. Nothing has changed."""

    code = "state_conflict"


class StoreError(TaskTickError):
    """The store cannot do what was asked."""

    code = "store_unavailable"


class StoreUnavailable(StoreError):
    """The store cannot be reached, or has no room, for now. Nothing was written; it recovers by itself."""

    code = "store_unavailable"


class StoreLocked(StoreError):
    """Another process has the store open: `holder`."""

    code = "store_locked"

    def __init__(self, text: str, *, holder: str) -> None:
        super().__init__(text)
        self.holder = holder


class StoreMoved(StoreError):
    """The store is elsewhere now, or not all of it is here yet."""

    code = "store_moved"


class StoreTooNew(StoreError):
    """The store was written by a later program in a way that this one cannot read."""

    code = "store_too_new"


class StoreCorrupt(StoreError):
    """The store does not hold what it must: a migration changed, a page is torn, a row is missing."""

    code = "store_corrupt"


class StoreFull(StoreUnavailable):
    """The disk has no room. Writes are refused, reads go on, and it recovers when room returns."""

    code = "store_full"


class StoreBroken(StoreError):
    """A commit's fate is unknown. The process must stop: only a restart can tell what is on disk."""

    code = "store_broken"


class ServiceCrashed(TaskTickError):
    """A service ended with an error, so the process stops; the cause is chained."""

    code = "service_crashed"


class Refused(TaskTickError):
    """A request that is understood and not done: what the client reads as a problem document.

    `code` is one of the codes of the HTTP contract, `errors` pairs of (JSON pointer, detail).
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: list[tuple[str, str]] | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.retry_after_ms = retry_after_ms


def not_found(what: str, name: str) -> Refused:
    """Another tenant's id, a removed one and one that never was are told apart by nobody."""
    return Refused("not_found", f"There is no {what} {name!r} here.")
