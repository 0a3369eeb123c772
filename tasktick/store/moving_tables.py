"""What a move carries: every table, by the key in whose order it is walked, and the statements for it.

A statement here is put together from names, unlike everywhere else: it is the same for every table, and the columns
are read from the database itself, so that no column and no table is forgotten (a test compares with the schema).
Nothing that a user has said becomes part of a statement.

A row is a tuple of its logical values, equal in both dialects: an id is 32 hex characters, a flag is 0 or 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tasktick.model.partition import ALL_PARTITIONS

Row = tuple[Any, ...]

PARTITION = "partition_id"


class Table(msgspec.Struct, frozen=True):
    """A logical table."""

    name: str
    keys: tuple[str, ...]
    of: str = ""
    """The id that carries the partition, for which PostgreSQL has a column."""
    by_partition: bool = False
    """Whether the keys lead with the partition there."""
    wide: bool = False
    """Whether a row may be large, so that a number of rows says little of their size."""
    only: tuple[str, ...] = ()
    """What of it is carried, where not all of it is."""
    added: Mapping[str, int] = {}
    """Columns that PostgreSQL alone has, and what they are for a row that was carried there."""
    summed: str = ""
    """PostgreSQL has several rows for one: their sum is what counts."""
    preset: bool = False
    """Whether an empty store has its rows already."""


# In the order in which they are carried. What is not in here is in NOT_CARRIED.
TABLES = (
    Table("tenants", ("name",)),
    Table("keys", ("id",)),
    Table("secrets", ("id",)),
    Table("drained_nodes", ("name",)),
    Table("nodes", ("incarnation",)),
    # Who owned a partition owns it no more; its epoch goes on.
    Table("leases", (PARTITION,), only=(PARTITION, "epoch"), preset=True),
    Table("calendars", ("tenant", "name"), wide=True),
    Table("schedules", ("id",), of="id", by_partition=True, wide=True),
    Table("tasks", ("id",), of="id"),
    Table("task_details", ("tenant", "id"), of="id", wide=True),
    Table("payloads", ("task_id", "version"), of="task_id", wide=True),
    Table("attempts", ("task_id", "attempt"), of="task_id", wide=True),
    Table("dead_letters", ("id",), of="id", by_partition=True),
    Table("fires", ("schedule_id", "nominal_at"), of="schedule_id", by_partition=True),
    Table("checks", ("id",), wide=True),
    Table("pings", ("check_id", "number"), wide=True),
    Table("check_watch", ("only_one",), preset=True),
    Table("line_fires", ("task_id", "line"), of="task_id", by_partition=True),
    Table("names", ("tenant", "kind", "name"), wide=True),
    Table("counts", ("tenant", "state"), added={"slot": 0}, summed="tasks"),
    Table("events", ("sequence",), wide=True),
)
NOT_CARRIED = {
    "schema_history": "each store tells its own",
    "schema_steps": "each store tells its own",
    "whereabouts": "it is about this very store",
    "marks": "of connections that are gone",
    "singletons": "what nodes hold that are gone",
    "event_head": "it follows from the last event",
    "event_inbox": "numbered when the store is left",
    "history": "what has gone is not read",
    "history_days": "made as they are needed",
    "history_counts": "of rows that finish there",
}


class Finished(msgspec.Struct, frozen=True):
    """Where else rows of a table live once their task has finished, and what its columns are called there."""

    name: str
    called: Mapping[str, str] = {}
    where: str = "true"
    by_partition: bool = True
    """Whether the index by which it is walked leads with the partition."""


# On PostgreSQL the daemon moves what has finished into tables by the day; on SQLite it stays. A move reads both places
# as one, and carries all into the table itself: the daemon moves it on.
FINISHED = {
    "tasks": Finished("finished_tasks"),
    "task_details": Finished(
        "finished_tasks", {"payload": "CASE WHEN payload_version = 1 THEN payload END"}, by_partition=False
    ),
    "payloads": Finished(
        "finished_tasks",
        {"task_id": "id", "version": "payload_version", "template": "0::smallint"},
        "payload IS NOT NULL AND payload_version <> 1",
    ),
    "attempts": Finished("finished_attempts"),
}
# What has ended before this is gone, though its rows may still be there.
_NOT_GONE = "ended_at >= (SELECT gone_before FROM history)"
# What is emptied of a PostgreSQL beside the tables themselves.
EMPTIED = ("finished_tasks", "finished_attempts", "history_counts", "event_inbox")


class Statements(msgspec.Struct, frozen=True):
    """The statements for a table. Ranges are (after, upto]; their bounds come first among the parameters."""

    count: str
    keys_after: str
    """The keys from there on, with the size of their rows; the last parameters are how many, and of each partition, of
    what is `walked`."""
    after: str
    """The rows beyond a bound, in order; the last parameter is how many."""
    between: str
    remove_after: str
    remove_between: str
    insert: str


def sqlite_statements(table: Table, columns: Sequence[str]) -> Statements:
    """For a SQLite file."""
    keys = ", ".join(table.keys)
    marks = ", ".join("?" * len(table.keys))
    listed, values = ", ".join(columns), ", ".join("?" * len(columns))
    after, between = f"({keys}) > ({marks})", f"({keys}) > ({marks}) AND ({keys}) <= ({marks})"
    from_ = f"SELECT {listed} FROM {table.name} WHERE"
    remove = f"DELETE FROM {table.name} WHERE"
    return Statements(
        count=f"SELECT count(*) FROM {table.name}",
        keys_after="",
        after=f"{from_} {after} ORDER BY {keys} LIMIT ?",
        between=f"{from_} {between} ORDER BY {keys} LIMIT ?",
        remove_after=f"{remove} {after}",
        remove_between=f"{remove} {between}",
        insert=f"INSERT INTO {table.name} ({listed}) VALUES ({values})",
    )


def walked(table: Table) -> bool:
    """Whether something of it lies by partition on a PostgreSQL, and is walked in all of them at once."""
    also = FINISHED.get(table.name)
    return table.by_partition or (also is not None and also.by_partition)


def postgres_statements(table: Table, columns: Sequence[str], types: Mapping[str, str]) -> Statements:
    """For a PostgreSQL: always by index."""
    keys, count = ", ".join(table.keys), len(table.keys)
    casts = [_cast(types[key]) for key in table.keys]
    low = ", ".join(f"${n}{cast}" for n, cast in enumerate(casts, 1))
    high = ", ".join(f"${n}{cast}" for n, cast in enumerate(casts, count + 1))
    after, between = f"({keys}) > ({low})", f"({keys}) > ({low}) AND ({keys}) <= ({high})"
    listed = ", ".join(_logical(column, types[column]) for column in columns)
    keyed = ", ".join(_logical(key, types[key]) for key in table.keys)
    texts = [column for column in columns if types[column] == "text"]
    size = " + ".join(f"coalesce(octet_length({one}), 0)" for one in texts) if table.wide and texts else "0"
    some, some_of_each = (f"ORDER BY {keys} LIMIT ${count + n}" for n in (1, 2))

    def select(what: str, where: str, last: int, some: str = "", some_of_each: str = "") -> str:
        return f"SELECT {what} FROM {_source(table, columns, where, some, some_of_each)} ORDER BY {keys} LIMIT ${last}"

    def remove(where: str) -> str:
        every = f"{PARTITION} = ANY(ARRAY(SELECT generate_series(0, {_LAST})::smallint)) AND "
        return f"DELETE FROM {table.name} WHERE {every if table.by_partition else ''}{where}"

    return Statements(
        count=f"SELECT count(*) FROM {_source(table, columns, 'true')}",
        keys_after=select(f"{keyed}, {size} AS size", after, count + 1, some, some_of_each),
        after=select(listed, after, count + 1),
        between=select(listed, between, 2 * count + 1),
        remove_after=remove(after),
        remove_between=remove(between),
        insert="",
    )


_LAST = len(ALL_PARTITIONS) - 1


def _source(table: Table, columns: Sequence[str], where: str, some: str = "", some_of_each: str = "") -> str:
    """The rows of all parts: of those in one stretch `some`, and of what lies by partition some of each."""
    if table.summed:
        group = ", ".join(table.keys)
        summed = f"SELECT {group}, sum({table.summed})::bigint AS {table.summed} FROM {table.name} GROUP BY {group}"
        return f"(SELECT * FROM ({summed}) AS summed WHERE {where} {some}) AS found"
    listed = ", ".join(columns)

    def part(whole: str, *, by_partition: bool) -> str:
        if not by_partition:
            return f"(SELECT {listed} FROM {whole} AS part WHERE {where} {some})"
        one = f"{PARTITION} = partitions.number::smallint"
        each = f"SELECT {listed} FROM {whole} AS part WHERE {one} AND {where} {some_of_each}"
        every = f"generate_series(0, {_LAST}) AS partitions (number)"
        return f"(SELECT found.* FROM {every} CROSS JOIN LATERAL ({each}) AS found)"

    parts = [part(table.name, by_partition=table.by_partition)]
    if (also := FINISHED.get(table.name)) is not None:
        called = ", ".join(f"{also.called.get(column, column)} AS {column}" for column in columns)
        rows = f"SELECT {PARTITION}, {called} FROM {also.name} WHERE {also.where} AND {_NOT_GONE}"
        parts.append(part(f"({rows})", by_partition=also.by_partition))
    return f"({' UNION ALL '.join(parts)}) AS found"


def _cast(kind: str) -> str:
    return {"uuid": "::text::uuid", "text": "::text"}.get(kind, "::bigint")


def _logical(column: str, kind: str) -> str:
    match kind:
        case "uuid":
            return f"hex_of({column})"
        case "boolean":
            return f"{column}::integer"
        case _:
            return column


def lowest(table: Table, types: Mapping[str, str]) -> Row:
    """A key before all others."""
    return tuple(_LOWEST_ID if types[key] == "uuid" else "" if _is_text(types[key]) else _LOWEST for key in table.keys)


_LOWEST_ID = "0" * 32
_LOWEST = -(1 << 62)


def _is_text(kind: str) -> bool:
    return kind.lower() == "text"
