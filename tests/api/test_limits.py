"""A connection costs only so much: heads, bodies, silence and numbers have bounds, and each refusal is a problem."""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.api.served import URL, WAIT_S, Served, problem_of, serving

SHORT_MS = 60
GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


def post(served: Served, length: int, path: bytes = b"/v1/tasks", **fields: str) -> bytes:
    """The head of a POST."""
    lines = [b"POST %b HTTP/1.1" % path, b"Host: a", b"Authorization: Bearer " + served.key.encode()]
    lines += [b"Content-Type: application/json", b"Content-Length: %d" % length]
    lines += [f"{name}: {value}".encode() for name, value in fields.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n"


@pytest.mark.parametrize("part", [b"G", b"GET /healthz HTT", GET, GET + b"X-Slow: 1"])
async def test_half_a_head_is_not_waited_for(tmp_path: Path, part: bytes) -> None:
    async with serving(tmp_path, header_timeout_ms=SHORT_MS) as served:
        status, problem = problem_of(await served.wire(part))

    assert (status, problem["code"]) == (408, "request_timeout")


async def test_drip_does_not_move_the_deadline(tmp_path: Path) -> None:
    async with serving(tmp_path, header_timeout_ms=SHORT_MS) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(GET)

        async def drip() -> None:
            while True:
                writer.write(b"X-a: b\r\n")
                await asyncio.sleep(SHORT_MS / 5_000)

        dripping = asyncio.create_task(drip())
        status, _ = problem_of(await asyncio.wait_for(reader.read(), WAIT_S))
        dripping.cancel()
        writer.close()
    assert status == 408


async def test_a_silent_connection_is_closed_without_a_word(tmp_path: Path) -> None:
    async with serving(tmp_path, header_timeout_ms=SHORT_MS) as served:
        assert await served.wire() == b""
        assert served.server.open_connections == 0


async def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, idle_timeout_ms=SHORT_MS) as served:
        answer = await served.wire(GET + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_half_a_head_on_a_kept_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, header_timeout_ms=SHORT_MS) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(GET + b"\r\n")
        await reader.readuntil(b'"ok"}')
        writer.write(b"GET /hea")
        status, _ = problem_of(await asyncio.wait_for(reader.read(), WAIT_S))
        writer.close()
    assert status == 408


async def test_half_a_body_is_not_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path, body_timeout_ms=SHORT_MS) as served:
        status, problem = problem_of(await served.wire(post(served, 100) + b'{"target"'))

    assert (status, problem["code"]) == (408, "request_timeout")


async def test_a_slow_body_in_time_is_read(served: Served) -> None:
    body = b'{"target": {"url": "%b"}}' % URL.encode()
    answer = await served.wire(post(served, len(body), Connection="close"), body[:5], body[5:])

    assert answer.startswith(b"HTTP/1.1 201 ")


async def test_a_body_that_ends_early_is_nothing(served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(post(served, 100) + b'{"target"')
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    assert (await served.ask("GET", "/healthz")).status == 200
    assert served.created == []


@pytest.mark.parametrize(
    "head", [GET + b"X-Large: " + b"x" * 40_000, GET + b"X-a: b\r\n" * 9_000, b"GET /" + b"x" * 40_000]
)
async def test_huge_heads(served: Served, head: bytes) -> None:
    status, problem = problem_of(await served.wire(head + b"\r\n\r\n"))

    assert (status, problem["code"]) == (431, "headers_too_large")


async def test_heads_are_counted_in_all(served: Served) -> None:
    head = GET + b"".join(b"X-%d: %b\r\n" % (n, b"x" * 4_000) for n in range(9))
    status, problem = problem_of(await served.wire(head + b"Connection: close\r\n\r\n"))

    assert (status, problem["code"]) == (431, "headers_too_large")


async def test_a_head_without_end_is_cut(served: Served) -> None:
    _, problem = problem_of(await served.wire(*([b"GET / HTTP/1.1\r\n"] + [b"X-a: " + b"y" * 1_000 + b"\r\n"] * 40)))

    assert problem["code"] == "headers_too_large"


async def test_large_bodies(served: Served) -> None:
    for path, limit, setting in ((b"/v1/tasks", 262_144, "body"), (b"/v1/tasks/batch", 16_777_216, "batch")):
        status, problem = problem_of(await served.wire(post(served, limit + 1, path)))
        assert (status, problem["code"]) == (413, "payload_too_large")
        assert problem["detail"] == f"The body has more than {limit} bytes (server.{setting}_max_bytes)."


async def test_a_body_of_unknown_length_is_counted(served: Served) -> None:
    head = post(served, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    status, problem = problem_of(await served.wire(head, *([chunk] * 5)))

    assert (status, problem["code"]) == (413, "payload_too_large")


async def test_a_garbled_chunk(served: Served) -> None:
    head = post(served, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    answer = await served.wire(head, b"5\r\nabcde\r\nzz\r\n")

    assert problem_of(answer)[1]["code"] == "malformed"


async def test_a_client_that_asks_first_is_told_to_go_on(served: Served) -> None:
    body = b'{"target": {"url": "%b"}}' % URL.encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(post(served, len(body), Expect="100-continue", Connection="close"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert (await reader.read()).startswith(b"HTTP/1.1 201 ")
    writer.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        GET + b"Content-Length: x\r\n\r\n",
        GET + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        GET + b"bad name: x\r\n\r\n",
        GET + b"X: a\0b\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_a_problem(served: Served, raw: bytes) -> None:
    status, problem = problem_of(await served.wire(raw))

    assert (status, problem["code"]) == (400, "malformed")
    assert "raceback" not in str(problem)


async def test_pipelined_requests_are_answered_in_turn(served: Served) -> None:
    answer = await served.wire((GET + b"\r\n") * 3 + GET + b"Connection: close\r\n\r\n")

    assert answer.count(b"HTTP/1.1 200 ") == 4


async def _crowd(served: Served, count: int, stack: AsyncExitStack) -> list[Any]:
    pairs = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        stack.callback(writer.close)
        writer.write(GET + b"\r\n")
        pairs.append(await reader.readuntil(b"\r\n"))
    return pairs


@pytest.mark.parametrize(
    ("caps", "status", "code"),
    [
        ({"connections_max": 3}, 503, "overloaded"),
        ({"connections_per_address_max": 3}, 429, "rate_limited"),
    ],
)
async def test_connections_have_a_bound(tmp_path: Path, caps: dict[str, int], status: int, code: str) -> None:
    async with serving(tmp_path, **caps) as served:
        async with AsyncExitStack() as stack:
            assert all(b" 200 " in line for line in await _crowd(served, 3, stack))
            said = await served.wire(GET + b"\r\n")
            refused, problem = problem_of(said)
            assert (refused, problem["code"]) == (status, code)
            assert b"\r\nRetry-After: 1\r\n" in said
        async with asyncio.timeout(WAIT_S):
            while served.server.open_connections:  # noqa: ASYNC110 - it is a number, not an event
                await asyncio.sleep(0.001)
        assert (await served.ask("GET", "/healthz")).status == 200


async def test_bodies_in_memory_have_a_bound(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasktick.api.app.BODIES_MAX_BYTES", 1_000)
    answer = await served.ask("POST", "/v1/tasks", {"target": {"url": URL, "body": "x" * 2_000}})

    assert (answer.status, answer.code) == (503, "overloaded")
    assert (await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})).status == 201


async def _ask_and_take_nothing(served: Served) -> asyncio.StreamWriter:
    """A client that asks for more than any buffer between us holds, and reads none of it."""
    await served.create(key="large", delay=60, target={"url": URL, "body_text": "x" * 200_000})
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    door.setblocking(False)
    await asyncio.get_running_loop().sock_connect(door, ("127.0.0.1", served.port))
    reader, writer = await asyncio.open_connection(sock=door, limit=1)
    writer.write(
        100 * (b"GET /v1/tasks/key:large HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n\r\n" % served.key.encode())
    )
    assert await reader.read(1)
    return writer


async def _is_cut_off(served: Served, writer: asyncio.StreamWriter, others: int = 0) -> None:
    async with asyncio.timeout(WAIT_S):
        while served.server.open_connections > others:  # noqa: ASYNC110 - it is a number, not an event
            await asyncio.sleep(0.001)
    writer.close()


async def test_an_answer_that_nobody_takes_is_not_kept(tmp_path: Path) -> None:
    async with serving(tmp_path, body_timeout_ms=SHORT_MS, idle_timeout_ms=SHORT_MS) as served:
        await _is_cut_off(served, await _ask_and_take_nothing(served))


async def test_answers_that_nobody_takes_have_a_bound_in_all(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasktick.api.limits.UNSENT_MAX_BYTES", 100_000)
    await _is_cut_off(served, await _ask_and_take_nothing(served), others=1)

    assert (await served.ask("GET", "/v1/tasks")).status == 200
