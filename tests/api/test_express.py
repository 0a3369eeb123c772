"""The short way of a create is as the long one: to its client, to those behind it on the connection, and at the end."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.web_protocol import RequestHandler

from tasktick.api import express
from tasktick.api.app import Api
from tasktick.api.express import ExpressHandler, PlainHead
from tasktick.errors import StoreFull
from tests.api.served import URL, WAIT_S, Served, problem_of, serving

GET = b"GET /v1/tasks/key:one HTTP/1.1\r\nHost: a\r\n"


class Taken:
    """Which answers went the short way; they can be held back after their commit."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.held: list[Callable[[], None]] | None = None
        self.came = asyncio.Event()
        begin = served.database.begin

        def watched(batch: Any, item: Any, told: Callable[[Any], None]) -> None:
            self.count += 1
            begin(batch, item, lambda outcome: self._tell(told, outcome))

        monkeypatch.setattr(served.database, "begin", watched)

    def _tell(self, told: Callable[[Any], None], outcome: Any) -> None:
        if self.held is None:
            told(outcome)
        else:
            self.held.append(lambda: told(outcome))
            self.came.set()

    def hold(self) -> None:
        """From now on nobody is answered."""
        self.held = []

    def release(self) -> None:
        """Who was held back is answered."""
        held, self.held = self.held or [], None
        for one in held:
            one()


@pytest.fixture
async def taken(served: Served, monkeypatch: pytest.MonkeyPatch) -> Taken:
    """With a key and a tenant that are known, as they are after the first request."""
    await served.create()
    return Taken(served, monkeypatch)


def create(served: Served, **fields: Any) -> bytes:
    """A request as bytes."""
    body = json.dumps({"target": {"url": URL}, "delay": 60, **fields}).encode()
    return head(served, len(body)) + body


def head(served: Served, length: int, **fields: str) -> bytes:
    """The head of one."""
    lines = ["POST /v1/tasks HTTP/1.1", "Host: a", f"Authorization: Bearer {served.key}"]
    lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def get(served: Served, more: bytes = b"") -> bytes:
    """A request that goes the long way."""
    return GET + b"Authorization: Bearer %b\r\n%b\r\n" % (served.key.encode(), more)


def last(served: Served) -> bytes:
    """One after which the connection ends."""
    return get(served, b"Connection: close\r\n")


def statuses(came: bytes) -> list[int]:
    """Of the answers, in their order."""
    return [int(part[:3]) for part in came.split(b"HTTP/1.1 ")[1:]]


async def test_both_ways_answer_alike(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(served, monkeypatch)
    long, short = [await served.ask("POST", "/v1/tasks", {"target": {"url": URL}, "name": "x"}) for _ in range(2)]

    assert taken.count == 1
    assert [*long.headers] == [*short.headers]
    assert short.headers["Location"] == f"/v1/tasks/{short.json['id']}"
    differ = {"id", "partition"}
    assert {k: v for k, v in long.json.items() if k not in differ} == {
        k: v for k, v in short.json.items() if k not in differ
    }
    assert (await served.ask("GET", short.headers["Location"])).json["id"] == short.json["id"]
    assert [state.id for state in served.created] == [one.json["id"].removeprefix("tsk_") for one in (long, short)]


async def test_a_client_keeps_its_request_id(served: Served, taken: Taken) -> None:
    for request_id in ("mine-1", "mine-2"):
        body = {"target": {"url": URL}}
        answer = await served.ask("POST", "/v1/tasks", body, headers={"X-Request-Id": request_id})
        assert answer.headers["X-Request-Id"] == request_id
    assert taken.count == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"Idempotency_Key": "a"},
        {"TaskTick_Tenant": "other"},
        {"Content_Type": "text/plain"},
        {"Accept": "text/html"},
        {"Authorization": "Bearer wrong"},
        {"Connection": "close"},
    ],
)
async def test_what_asks_for_more_goes_the_long_way(served: Served, taken: Taken, fields: dict[str, str]) -> None:
    body = {"target": {"url": URL}}
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    first = await served.ask("POST", "/v1/tasks", body, headers=named)

    assert taken.count == 0
    assert first.status in (201, 401, 406, 415)
    # A connection that had a plain head before does not make the next one plain.
    await served.ask("POST", "/v1/tasks", body)
    again = await served.ask("POST", "/v1/tasks", body, headers=named)
    assert (again.status, taken.count) == (first.status, 1)


async def test_refusals_are_problems(served: Served, taken: Taken) -> None:
    bad: dict[str, Any] = {"target": {"url": "ftp://x"}, "priority": 70}
    short = await served.ask("POST", "/v1/tasks", bad)
    long = await served.ask("POST", "/v1/tasks", bad, headers={"Idempotency-Key": "k"})

    assert (short.status, short.code, short.pointers) == (long.status, long.code, long.pointers)
    assert (short.status, short.code) == (422, "validation_failed")
    for raw in (b"", b"{", b"[" * 200, b'{"target": {}}' + b" " * 300_000):
        answer = await served.ask("POST", "/v1/tasks", raw=raw)
        assert answer.code in ("malformed", "validation_failed", "payload_too_large")
    assert taken.count == 0
    assert (await served.create())["state"] == "ready"


async def test_what_the_store_says_is_told(served: Served, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    await served.create(key="one", delay=60)
    twice = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}, "key": "one"})
    assert (twice.status, twice.code, taken.count) == (409, "key_taken", 2)

    def full_disk(batch: Any, item: Any, told: Callable[[Any], None]) -> None:
        asyncio.get_running_loop().call_soon(told, StoreFull("The disk is full."))

    monkeypatch.setattr(served.database, "begin", full_disk)
    full = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})
    assert full.status == 503

    def broken(batch: Any, item: Any, told: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(served.database, "begin", broken)
    internal = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})
    assert (internal.status, internal.code) == (500, "internal")


async def test_closed_doors(served: Served, taken: Taken) -> None:
    served.switches.draining = True
    assert (await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})).code == "draining"
    served.switches.draining = False
    served.switches.overloaded = True
    assert (await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})).code == "overloaded"
    assert taken.count == 0


async def test_pipelined_requests_are_answered_in_turn(served: Served, taken: Taken) -> None:
    bad = head(served, 1) + b"{"
    requests = [create(served, key="one"), get(served), create(served), bad, create(served, key="one"), last(served)]
    came = await served.wire(b"".join(requests))

    assert statuses(came) == [201, 200, 201, 400, 409, 200]


async def test_a_long_pipeline(served: Served, taken: Taken) -> None:
    """More than aiohttp's queue holds, good and bad ones, in pieces that end anywhere."""
    one = create(served) + head(served, 1) + b"{"
    whole = one * 100 + last(served)
    parts = [whole[at : at + 7_001] for at in range(0, len(whole), 7_001)]
    came = await served.wire(*parts)

    assert statuses(came) == [201, 400] * 100 + [404]


async def test_what_comes_meanwhile_waits(served: Served, taken: Taken) -> None:
    taken.hold()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(create(served) + get(served)[:20])
    await asyncio.wait_for(taken.came.wait(), WAIT_S)
    writer.write(get(served)[20:] + last(served))
    await writer.drain()
    assert (await served.ask("GET", "/healthz")).status == 200  # all of it has been read by now
    taken.release()
    came = await asyncio.wait_for(reader.read(-1), WAIT_S)
    writer.close()

    assert statuses(came) == [201, 404, 404]


class Client:
    """One connection, on which requests come as pieces, and answers are read one by one."""

    def __init__(self, served: Served, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served = served
        self._reader = reader
        self.writer = writer

    async def ask(self, *pieces: bytes) -> tuple[int, Any]:
        """The status and the document of the next answer."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            if len(pieces) > 1:  # each is read by itself
                assert (await self._served.ask("GET", "/healthz")).status == 200
        return await self.answer()

    async def answer(self) -> tuple[int, Any]:
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), WAIT_S)
        (length,) = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
        document = await asyncio.wait_for(self._reader.readexactly(int(length[16:])), WAIT_S)
        return int(head[9:12]), json.loads(document)


@pytest.fixture
async def again(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of the requests that were begun by what their client had said before."""
    bodies: list[bytes] = []
    begin_again = Api.begin_again

    def watched(self: Api, head: PlainHead, body: bytes, connection: ExpressHandler) -> bool:
        bodies.append(body)
        return begin_again(self, head, body, connection)

    monkeypatch.setattr(Api, "begin_again", watched)
    return bodies


async def test_a_client_that_repeats_itself(served: Served, taken: Taken, again: list[bytes]) -> None:
    client = Client(served, *await asyncio.open_connection("127.0.0.1", served.port))
    names = ["a" * length for length in (1, 1, 2, 199, 1, 150)]
    for name in names:
        status, task = await client.ask(create(served, name=name))
        assert (status, task["name"]) == (201, name)
    assert [json.loads(body)["name"] for body in again] == names[1:]

    # A bad one, another one, and one in two pieces: each is told for itself, and they go on.
    assert (await client.ask(create(served, priority=70)))[0] == 422
    assert (await client.ask(get(served)))[0] == 404
    for name in ("x", "y"):
        status, task = await client.ask(create(served, name=name))
        assert (status, task["name"]) == (201, name)
    both = create(served, name="first") + create(served, name="second")
    assert (await client.ask(both))[1]["name"] == "first"
    assert (await client.answer())[1]["name"] == "second"
    for cut in (1, 40, 200, -1):
        whole = create(served, name=f"cut at {cut}")
        status, task = await client.ask(whole[:cut], whole[cut:])
        assert (status, task["name"]) == (201, f"cut at {cut}")
    assert (await client.ask(create(served, name="whole")))[1]["name"] == "whole"
    client.writer.close()


@pytest.mark.parametrize("length", [b"0%d", b"+%d", b"%d ", b" %d", b"%d, %d", b"0x%x", b"%d\r\nContent-Length: %d"])
async def test_a_length_that_is_written_otherwise(
    served: Served, taken: Taken, again: list[bytes], length: bytes
) -> None:
    client = Client(served, *await asyncio.open_connection("127.0.0.1", served.port))
    for _ in range(2):
        assert (await client.ask(create(served)))[0] == 201
    written = create(served)
    at = int(written.partition(b"Content-Length: ")[2].partition(b"\r")[0])
    odd = written.replace(b": %d\r" % at, b": " + length.replace(b"%d", b"%d" % at).replace(b"%x", b"%x" % at) + b"\r")
    client.writer.write(odd)
    came = await client.answer()
    client.writer.close()

    # Whatever aiohttp's parser makes of it.
    fresh = Client(served, *await asyncio.open_connection("127.0.0.1", served.port))
    assert (await fresh.ask(odd))[0] == came[0]
    fresh.writer.close()
    assert len(again) == 1


async def test_a_key_that_ends_ends_for_who_repeats_itself(served: Served, again: list[bytes]) -> None:
    key = await served.add_key(expires_at=served.world.now + 1_000)
    client = Client(served, *await asyncio.open_connection("127.0.0.1", served.port))
    request = create(served).replace(served.key.encode(), key.encode())
    for _ in range(3):
        assert (await client.ask(request))[0] == 201
    served.world.now += 10_000

    assert (await client.ask(request))[0] == 401
    assert len(again) == 2
    client.writer.close()


async def test_a_client_that_leaves(served: Served, taken: Taken) -> None:
    taken.hold()
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    others = served.server.open_connections
    writer.write(create(served, key="one"))
    await asyncio.wait_for(taken.came.wait(), WAIT_S)
    writer.transport.abort()
    async with asyncio.timeout(WAIT_S):
        while served.server.open_connections >= others:  # noqa: ASYNC110 - it is a number, not an event
            await asyncio.sleep(0.001)
    taken.release()

    assert (await served.ask("GET", "/v1/tasks/key:one")).status == 200
    assert len(served.created) == 2


async def test_who_is_being_served_is_no_idle_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, idle_timeout_ms=60, header_timeout_ms=60) as served:
        await served.create()
        taken = Taken(served, monkeypatch)
        taken.hold()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(create(served))
        await asyncio.wait_for(taken.came.wait(), WAIT_S)
        # As long as aiohttp's timers are: one that has nothing under way ends meanwhile.
        assert await served.wire() == b""
        taken.release()
        came = await asyncio.wait_for(reader.read(-1), WAIT_S)  # and idle it is let go
        writer.close()
    assert statuses(came) == [201]


async def test_what_is_under_way_is_answered_at_the_end(served: Served, taken: Taken) -> None:
    taken.hold()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(create(served))
    await asyncio.wait_for(taken.came.wait(), WAIT_S)
    stopping = asyncio.create_task(served.server.stop(grace_ms=5_000))
    await asyncio.sleep(0)
    assert not stopping.done()
    taken.release()
    await asyncio.wait_for(stopping, WAIT_S)
    came = await asyncio.wait_for(reader.read(-1), WAIT_S)
    writer.close()

    assert statuses(came) == [201]
    assert served.server.open_connections == 0


async def test_turned_away_after_its_answer(served: Served, taken: Taken) -> None:
    taken.hold()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(create(served))
    await asyncio.wait_for(taken.came.wait(), WAIT_S)
    served.server.turn_away()
    taken.release()
    came = await asyncio.wait_for(reader.read(-1), WAIT_S)
    writer.close()

    assert statuses(came) == [201]


async def test_a_large_head_is_not_kept(served: Served, taken: Taken) -> None:
    answer = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}}, headers={"X-Large": "x" * 5_000})

    assert (answer.status, taken.count) == (201, 0)


async def test_a_head_that_is_large_by_spaces_alone_is_not_kept(served: Served, again: list[bytes]) -> None:
    """The parser takes them for nothing, and they would be held for as long as the connection is."""
    client = Client(served, *await asyncio.open_connection("127.0.0.1", served.port))
    for spaces, repeated in ((express.PLAIN_HEAD_MAX_BYTES, 0), (1_000, 1)):
        request = create(served).replace(b"Host:", b"Host:" + b" " * spaces)
        for _ in range(2):
            assert (await client.ask(request))[0] == 201
        assert len(again) == repeated
    client.writer.close()


async def test_the_first_of_a_connection_that_cannot_be_read(served: Served, taken: Taken) -> None:
    status, problem = problem_of(await served.wire(create(served)[:-1].replace(b"POST /", b"P\0ST /")))

    assert (status, problem["code"]) == (400, "malformed")


def test_an_aiohttp_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    express.assert_aiohttp_is_known()
    slots = tuple(name for name in RequestHandler.__slots__ if name != "_waiter")
    monkeypatch.setattr(RequestHandler, "__slots__", slots)
    with pytest.raises(RuntimeError, match="_waiter"):
        express.assert_aiohttp_is_known()


def test_nothing_of_aiohttp_is_hidden() -> None:
    """Names of ours that aiohttp begins to use would be shared with it."""
    ours = set(ExpressHandler.__slots__)
    theirs = {name for kind in RequestHandler.__mro__ for name in vars(kind)}
    assert not ours & theirs
