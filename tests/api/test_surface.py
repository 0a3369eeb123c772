"""What every request meets: routes, formats, request ids, readiness, what is refused while stopping or too busy."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tasktick.errors import StoreError, StoreFull
from tests.api.served import URL, Served, serving

TASK = {"target": {"url": URL}}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/tasks/",
        "/v1/nothing",
        "/v2/tasks",
        "/v1//tasks",
        "/v1/tasks/a/b/c",
        "/v1/tasks/%2F",
    ],
)
async def test_no_such_path(served: Served, path: str) -> None:
    answer = await served.ask("GET", path)

    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/v1/tasks", "GET, HEAD, POST"),
        ("OPTIONS", "/v1/tasks", "GET, HEAD, POST"),
        ("POST", "/v1/tasks/some", "DELETE, GET, HEAD, PATCH, PUT"),
        ("GET", "/v1/tasks/cancel", "POST"),
        ("DELETE", "/healthz", "GET, HEAD"),
    ],
)
async def test_another_method(served: Served, method: str, path: str, allowed: str) -> None:
    answer = await served.ask(method, path)

    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "method_not_allowed", allowed)


async def test_formats(served: Served) -> None:
    async def sent(**headers: str) -> int:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await served.ask("POST", "/v1/tasks", TASK, headers=fields)).status

    assert await sent(Content_Type="application/json; charset=utf-8") == 201
    assert await sent(Content_Type="Application/JSON") == 201
    assert await sent(Content_Type="application/x-www-form-urlencoded") == 415
    assert await sent(Content_Type="application/x-ndjson") == 415
    assert await sent(Content_Type="application/json; charset=latin-1") == 415
    assert await sent(Content_Encoding="gzip") == 415
    assert await sent(Accept="text/html") == 406
    assert await sent(Accept="text/html, */*;q=0.1") == 201
    assert await sent(Accept="application/*") == 201
    assert await sent(Accept="application/problem+json, application/json") == 201


async def test_a_write_takes_no_parameters(served: Served) -> None:
    made = await served.create(delay=60)
    for method, path in (
        ("POST", ""),
        ("POST", "/batch"),
        ("POST", f"/{made['id']}/cancel"),
        ("DELETE", f"/{made['id']}"),
    ):
        answer = await served.ask(method, f"/v1/tasks{path}?dry_run=true", TASK if method == "POST" else None)
        assert (answer.status, answer.pointers) == (422, {"?dry_run"})
    assert (await served.ask("GET", f"/v1/tasks/{made['id']}")).json["state"] == "scheduled"


async def test_request_ids(served: Served) -> None:
    given = await served.ask("GET", "/healthz", headers={"X-Request-Id": "abc-1"})
    made = await served.ask("GET", "/healthz")
    odd = await served.ask("GET", "/healthz", headers={"X-Request-Id": "x" * 200})

    assert given.headers["X-Request-Id"] == "abc-1"
    assert made.headers["X-Request-Id"].startswith("req_")
    assert odd.headers["X-Request-Id"].startswith("req_")
    refused = await served.ask("GET", "/nowhere", headers={"X-Request-Id": "abc-2"})
    assert refused.json["request_id"] == "abc-2"


async def test_answers_say_nothing_of_what_serves_them(served: Served) -> None:
    answer = await served.ask("GET", "/v1/tasks")

    assert answer.headers["Server"] == "TaskTick"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"] == "application/json"


async def test_a_bug_is_a_problem_without_its_cause(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr("tasktick.store.listing.ids_page", broken)
    answer = await served.ask("GET", "/v1/tasks")

    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret detail" not in answer.raw
    assert b"ZeroDivision" not in answer.raw


@pytest.mark.parametrize("error", [StoreFull("full"), StoreError("closing")])
async def test_a_store_that_cannot_write(served: Served, monkeypatch: pytest.MonkeyPatch, error: StoreError) -> None:
    async def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(served.database, "write_batch", refuse)
    answer = await served.ask("POST", "/v1/tasks", TASK)

    assert (answer.status, answer.code) == (503, "store_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1


async def test_health_needs_no_key(served: Served) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        answer = await served.ask("GET", path, headers={"Authorization": ""})
        assert answer.status == 200
    metrics = await served.ask("GET", "/metrics", headers={"Accept": "text/plain"})
    assert metrics.headers["Content-Type"].startswith("text/plain; version=")
    assert metrics.raw == b"# HELP tasktick_up Up.\n"


async def test_readiness_says_why_not(served: Served) -> None:
    served.switches.not_ready = ["loading"]
    loading = await served.ask("GET", "/readyz")
    assert (loading.status, loading.code, loading.json["reasons"]) == (503, "store_unavailable", ["loading"])
    served.switches.not_ready = []
    served.switches.draining = True
    draining = await served.ask("GET", "/readyz")
    assert (draining.code, draining.json["reasons"]) == ("draining", ["draining"])
    assert (await served.ask("GET", "/healthz")).status == 200


async def test_stats(served: Served) -> None:
    await served.create(delay=60)
    await served.kill(await served.create())
    gone = await served.create(delay=60)
    await served.ask("DELETE", f"/v1/tasks/{gone['id']}")
    stats = (await served.ask("GET", "/v1/stats")).json

    assert (stats["tasks"]["scheduled"], stats["tasks"]["dead"], stats["tasks"]["running"]) == (1, 1, 0)
    assert (stats["purged"], stats["in_flight"]) == (1, 3)


async def test_while_stopping_writes_are_refused_and_reads_go_on(served: Served) -> None:
    made = await served.create(delay=60)
    served.switches.draining = True
    for method, path, body in (
        ("POST", "/v1/tasks", TASK),
        ("POST", "/v1/tasks/batch", {"tasks": [TASK]}),
        ("POST", f"/v1/tasks/{made['id']}/cancel", None),
        ("DELETE", f"/v1/tasks/{made['id']}", None),
        ("PATCH", f"/v1/tasks/{made['id']}", {}),
    ):
        answer = await served.ask(method, path, body)
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "draining", "1")
    assert (await served.ask("GET", f"/v1/tasks/{made['id']}")).status == 200


async def test_under_too_much_load_work_is_refused_and_control_is_not(served: Served) -> None:
    made = await served.create(delay=60)
    served.switches.overloaded = True
    answer = await served.ask("POST", "/v1/tasks", TASK)

    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "overloaded", "1")
    assert (await served.ask("POST", f"/v1/tasks/{made['id']}/cancel")).status == 200


async def test_what_is_being_handled_ends_before_the_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as served:
        begun, go_on = asyncio.Event(), asyncio.Event()
        write_batch = served.database.write_batch

        async def slow(*given: Any) -> Any:
            begun.set()
            await go_on.wait()
            return await write_batch(*given)

        monkeypatch.setattr(served.database, "write_batch", slow)
        asking = asyncio.ensure_future(served.ask("POST", "/v1/tasks", TASK))
        await begun.wait()
        port = served.port
        stopping = asyncio.ensure_future(served.server.stop(grace_ms=5_000))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        go_on.set()
        assert (await asking).status == 201
        await stopping
        assert served.server.open_connections == 0
