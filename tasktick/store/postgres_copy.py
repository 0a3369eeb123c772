"""Many new rows by COPY, where that is quicker than one JSON parameter.

It is from some hundreds of rows on (`python -m bench.run postgres-import`): below that, its three messages for each
table cost more than the server saves by not reading JSON. The statement that it stands for says what it does.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from tasktick.store.connect import PostgresConnection

ROWS_LEAST = 200
_UUIDS = frozenset({"id", "task_id", "template_id", "after_id"})


class Copy(msgspec.Struct, frozen=True):
    """Where rows go: the table, the column whose id names the partition, and the columns that are given."""

    table: str
    key: str
    columns: tuple[str, ...]

    def record(self, row: dict[str, Any]) -> tuple[Any, ...]:
        """A row as COPY takes it; its partition is read off its id."""
        return int(row[self.key][-2:], 16), *(_value(name, row[name]) for name in self.columns)


COPIES = {
    "task_insert": Copy(
        "tasks",
        "id",
        (
            *("id", "tenant", "state", "queue", "host", "priority", "run_at", "due_at", "wake_at", "max_attempts"),
            *("timeout_ms", "updated_at", "at_most_once", "keyed", "expires_at", "completed_at", "reason"),
            *("payload_version", "template_id", "decide_by", "after_id", "late_at"),
        ),
    ),
    "task_detail_insert": Copy(
        "task_details",
        "id",
        (
            *("id", "tenant", "created_at", "key", "name", "type", "tags", "sla_ms", "expires_in_ms", "schedule_id"),
            *("workflow_id", "step"),
        ),
    ),
    "payload_insert": Copy("payloads", "task_id", ("task_id", "version", "payload")),
}


def _value(name: str, value: Any) -> Any:
    return UUID(value) if name in _UUIDS and value is not None else value


def copy_of(query: str, parameters: dict[str, Any]) -> Copy | None:
    """How the rows of this statement are copied; None if it is to be run as it is."""
    found = COPIES.get(query)
    return found if found is not None and len(parameters["rows"]) >= ROWS_LEAST else None


async def copy_in(raw: PostgresConnection, copy: Copy, rows: Sequence[dict[str, Any]]) -> int:
    """Copy rows in; how many."""
    records = [copy.record(row) for row in rows]
    status = await raw.copy_records_to_table(copy.table, records=records, columns=["partition_id", *copy.columns])
    return int(status.rpartition(" ")[2])
