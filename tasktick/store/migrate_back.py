"""The way back: migrations undone, newest first, down to a version that an older program wrote.

What would be lost is counted before anything is done, and refused unless it was said that it may go.
"""

from collections.abc import Iterable

from tasktick.errors import StoreError
from tasktick.store.connect import RawConnection, statements
from tasktick.store.migrate import Applied, Loss, Migration, applied, available, pending


def to_undo(ours: list[Migration], theirs: list[Applied], to: int) -> list[Migration]:
    """What must be undone, newest first; raises if this program does not know how."""
    pending(ours, theirs)
    known = {one.version: one for one in ours}
    wanted = sorted((one.version for one in theirs if one.version > to), reverse=True)
    unknown = [version for version in wanted if version not in known]
    if unknown:
        raise StoreError(
            f"Migration {unknown[0]:04} of this store was made by a later program, which alone knows the way back: "
            "use that one."
        )
    undone = [known[version] for version in wanted]
    for one in undone:
        if one.down is None:
            raise StoreError(f"There is no way back from migration {one.version:04} ({one.name}).")
    return undone


def check_version(ours: list[Migration], to: int) -> None:
    """Raise unless there is such a version."""
    if not 0 <= to <= ours[-1].version:
        raise StoreError(f"There is no version {to}: this program knows 0 (an empty store) to {ours[-1].version}.")


def refuse_losses(found: Iterable[tuple[Loss, int]], to: int) -> None:
    """Raise if anything would be lost."""
    lost = [f"{count} {loss.what}" for loss, count in found if count]
    if lost:
        raise StoreError(
            f"The way back to version {to} would lose {', '.join(lost)}. Nothing was changed. Back the store up, and "
            "say --lose-data if they may go."
        )


def migrate_back(raw: RawConnection, to: int, *, lose_data: bool) -> list[Migration]:
    """Undo what is beyond a version, in one transaction; what was undone."""
    raw.execute("BEGIN IMMEDIATE")
    try:
        undone = to_undo(available(), applied(raw), to)
        if not lose_data:
            losses = [loss for one in undone for loss in one.losses]
            refuse_losses([(loss, raw.execute(loss.query).fetchone()[0]) for loss in losses], to)
        for migration in undone:
            for statement in statements(migration.down or ""):
                raw.execute(statement)
            raw.execute("DELETE FROM schema_history WHERE version = ?", (migration.version,))
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
    return undone
