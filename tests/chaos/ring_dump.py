"""Reads the end of a run of a ring: every table by SQL, by nobody's code but PostgreSQL's."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tests.chaos import told
from tests.chaos.dump import STATES, task_line, wire
from tests.chaos.history import AttemptLine, Books, DeadLetterLine, SqlDump, now_ms
from tests.chaos.ledger_dump import book_of, entry_of, fire_of
from tests.chaos.ledger_story import Edition, Entry, Fire

# What has finished is in history after ten minutes.
TASKS = """
    SELECT hex_of(t.id), d.name, t.state, t.attempt, t.max_attempts, t.series, t.fence, t.run_at, t.wake_at,
        t.lease_until, t.reason, p.payload, d.schedule_id
    FROM all_tasks AS t
    LEFT JOIN all_details AS d ON d.id = t.id
    LEFT JOIN all_payloads AS p ON p.task_id = coalesce(t.template_id, t.id) AND p.version = t.payload_version
    ORDER BY t.id
"""
ATTEMPTS = """
    SELECT hex_of(task_id), attempt, series, fence, state, status, picked_at, completed_at, epoch FROM all_attempts
    ORDER BY task_id, attempt
"""
# Rows that hang on no task; what a schedule sends hangs on the schedule.
STRAYS = """
    SELECT 'task_details ' || id FROM task_details AS o WHERE NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = o.id)
    UNION ALL SELECT 'payloads ' || task_id FROM payloads AS o
        WHERE template = 0 AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = o.task_id)
    UNION ALL SELECT 'attempts ' || task_id FROM attempts AS o
        WHERE NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = o.task_id)
    UNION ALL SELECT 'dead_letters ' || task_id FROM dead_letters AS o
        WHERE NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = o.task_id)
"""
# The one fire that is made ahead never comes while its schedule pauses.
UNFINISHED = """
    SELECT count(*) FROM tasks AS t LEFT JOIN task_details AS d ON d.id = t.id
    WHERE t.state < 10 AND NOT (d.schedule_id IS NOT NULL AND t.state IN (2, 6) AND t.attempt = 0)
"""
# What nobody has read has no number yet: it comes behind all that has one.
EVENTS = """
    SELECT sequence, items FROM events
    UNION ALL
    SELECT h.sequence + row_number() OVER (ORDER BY i.number), i.items FROM event_inbox AS i CROSS JOIN event_head AS h
    ORDER BY 1
"""
SCHEDULES = "SELECT hex_of(id), version, hex_of(next_id), fired, skipped, missed, failed FROM schedules ORDER BY id"
ENTRIES = """
    SELECT hex_of(schedule_id), nominal_at, outcome, reason, hex_of(task_id), schedule_version, decided_at, local_ms,
        collapsed, missed, until_at, times, was, failed
    FROM fires ORDER BY schedule_id, nominal_at
"""
FIRES = """
    SELECT d.schedule_id, hex_of(t.id), t.run_at, t.state, t.attempt, t.picked_at, t.completed_at,
        (SELECT min(a.picked_at) FROM all_attempts AS a WHERE a.task_id = t.id)
    FROM all_tasks AS t JOIN all_details AS d ON d.id = t.id WHERE d.schedule_id IS NOT NULL ORDER BY t.id
"""
SHARERS = """
    SELECT CASE WHEN count(*) = count(n.incarnation) THEN count(DISTINCT l.incarnation) ELSE 0 END
    FROM leases AS l
    LEFT JOIN nodes AS n ON n.incarnation = l.incarnation AND n.dead_at IS NULL
        AND n.expires_at > extract(epoch FROM clock_timestamp()) * 1000
"""


async def unfinished(raw: Any) -> int:
    """How many tasks are still to come."""
    return int(await raw.fetchval(UNFINISHED))


async def tables(raw: Any) -> SqlDump:
    """Every table, and what the tables themselves say of their soundness."""
    async with raw.transaction(isolation="repeatable_read", readonly=True):
        rows = await raw.fetch(TASKS)
        troubles = [f"a stray row: {row[0]}" for row in await raw.fetch(STRAYS)]
        there = {row[0]: row[2] for row in rows}
        troubles += [f"a wrong event: {one}" for one in told.differences(await raw.fetch(EVENTS), there)]
        return SqlDump(
            at=now_ms(),
            tasks=[task_line(row[:-1], row[-1]) for row in rows],
            attempts=[AttemptLine(wire(row[0]), *row[1:]) for row in await raw.fetch(ATTEMPTS)],
            dead_letters=[
                DeadLetterLine(wire(row[0]), row[1], row[2])
                for row in await raw.fetch("SELECT hex_of(task_id), reason, resolution FROM dead_letters")
            ],
            counts={
                STATES[state]: int(number)
                for state, number in await raw.fetch("SELECT state, sum(tasks) FROM state_counts GROUP BY 1")
            },
            integrity=troubles,
        )


async def books(raw: Any, editions: Mapping[str, list[Edition]]) -> Books:
    """Every schedule that was asked for, as the store has it."""
    async with raw.transaction(isolation="repeatable_read", readonly=True):
        entries: dict[str, list[Entry]] = defaultdict(list)
        for row in await raw.fetch(ENTRIES):
            entries[row[0]].append(entry_of(*row[1:]))
        fires: dict[str, list[Fire]] = defaultdict(list)
        for row in await raw.fetch(FIRES):
            fires[row[0]].append(fire_of(*row[1:]))
        rows = {row[0]: tuple(row[1:]) for row in await raw.fetch(SCHEDULES)}
    found = [book_of(name, asked, entries[name], fires[name], rows.get(name)) for name, asked in editions.items()]
    return Books(now_ms(), found)


async def sharers(raw: Any) -> int:
    """How many have a share; none, as long as some partition is nobody's or somebody's whose term is over."""
    return int(await raw.fetchval(SHARERS))
