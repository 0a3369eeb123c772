"""Connections to a PostgreSQL that come back when they were lost, and a bounded number of them to read on.

One that cannot be made is not tried again at once, by nobody: all wait, a little longer each time and none as long as
another, so that a server that comes back is not run over.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec

from tasktick import logs
from tasktick.clock import Clock
from tasktick.errors import ConfigError, StoreUnavailable
from tasktick.store.connect import PostgresConnection, connect_postgres
from tasktick.store.postgres import (
    SESSION_LIMITS,
    PostgresTransaction,
    begin_term,
    known,
    read_with,
    write_unmarked,
)
from tasktick.store.protocol import Aborted, Batch, Lane, Operation

T = TypeVar("T")
log = logs.get("store")

CONNECT_TIMEOUT_MS = 5_000
# Beyond what a statement may take by the server's own clock: then nobody is there to tell us.
COMMAND_TIMEOUT_MS = 7_000
AT_ONCE_MAX = 2
REST_LEAST_MS = 50
REST_MOST_MS = 2_000
READER_WAIT_MS = 5_000
READ_TRIES = 2
# A host of a URL, with its port.
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[^:\[\]]*)(:[0-9]+)?", re.ASCII)
# What a URL may show beside its user: nothing that could be a secret, whatever it is called.
SHOWN_OPTIONS = frozenset({"host", "port", "user", "dbname", "database", "search_path", "service"}) | {
    *("target_session_attrs", "sslmode", "sslrootcert", "sslcert", "sslkey")
}
PORTS = re.compile(r"([0-9]+(,[0-9]+)*)?", re.ASCII)


class PostgresAddress(msgspec.Struct, frozen=True):
    """How a database is reached. The URL may hold its password: it is not shown."""

    url: str
    application: str
    keep_statements: bool = True
    silence_ms: int = 6_000
    """After so long without a sign of life a connection is taken for dead, by the kernel."""

    @property
    def shown(self) -> str:
        """The address without its secrets."""
        return shown(self.url)

    @property
    def name(self) -> str:
        """Which database it is."""
        return place_without_user(self.url)


async def connect_patiently(address: PostgresAddress) -> PostgresConnection:
    """A connection without limits of time, for what a person has asked for."""
    raw, _ = await dial(address, servers_of(address.url), command_timeout_ms=None)
    return raw


def check_url(url: str) -> None:
    """Refuse a URL that does not fall apart as whoever wrote it meant, and show nothing of it: any part of it may be a
    part of its password."""
    try:
        parts = urlsplit(url)
        _, at, place = parts.netloc.rpartition("@")
        is_meant = all(HOST.fullmatch(host) for host in place.split(",")) and not parts.fragment
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        is_meant = is_meant and all(PORTS.fullmatch(value) for name, value in options if name == "port")
    except ValueError:
        is_meant = False
    else:
        # Of several @ the driver takes the first, and urlsplit the last.
        is_meant = is_meant and parts.netloc.count("@") <= 1 and "@" not in parts.path
        # Without one, it may be the end of a password that began before the query.
        is_meant = is_meant and (bool(at) or all("@" not in value or name == "user" for name, value in options))
    if not is_meant:
        raise ConfigError(
            "store.url: this is no URL of a PostgreSQL, such as postgresql://user:password@host:5432/database. Its "
            "port is a number. In a user's name or a password, write / as %2F, ? as %3F, # as %23, @ as %40, [ as %5B, "
            "] as %5D and % as %25."
        )


def shown(url: str) -> str:
    """A URL of a PostgreSQL as it may be read by others and pasted by them: without password and unknown options."""
    parts = urlsplit(url)
    account, at, place = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    options = "&".join(one for one in parts.query.split("&") if one.partition("=")[0] in SHOWN_OPTIONS)
    return f"postgresql://{user}{at if user else ''}{place}{parts.path}{'?' if options else ''}{options}"


def place_without_user(url: str) -> str:
    """What names a database, whoever reaches it and however: it tells one from another for years."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if not place:
        hosts = [option.removeprefix("host=") for option in parts.query.split("&") if option.startswith("host=")]
        place = unquote(hosts[0]) if hosts else ""
    return f"postgresql://{place}{parts.path}"


def servers_of(url: str) -> list[str]:
    """A URL for each server that one names, so that one of them which is dead takes no time of the others.

    Of several one alone takes writes, and which one changes: that is the one to connect to, unless the URL says else.
    """
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    hosts = place.split(",")
    ports: list[str] = []
    if not place and "," in options.get("host", ""):
        hosts, ports = options["host"].split(","), options.pop("port", "").split(",")
        ports *= len(hosts) if len(ports) == 1 else 1
    if len(hosts) == 1 or len(ports) not in {0, len(hosts)}:
        return [url]
    options = {"target_session_attrs": "read-write", **options}
    found = []
    for number, host in enumerate(hosts):
        own = options if not ports else {**options, "host": host} | ({"port": ports[number]} if ports[number] else {})
        netloc = f"{user}{at}{'' if ports else host}"
        found.append(f"{parts.scheme}://{netloc}{parts.path}?{urlencode(own)}")
    return found


async def dial(
    address: PostgresAddress, servers: Sequence[str], command_timeout_ms: float | None
) -> tuple[PostgresConnection, str]:
    """Connect to the first server that is there and takes writes; which one it was."""
    for left, url in zip(range(len(servers) - 1, -1, -1), servers, strict=True):
        try:
            raw = await connect_postgres(
                url,
                application=address.application,
                timeout_ms=CONNECT_TIMEOUT_MS / len(servers),
                command_timeout_ms=command_timeout_ms,
                keep_statements=address.keep_statements,
                silence_ms=address.silence_ms,
            )
        except Exception as error:
            if not left or not isinstance(known(error), StoreUnavailable):
                raise
        else:
            return raw, url
    raise AssertionError("the last server connects or raises")


class Gate:
    """Where connections are made: few at once, and none for a while after one that failed."""

    def __init__(self, address: PostgresAddress, clock: Clock, random: Random) -> None:
        self.address = address
        # The one that took the last connection stands first.
        self._servers = servers_of(address.url)
        self._clock = clock
        self._random = random
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        self._failures = 0
        # Told when a connection that writes is gone: what is behind the next one may be another history.
        self.is_known = False
        """Whether the server was found fit: then each new connection must be to such a one."""
        self.lost: Callable[[], None] = lambda: None
        self._closed_until_ms = 0.0
        self._reason = ""

    async def connect(self) -> PostgresConnection:
        """A new connection; while the gate is closed, the reason why there is none."""
        async with self._room:
            if self._clock.monotonic_ms() < self._closed_until_ms:
                raise StoreUnavailable(self._reason)
            try:
                raw, server = await dial(self.address, self._servers, COMMAND_TIMEOUT_MS)
                if self.is_known:
                    await judge_link(raw)
            except Exception as error:
                ours = known(error)
                self._close(ours)
                if ours is error:
                    raise
                raise ours from error
        self._servers = [server, *(one for one in self._servers if one != server)]
        if self._failures:
            log.info("store_reached_again", store=self.address.shown)
        self._failures = 0
        return raw

    def _close(self, error: BaseException) -> None:
        self._reason = str(error)
        if not self._failures:
            log.warning("store_unreachable", store=self.address.shown, error=self._reason)
        self._closed_until_ms = self._clock.monotonic_ms() + self.rest_ms(self._failures)
        self._failures += 1

    def rest_ms(self, failures: int) -> float:
        """How long to wait after so many failures: half of it is a draw."""
        most = min(REST_LEAST_MS * 2 ** min(failures, 10), REST_MOST_MS)
        return float(most * self._random.uniform(0.5, 1.0))

    async def wait(self, failures: int) -> None:
        """Wait before trying again."""
        left_ms = self._closed_until_ms - self._clock.monotonic_ms()
        await self._clock.sleep_ms(max(left_ms, 0) + self.rest_ms(failures))


async def judge_link(raw: PostgresConnection) -> None:
    """Refuse a server that takes no writes, or on which a commit means less than it must."""
    try:
        facts = (await PostgresTransaction(raw).rows("server_link", LinkFacts))[0]
    except BaseException:  # whoever gave up waiting, too: nobody else knows of this connection
        raw.terminate()
        raise
    if facts.is_standby or facts.synchronous_commit == "off":
        await raw.close(timeout=1.0)
        what = "it is a standby, which takes no writes" if facts.is_standby else "its synchronous_commit is off"
        raise StoreUnavailable(f"The store's server is of no use: {what}.")


async def allow_alone(raw: PostgresConnection) -> bool:
    """Whether a statement may be a transaction by itself here: under the same rules as one that we begin, and limits
    that the session keeps. It keeps them for us alone if nothing stands in between: a pooler tells its own number."""
    try:
        (session,) = await PostgresTransaction(raw).rows("server_session", Session)
        if session.pid != raw.get_server_pid() or session.isolation != "read committed":
            return False
        await raw.execute(SESSION_LIMITS)
    except BaseException as error:
        raw.terminate()
        ours = known(error)
        if ours is error:
            raise
        raise ours from error
    return True


class LinkFacts(msgspec.Struct, frozen=True):
    """What a connection must show before it is used."""

    is_standby: bool
    synchronous_commit: str


class Session(msgspec.Struct, frozen=True):
    """Who a session is, and what it is under."""

    pid: int
    isolation: str


class PostgresLink:
    """A connection, made when it is wanted and made anew when it was lost; one user at a time."""

    def __init__(self, gate: Gate, *, watched: bool = False, alone: bool = False) -> None:
        self._gate = gate
        self._watched = watched
        self._alone = alone
        self._raw: PostgresConnection | None = None
        # Whether a statement may be a transaction by itself.
        self.takes_alone = False

    async def raw(self) -> PostgresConnection:
        """The connection."""
        if self._raw is None or self._raw.is_closed():
            if self._raw is not None and self._watched:
                self._gate.lost()
            self._raw = None
            raw = await self._gate.connect()
            # Unprepared it would be two messages, which a pooler may bring to two servers.
            wanted = self._alone and self._gate.is_known and self._gate.address.keep_statements
            self.takes_alone = wanted and await allow_alone(raw)
            self._raw = raw
        return self._raw

    @property
    def is_open(self) -> bool:
        """Whether it was, at last sight."""
        return self._raw is not None and not self._raw.is_closed()

    async def close(self) -> None:
        """End it, whatever state it is in."""
        raw, self._raw = self._raw, None
        if raw is not None and not raw.is_closed():
            try:
                await raw.close(timeout=1.0)
            except Exception:  # noqa: BLE001 - a server that is not there cannot be told
                raw.terminate()


class PostgresTerm:
    """Renewals of a term, on a connection of their own: none takes longer than it would be of use."""

    def __init__(self, gate: Gate, limit_ms: int) -> None:
        self._link = PostgresLink(gate, watched=True)
        self._limit_ms = limit_ms
        self._begin = begin_term(limit_ms)

    async def write(self, operation: Operation[T], lane: Lane = Lane.FIRE) -> T:
        """Run an operation that may be run again; what fails has perhaps been committed."""
        del lane
        try:
            async with asyncio.timeout(self._limit_ms / 1_000):
                return await write_unmarked(await self._link.raw(), operation, self._begin)
        except TimeoutError as error:
            raise StoreUnavailable(f"The store did not answer within {self._limit_ms} ms.") from error

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        """The same for a batch."""
        return await self.write(lambda tx: batch.operation(tx, items))

    async def close(self) -> None:
        """End the connection."""
        await self._link.close()


class PostgresReader:
    """Reads on a few connections. Who finds none free waits, and then is told that there is none."""

    def __init__(self, links: list[PostgresLink], begin: str) -> None:
        self._links = links
        self._begin = begin
        self._free: asyncio.LifoQueue[PostgresLink] = asyncio.LifoQueue()
        for link in reversed(links):
            self._free.put_nowait(link)

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation in one snapshot of what is committed."""
        try:
            async with asyncio.timeout(READER_WAIT_MS / 1_000):
                link = await self._free.get()
        except TimeoutError as error:
            raise StoreUnavailable("The store is busy: no connection to read on became free.") from error
        try:
            return await self._read_on(link, operation)
        finally:
            self._free.put_nowait(link)

    async def _read_on(self, link: PostgresLink, operation: Operation[T]) -> T:
        for tries_left in range(READ_TRIES - 1, -1, -1):
            was_open = link.is_open
            try:
                return await read_with(await link.raw(), operation, self._begin)
            except Aborted as error:
                raise StoreUnavailable(f"The store took too long: {error}") from error
            except StoreUnavailable:
                # The connection may have been dead for long, and the server be there.
                if not was_open or not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """End the connections; who reads meanwhile fails."""
        for link in self._links:
            await link.close()
