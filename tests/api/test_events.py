"""The stream of what happens, over real sockets: whole, in order, by tenant, and never without bounds."""

import asyncio
import socket
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tasktick.access.roles import Role
from tasktick.api import auth, event_feed, events, limits, streaming
from tasktick.errors import StoreError
from tasktick.store import events as stored
from tasktick.store import retention, secrets
from tasktick.store.events import EventRow
from tasktick.store.tasks import Create
from tests.api.served import URL, Served, serving
from tests.fakes.event_stream import Heard, Stream, listening
from tests.fakes.sending import until


def listen(
    served: Served, query: str = "", key: str | None = None, **headers: str
) -> AbstractAsyncContextManager[Stream]:
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return listening(served.session, f"http://127.0.0.1:{served.port}/v1/events{query}", key or served.key, fields)


def moves(found: list[Heard]) -> list[tuple[str, Any, Any, Any]]:
    return [(one.type, one.data["before"], one.data["state"], one.data["attempt"]) for one in found]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams look around often."""
    monkeypatch.setattr(events, "LOOK_MS", 10)
    monkeypatch.setattr(event_feed, "POLL_MS", 10_000)  # what comes, comes by the hint


async def test_a_task_is_followed_from_its_birth_to_its_end(served: Served) -> None:
    async with listen(served) as stream:
        task = await served.create(key="k")
        await served.run(task)
        found = await stream.several(3)
        assert stream.retry_ms == 2_000
    assert moves(found) == [
        ("task.created", None, "scheduled", 0),
        ("task.running", "scheduled", "running", 1),
        ("task.succeeded", "running", "succeeded", 1),
    ]
    assert found[0].data == {
        "type": "task.created",
        "id": task["id"],
        "tenant": "default",
        "before": None,
        "state": "scheduled",
        "attempt": 0,
        "at": task["created_at"],
    }
    assert [one.id for one in found] == ["1-1", "2-1", "3-1"]


async def test_what_is_asked_for_and_removed_is_told(served: Served) -> None:
    one = await served.create(delay="1h")
    async with listen(served) as stream:
        for word in ("pause", "resume", "cancel"):
            assert (await served.ask("POST", f"/v1/tasks/{one['id']}/{word}")).status == 200
        assert (await served.ask("DELETE", f"/v1/tasks/{one['id']}")).status == 204
        other = await served.create(delay="1h")
        answer = await served.ask("POST", "/v1/tasks/delete", {"filter": {"created_after": 0}})
        assert answer.json["changed"] == 1
        found = await stream.several(6)
    assert [(one.type, one.data["before"], one.data["state"]) for one in found] == [
        ("task.paused", "scheduled", "paused"),
        ("task.scheduled", "paused", "scheduled"),
        ("task.cancelled", "scheduled", "cancelled"),
        ("task.deleted", "cancelled", None),
        ("task.created", None, "scheduled"),
        ("task.deleted", "scheduled", None),
    ]
    assert found[-1].data["id"] == other["id"]


async def test_only_what_is_wanted_comes(served: Served) -> None:
    async with listen(served, "?type=task.dead&type=task.deleted") as stream:
        await served.kill(await served.create())
        await served.create()
        assert (await served.ask("POST", "/v1/tasks/delete", {"filter": {"created_after": 0}})).status == 200
        assert [one.type for one in await stream.several(3)] == ["task.dead", "task.deleted", "task.deleted"]


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {"Last-Event-ID": "yesterday"}, 400, "malformed"),
        ("", {"Last-Event-ID": "1-2-3"}, 400, "malformed"),
        ("", {"Last-Event-ID": "9" * 30 + "-1"}, 400, "malformed"),
        ("?after=-1", {}, 400, "malformed"),
        ("?after=1-1&after=1-2", {}, 422, "validation_failed"),
        ("?type=task.ready", {}, 422, "validation_failed"),
        ("?type=task.created&type=", {}, 422, "validation_failed"),
        ("?state=dead", {}, 422, "validation_failed"),
        ("", {"Accept": "application/json"}, 406, "not_acceptable"),
    ],
)
async def test_what_cannot_be_asked(
    served: Served, query: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await served.ask("GET", f"/v1/events{query}", headers=headers)
    assert (answer.status, answer.code) == (status, code)
    assert len(served.feed) == 0


async def test_its_head_alone_takes_no_place(served: Served) -> None:
    answer = await served.ask("HEAD", "/v1/events")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
    assert len(served.feed) == 0


@pytest.mark.parametrize("accept", ["text/event-stream", "text/*", "*/*", "text/event-stream, */*;q=0.1"])
async def test_what_a_client_takes(served: Served, accept: str) -> None:
    async with listen(served, Accept=accept) as stream:
        await served.create()
        assert (await stream.next()) is not None


async def test_who_comes_again_misses_nothing_and_hears_nothing_twice(served: Served) -> None:
    heard: list[Heard] = []
    last = ""
    for cut in (1, 4, 2, 13, 3):
        async with listen(served, **({"Last_Event_ID": last} if last else {})) as stream:
            made = [served.world.task() for _ in range(5)]
            await served.world.create_all([Create(one) for one in made])
            heard += await stream.several(cut)
            last = stream.last_id
        await served.create()
    async with listen(served, f"?after={last}") as stream:
        heard += await stream.several(30 - len(heard))

    total = 5 * 6
    assert len(heard) == len({one.id for one in heard}) == len({one.data["id"] for one in heard}) == total
    rows = await served.database.read(lambda tx: stored.page(tx, 0))
    assert [one.data["id"].removeprefix("tsk_") for one in heard] == [
        item.id for row in rows for item in row.of("default")
    ]
    assert [one.id for one in heard] == [
        f"{row.sequence}-{index}" for row in rows for index in range(1, len(row.of("default")) + 1)
    ]


async def test_a_place_is_known_before_the_first_event(served: Served) -> None:
    await served.create()
    async with listen(served, "?type=task.dead") as stream:
        await stream.until(id_is="2-0")
    await served.create()
    async with listen(served, Last_Event_ID="2-0", query="?after=1-0") as stream:
        found = await stream.next()
        assert found is not None
        assert found.id == "2-1", "the header wins"


async def test_a_quiet_stream_shows_that_it_lives_and_how_far_it_is(served: Served) -> None:
    async with listen(served, "?type=task.dead") as stream:
        await stream.until(id_is="1-0")
        served.world.now += events.HEARTBEAT_MS
        await stream.until(comments=1)
        assert stream.last_id == "1-0"
        await served.create()
        await until(lambda: served.feed.head == 2)
        served.world.now += events.HEARTBEAT_MS
        await stream.until(comments=2, id_is="2-0")


async def test_tenants_hear_their_own_alone(served: Served) -> None:
    acme = await served.add_key(Role.VIEWER, "acme")
    operator = {"TaskTick_Tenant": "acme"}
    async with (
        listen(served) as own,
        listen(served, key=acme) as theirs,
        listen(served, **operator) as by_operator,
        listen(served, "?after=0-0", key=acme) as from_the_beginning,
    ):
        made = [served.world.task(tenant=name) for name in ("acme", "default", "globex", "acme")]
        await served.world.create_all([Create(one) for one in made])
        await served.create()
        answer = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}}, headers={"TaskTick-Tenant": "acme"})
        assert answer.status == 201
        assert [one.data["tenant"] for one in await own.several(2)] == ["default"] * 2
        for stream in (theirs, by_operator, from_the_beginning):
            found = await stream.several(3)
            assert [one.id for one in found] == ["1-1", "1-2", "3-1"]
            assert {one.data["tenant"] for one in found} == {"acme"}
            assert found[-1].data["id"] == answer.json["id"]
    refused = await served.ask("GET", "/v1/events", key=acme, headers={"TaskTick-Tenant": "default"})
    assert (refused.status, refused.code) == (403, "forbidden")


async def test_what_is_not_kept_any_more_is_said(served: Served) -> None:
    for _ in range(4):
        await served.create()
    await served.database.write(lambda tx: retention.remove_events(tx, 0, 2, 100))
    for named, is_told in (("1-1", True), ("2-1", True), ("3-0", False), ("3-1", False), ("0-0", True)):
        async with listen(served, Last_Event_ID=named) as stream:
            found = await stream.next()
            assert found is not None
            if is_told:
                resumed = {"type": "gap", "reason": "forgotten", "after": named.replace("0-0", "1-0"), "resumed": "3-0"}
                assert (found.type, found.id, found.data) == ("gap", "3-0", resumed)
                found = await stream.next()
                assert found is not None
            assert found.id == ("4-1" if named == "3-1" else "3-1")


@pytest.mark.parametrize("named", ["2-1", "3-0", "900-1"])
async def test_an_id_of_another_store_is_said_to_be_unknown(served: Served, named: str) -> None:
    await served.create()
    async with listen(served, "?type=task.dead", Last_Event_ID=named) as stream:
        found = await stream.next()
        assert found is not None
        assert found.data == {"type": "gap", "reason": "unknown", "after": named, "resumed": "2-0"}
        await served.kill(await served.create())
        dead = await stream.next()
        assert dead is not None
        assert dead.type == "task.dead"


async def test_from_the_beginning_of_a_store_is_no_gap(served: Served) -> None:
    await served.create()
    async with listen(served, "?after=0-0") as stream:
        found = await stream.next()
        assert found is not None
        assert found.id == "1-1"


async def test_one_reader_is_enough_for_many(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    page = stored.page

    async def counted(tx: Any, sequence: int) -> list[EventRow]:
        nonlocal reads
        reads += 1
        return await page(tx, sequence)

    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(listen(served)) for _ in range(20)]
        await until(lambda: sum(map(len, served.feed._live.values())) == 20)
        monkeypatch.setattr(stored, "page", counted)
        for _ in range(10):
            await served.create()
        for stream in streams:
            assert [one.id for one in await stream.several(10)] == [f"{number}-1" for number in range(1, 11)]
        assert reads <= 25, "not one for each stream and commit"


@pytest.mark.slow
async def test_many_at_once_come_whole(served: Served) -> None:
    """More than is read at once, and more than waits for a follower."""
    async with listen(served) as stream, listen(served, "?after=0-0") as other:
        for _ in range(12):
            await served.world.create_all([Create(served.world.task()) for _ in range(500)])
        for one in (stream, other):
            found = await one.several(6_000)
            assert len({event.data["id"] for event in found}) == 6_000
            assert [event.id for event in found] == [f"{row}-{n}" for row in range(1, 13) for n in range(1, 501)]


async def test_places_are_bounded_in_all_and_by_tenant(tmp_path: Path) -> None:
    bounds = {"event_streams_max": 3, "event_streams_per_tenant_max": 2}
    async with serving(tmp_path, **bounds) as served:
        async with listen(served), listen(served):
            limited = await served.ask("GET", "/v1/events")
            assert (limited.status, limited.code, limited.headers["Retry-After"]) == (429, "rate_limited", "10")
            async with listen(served, TaskTick_Tenant="acme"):
                full = await served.ask("GET", "/v1/events", headers={"TaskTick-Tenant": "globex"})
                assert (full.status, full.code, full.headers["Retry-After"]) == (503, "overloaded", "10")
        await until(lambda: len(served.feed) == 0)
        async with listen(served):
            await until(lambda: len(served.feed) == 1)


async def test_connections_are_left_for_others(tmp_path: Path) -> None:
    async with serving(tmp_path, connections_max=4) as served, listen(served), listen(served):
        assert (await served.ask("GET", "/v1/events")).code == "overloaded"
        assert (await served.ask("GET", "/healthz")).status == 200


async def test_a_key_that_is_revoked_ends_its_streams(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "CHECK_EVERY_MS", 0)
    key = await served.add_key(Role.VIEWER)
    async with listen(served, key=key) as stream, listen(served) as other:
        await served.create()
        assert await stream.next() is not None
        rows = await served.database.read(secrets.keys)
        newest = max(rows, key=lambda row: row.id)
        assert await served.database.write(lambda tx: secrets.revoke_key(tx, newest.id, served.world.now)) == 1
        served.world.now += auth.CACHED_MS + 1
        assert await stream.next() is None
        await served.create()
        assert len(await other.several(2)) == 2
        await until(lambda: len(served.feed) == 1)


async def test_streams_end_in_order_when_the_server_does(served: Served) -> None:
    async with listen(served) as stream, listen(served, "?type=task.dead") as quiet:
        await served.create()
        await served.feed.close()
        assert await quiet.next() is None
        while await stream.next() is not None:
            pass
        refused = await served.ask("GET", "/v1/events")
        assert (refused.status, refused.code) == (503, "draining")
        assert len(served.feed) == 0
    async with asyncio.timeout(1):
        await served.server.stop()


async def test_reads_go_on_while_it_drains(served: Served) -> None:
    served.switches.draining = True
    async with listen(served) as stream:
        await served.world.create()
        assert await stream.next() is not None


async def test_who_leaves_gives_up_its_place(served: Served) -> None:
    for _ in range(3):
        async with listen(served):
            await until(lambda: len(served.feed) == 1)
        await until(lambda: len(served.feed) == 0)
    assert served.feed.head == 0


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SENT_LEAST_BYTES", 1)
    async with serving(tmp_path, body_timeout_ms=300) as served:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.setblocking(False)
        try:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, ("127.0.0.1", served.port))
            head = f"GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {served.key}\r\n\r\n"
            await loop.sock_sendall(connection, head.encode())
            await until(lambda: len(served.feed) == 1)
            async with listen(served) as other:
                made = 0
                async with asyncio.timeout(30):
                    while len(served.feed) > 1:
                        await served.world.create_all([Create(served.world.task()) for _ in range(500)])
                        made += 500
                assert len(await other.several(made)) == made, "who reads is not held up"
        finally:
            connection.close()


async def test_a_bug_ends_a_stream_in_its_middle(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(_: object) -> bytes:
        raise ValueError("a bug")

    monkeypatch.setattr(events, "heartbeat", bug)
    async with listen(served) as stream:
        await stream.until(id_is="1-0")
        served.world.now += events.HEARTBEAT_MS
        with pytest.raises(aiohttp.ClientError):
            await stream.next()
    await until(lambda: len(served.feed) == 0)


async def test_a_store_that_cannot_be_read_ends_streams(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> list[EventRow]:
        raise StoreError("It cannot be read.")

    async with listen(served) as stream:
        await served.create()
        assert await stream.next() is not None
        with monkeypatch.context() as patched:
            patched.setattr(stored, "page", broken)
            await served.create()
            assert await stream.next() is None
            async with listen(served, Last_Event_ID="1-1") as behind:
                assert await behind.next() is None
            patched.setattr(stored, "edges", broken)
            assert (await served.ask("GET", "/v1/events")).code == "store_unavailable"
        await until(lambda: len(served.feed) == 0)
        async with listen(served, Last_Event_ID=stream.last_id) as again:
            found = await again.next()
            assert found is not None
            assert found.id == "2-1"
