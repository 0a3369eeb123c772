"""Which store this is, and whether it may be served: not one that has moved, nor one that is still being filled.

A move writes both: first that the target is being filled, last, when the source says that it has moved and both hold
the same, that the target is open. At no instant may both be served.
"""

import shlex
from datetime import UTC, datetime

import msgspec

from tasktick.errors import StoreError, StoreMoved
from tasktick.store.protocol import Transaction


class Whereabouts(msgspec.Struct, frozen=True):
    """The one row. Places are without password."""

    store_id: str
    moved_to: str | None = None
    moved_to_id: str | None = None
    moved_at: int | None = None
    filled_from: str | None = None
    filled_from_id: str | None = None
    filled_by: str | None = None
    filled_upto: str | None = None
    came_from_id: str | None = None


async def read(tx: Transaction) -> Whereabouts:
    """Where this store is."""
    return (await tx.rows("whereabouts_read", Whereabouts))[0]


async def require_home(tx: Transaction, shown: str) -> None:
    """Raise unless this store may be served."""
    found = await read(tx)
    if found.moved_to is not None:
        day = datetime.fromtimestamp((found.moved_at or 0) / 1_000, UTC)
        raise StoreMoved(
            f"The store {shown} has moved to {found.moved_to} ({day:%Y-%m-%d %H:%M} UTC), and is not served here any "
            "more: start with --store for that place. If the move was cut off, go on with "
            f"`{_command(shown, found.moved_to)}`, or give it up with the same and --forget. To come back once it is "
            "done, move the other way with --replace."
        )
    require_whole(found, shown)


def require_whole(found: Whereabouts, shown: str) -> None:
    """Raise if a move has not brought everything yet."""
    if found.filled_from is not None:
        raise StoreMoved(
            f"The store {shown} is being filled from {found.filled_from} and is not whole yet. Go on with "
            f"`{_command(found.filled_from, shown)}`."
        )


def _command(from_: str, to: str) -> str:
    return f"tasktick store move --from {shlex.quote(from_)} --to {shlex.quote(to)}"


async def moved(tx: Transaction, place: str, store_id: str, now: int) -> None:
    """From now on it is elsewhere."""
    await tx.run("whereabouts_moved", moved_to=place, moved_to_id=store_id, now=now)


async def stays(tx: Transaction) -> None:
    """It has not moved after all."""
    await tx.run("whereabouts_stays")


async def fill(tx: Transaction, place: str, store_id: str, run: str) -> None:
    """From now on it is being filled from there."""
    await tx.run("whereabouts_fill", filled_from=place, filled_from_id=store_id, run=run)


async def go_on(tx: Transaction, store_id: str, run: str) -> None:
    """Another run goes on with it."""
    _demand(await tx.run("whereabouts_go_on", filled_from_id=store_id, run=run))


async def reached(tx: Transaction, upto: str, run: str) -> None:
    """It is filled so far."""
    _demand(await tx.run("whereabouts_reached", upto=upto, run=run))


async def opens(tx: Transaction, run: str) -> None:
    """It is whole, and may be served."""
    _demand(await tx.run("whereabouts_open", run=run))


def _demand(changed: int) -> None:
    if not changed:
        raise StoreError("Another `tasktick store move` has taken over this move. Let that one end it.")
