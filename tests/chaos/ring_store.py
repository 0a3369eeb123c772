"""The PostgreSQL that a ring shares, as the harness has it: its own connections, beside those of the nodes.

The database itself writes down who took which lease from whom and how terms were renewed, with the change and by its
own clock (a schema of its own, `chaos`, filled by triggers). Besides, all leases are looked at a few times a second.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from tests.chaos.history import Connections, HistoryWriter, Lease, Leases, Taken, Term

SAMPLE_EVERY_S = 0.25
TRY_AGAIN_S = 0.1
CONNECT_WITHIN_S = 2.0
APPLICATION = "chaos"
# Every connection is in the server's log, with its second.
SERVER_SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=on",
    "shared_buffers=32MB",
    "max_connections=100",
    "log_connections=on",
    "log_line_prefix=%n %p ",
    "log_min_messages=warning",
    "log_min_error_statement=panic",
    "log_lock_waits=on",
)
ASKED = re.compile(r"^(\d+)\.\d+ (\d+) LOG: +connection received", re.MULTILINE)
OURS = re.compile(rf"^\d+\.\d+ (\d+) LOG: +connection authorized.*application_name={APPLICATION}$", re.MULTILINE)
# Nobody writes to these tables between what is found there and what is written down of it from then on.
AUDIT = """
LOCK TABLE leases, nodes IN SHARE ROW EXCLUSIVE MODE;
CREATE SCHEMA chaos;
CREATE TABLE chaos.taken (
    number bigserial, at bigint, asked bigint, partition_id smallint, epoch bigint, holder text, before text,
    before_epoch bigint, before_expires_at bigint, before_dead_at bigint
);
CREATE TABLE chaos.terms (
    number bigserial, at bigint, incarnation text, name text, expires_at bigint, dead_at bigint, leaving boolean
);
CREATE FUNCTION chaos.ms(at timestamptz) RETURNS bigint LANGUAGE sql
AS 'SELECT (extract(epoch FROM $1) * 1000)::bigint';
CREATE FUNCTION chaos.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.taken (
        at, asked, partition_id, epoch, holder, before, before_epoch, before_expires_at, before_dead_at
    )
    SELECT chaos.ms(clock_timestamp()), chaos.ms(statement_timestamp()), NEW.partition_id, NEW.epoch, NEW.incarnation,
        OLD.incarnation, OLD.epoch, n.expires_at, n.dead_at
    FROM (SELECT 1) AS one LEFT JOIN nodes AS n ON n.incarnation = OLD.incarnation;
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.note_term() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.terms (at, incarnation, name, expires_at, dead_at, leaving)
    VALUES (chaos.ms(clock_timestamp()), NEW.incarnation, NEW.name, NEW.expires_at, NEW.dead_at, NEW.leaving);
    RETURN NULL;
END $$;
INSERT INTO chaos.taken (at, asked, partition_id, epoch, holder, before_epoch)
SELECT chaos.ms(clock_timestamp()), chaos.ms(clock_timestamp()), partition_id, epoch, incarnation, 0 FROM leases
ORDER BY partition_id;
INSERT INTO chaos.terms (at, incarnation, name, expires_at, dead_at, leaving)
SELECT chaos.ms(clock_timestamp()), incarnation, name, expires_at, dead_at, leaving FROM nodes;
CREATE TRIGGER note_lease AFTER UPDATE ON leases FOR EACH ROW
WHEN (NEW.epoch IS DISTINCT FROM OLD.epoch OR NEW.incarnation IS DISTINCT FROM OLD.incarnation)
EXECUTE FUNCTION chaos.note_lease();
CREATE TRIGGER note_term AFTER INSERT OR UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION chaos.note_term();
"""
TAKEN = """
SELECT at, asked, partition_id, epoch, holder, before, before_epoch, before_expires_at, before_dead_at
FROM chaos.taken ORDER BY number
"""
TERMS = "SELECT at, incarnation, name, expires_at, dead_at, leaving FROM chaos.terms ORDER BY number"
LEASES = """
SELECT chaos.ms(clock_timestamp()) AS at,
    (SELECT array_agg(ROW (partition_id, epoch, incarnation) ORDER BY partition_id) FROM leases) AS leases,
    (SELECT array_agg(ROW (incarnation, expires_at)) FROM nodes WHERE dead_at IS NULL) AS terms
"""


class RingStore:
    """A database that is there, by its URL. Whoever started its server ends it."""

    def __init__(self, url: str, history: HistoryWriter) -> None:
        self.url = url
        self._history = history
        self._sampling: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection of the harness."""
        raw = await asyncpg.connect(
            self.url, timeout=CONNECT_WITHIN_S, server_settings={"application_name": APPLICATION}
        )
        try:
            yield raw
        finally:
            await raw.close(timeout=CONNECT_WITHIN_S)

    async def run(self, statements: str) -> None:
        """Run statements; their results are of no interest."""
        async with self.connection() as raw:
            await raw.execute(statements)

    async def audit(self) -> None:
        """Let the database write down what becomes of leases and terms; its tables must be there."""
        await self.run(AUDIT)

    def watch(self) -> None:
        """Look at the leases from now on, whenever the server is there."""
        self._sampling = asyncio.create_task(self._sample(), name="samples")

    async def unwatch(self) -> None:
        """Look no more."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.wait({self._sampling})

    async def _sample(self) -> None:
        while True:
            try:
                async with self.connection() as raw:
                    while True:
                        self._history.add(await look(raw))
                        await asyncio.sleep(SAMPLE_EVERY_S)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(TRY_AGAIN_S)

    async def write_down(self) -> None:
        """What the database has written down, into the history."""
        async with self.connection() as raw:
            for row in await raw.fetch(TAKEN):
                self._history.add(Taken(*row))
            for row in await raw.fetch(TERMS):
                self._history.add(Term(*row))
            self._history.add(await look(raw))


async def look(raw: Any) -> Leases:
    """All leases, and who lives."""
    row = await raw.fetchrow(LEASES)
    return Leases(row["at"], [Lease(*one) for one in row["leases"] or ()], dict(row["terms"] or ()))


def connections_by_second(log: Path) -> Connections:
    """How often nodes have knocked at a server, by its log, which must be written by `SERVER_SETTINGS`."""
    text = log.read_text(errors="replace")
    ours = set(OURS.findall(text))
    return Connections(dict(Counter(int(second) for second, process in ASKED.findall(text) if process not in ours)))
