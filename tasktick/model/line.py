"""A line: fires that may not be under way together, those of one schedule or of all that share an overlap key.

Who has been let run stands in it until it has ended, at work or waiting for its turn; in the order in which they are
due. A decision about a further fire rests on who stands there, and holds only if they still do.
"""

import msgspec

KEY_PREFIX = "key:"
BACKFILL_PREFIX = "backfill:"


class LineFire(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A fire in a line."""

    task_id: str
    line: str
    tenant: str
    schedule_id: str
    due_at: int
    waits: bool
    """Whether it waits for its turn; who does not is in the way of those who do."""

    def order(self) -> tuple[int, str, str]:
        """Its place among others."""
        return self.due_at, self.task_id, self.line


def backfill_line(schedule_id: str) -> str:
    """The line of what is filled in of a schedule, one after the other.

    No decision about its times rests on who stands there, so a row of it names its own task in place of the schedule.
    """
    return f"{BACKFILL_PREFIX}{schedule_id}"


def name_of(schedule_id: str, overlap: str, overlap_key: str | None) -> str | None:
    """The line that fires of a schedule stand in; None if each looks at the one before it alone."""
    if overlap_key is not None:
        return f"{KEY_PREFIX}{overlap_key}"
    return schedule_id if overlap in ("buffer_all", "cancel_other") else None
