"""The sender: what goes out, what comes back, and what is known when nothing does. Real sockets."""

import asyncio

import pytest

from tasktick.dispatch.bounds import BODY_BYTES_MAX, KEPT_HEADERS_MAX
from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.outcome import Outcome
from tests.fakes.receivers import Receiver, answering, dying_keepalive, honest, respond, silent
from tests.fakes.sending import LOOPBACK, NOTHING_ALLOWED, request, sending, until

pytestmark = pytest.mark.usefixtures("each_sender")

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


async def answer_to(answer: bytes, method: str = "POST") -> Outcome:
    """What becomes of one request that gets this answer."""
    async with Receiver(answering(answer)) as receiver, sending() as sender:
        return await sender.send(request(receiver.url, method, timeout_ms=10_000))


@pytest.mark.parametrize("method", METHODS)
async def test_the_request_arrives_as_it_was_given(method: str) -> None:
    body = b"" if method in {"GET", "HEAD"} else '{"text": "ü\\u0000"}'.encode()
    async with Receiver(honest) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url + "?a=%2B&b=1+2", method, body))
    (hit,) = receiver.hits
    assert (hit.method, hit.path, hit.body) == (method, "/hook?a=%2B&b=1+2", body)
    names = [line.partition(b":")[0].lower() for line in hit.head.splitlines()[1:] if line]
    assert len(names) == len(set(names))
    assert hit.headers["user-agent"] == "TaskTick/test"
    assert hit.headers["accept-encoding"] == "identity"
    assert (outcome.status, outcome.error_code, outcome.truncated, outcome.byte_left) == (200, None, False, True)
    assert outcome.body == (b"" if method == "HEAD" else b"ok")
    assert outcome.headers == [("Content-Length", "2")]
    assert 0 < outcome.duration_ms < 5_000


async def test_connections_are_kept() -> None:
    async with Receiver(honest) as receiver, sending() as sender:
        for _ in range(5):
            await sender.send(request(receiver.url))
        assert (receiver.connections, len(receiver.hits)) == (1, 5)


async def test_a_change_of_policy_ends_what_was_kept() -> None:
    async with Receiver(honest) as receiver, sending() as sender:
        assert (await sender.send(request(receiver.url))).status == 200
        sender.obey(NOTHING_ALLOWED)
        refused = await sender.send(request(receiver.url))
        assert (refused.status, refused.error_code, refused.byte_left) == (None, "forbidden_address", False)
        sender.obey(LOOPBACK)
        assert (await sender.send(request(receiver.url))).status == 200
        assert (receiver.connections, len(receiver.hits)) == (2, 2)


async def test_a_policy_of_the_same_effect_goes_on_with_a_new_connection() -> None:
    async with Receiver(honest) as receiver, sending(connections_max=1) as sender:
        for _ in range(2):
            assert (await sender.send(request(receiver.url))).status == 200
            sender.obey(AddressPolicy.of(["127.0.0.0/8"]))
        assert receiver.connections == 2


@pytest.mark.parametrize("method", METHODS)
async def test_one_send_writes_one_request_over_a_dying_connection(method: str) -> None:
    async with Receiver(dying_keepalive) as receiver, sending() as sender:
        first = await sender.send(request(receiver.url, method))
        second = await sender.send(request(receiver.url, method))
    assert first.status == 200
    assert (second.status, second.error_code, second.error_class) == (None, "reset", "network")
    assert second.byte_left
    assert [hit.method for hit in receiver.hits] == [method, method]
    assert receiver.connections == 1


@pytest.mark.parametrize("status", [200, 201, 202, 204, 400, 404, 410, 429, 500, 503])
async def test_a_status_is_an_answer(status: int) -> None:
    outcome = await answer_to(respond(f"{status} X", b"" if status == 204 else b"ok", "Retry-After: 7"))
    assert (outcome.status, outcome.error_code, outcome.error_class, outcome.detail) == (status, None, None, "")
    assert ("Retry-After", "7") in outcome.headers


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
async def test_a_redirect_is_a_failure(status: int) -> None:
    outcome = await answer_to(respond(f"{status} X", b"", "Location: /elsewhere"))
    assert (outcome.status, outcome.error_code, outcome.error_class) == (status, "redirect", "receiver")


async def test_ten_interim_answers_are_patience_enough() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (await answer_to(interim * 10 + respond())).status == 200
    outcome = await answer_to(interim * 11 + respond())
    assert (outcome.status, outcome.error_code, outcome.byte_left) == (None, "bad_response", True)


async def test_switching_protocols_is_no_answer() -> None:
    switch = b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nmore"
    async with Receiver(answering(switch)) as receiver, sending(connections_max=1) as sender:
        for _ in range(2):  # the second one needs the first one's place in the pool
            outcome = await sender.send(request(receiver.url))
            assert (outcome.status, outcome.error_code, outcome.truncated) == (101, "bad_response", False)


@pytest.mark.parametrize("beyond", [-8_192, 0, 1])
async def test_the_body_is_kept_up_to_its_cap(beyond: int) -> None:
    body = b"x" * (BODY_BYTES_MAX + beyond)
    async with Receiver(answering(respond(body=body))) as receiver, sending() as sender:
        for _ in range(2):
            outcome = await sender.send(request(receiver.url))
            assert (outcome.status, outcome.body, outcome.truncated) == (200, body[:BODY_BYTES_MAX], beyond > 0)
        assert receiver.connections == (1 if beyond < 0 else 2)  # a large answer ends its connection


async def test_chunked_bodies_are_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    outcome = await answer_to(head + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\nX-Trailer: 1\r\n\r\n")
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"abc", False)


async def test_a_body_may_end_with_the_connection() -> None:
    async with (
        Receiver(answering(b"HTTP/1.1 200 OK\r\n\r\nto the end", then_close=True)) as receiver,
        sending() as sender,
    ):
        outcome = await sender.send(request(receiver.url))
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"to the end", False)


async def test_kept_headers_are_bounded_and_printable() -> None:
    outcome = await answer_to(respond("200 OK", b"ok", *(f"X-{n}: {n}" for n in range(100))))
    assert len(outcome.headers) == KEPT_HEADERS_MAX
    outcome = await answer_to(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\xff\xc3\xbc\tb\r\n\r\n")
    assert dict(outcome.headers)["X"] == "a\N{REPLACEMENT CHARACTER}ü\N{REPLACEMENT CHARACTER}b"
    "".join(value for _, value in outcome.headers).encode()


async def test_bytes_after_an_answer_never_answer_the_next_request() -> None:
    stray = respond("500 Stray", b"stray")
    async with Receiver(answering(respond() + stray)) as receiver, sending() as sender:
        for _ in range(3):
            outcome = await sender.send(request(receiver.url))
            assert (outcome.status, outcome.body) == (200, b"ok")
        assert receiver.connections == 3


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000])
async def test_how_an_answer_is_cut_up_does_not_matter(size: int) -> None:
    whole = b"HTTP/1.1 102 Wait\r\n\r\n" + respond("200 OK", b"\r\n\r\n", "X-A: b") + b"\r\nnot asked for"

    async def cut(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        for start in range(0, len(whole), size):
            await receiver.write(writer, whole[start : start + size])
            await asyncio.sleep(0)

    async with Receiver(cut) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url))
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"\r\n\r\n", False)
    assert outcome.headers == [("Content-Length", "4"), ("X-A", "b")]


async def test_bytes_between_requests_close_the_connection() -> None:
    asked = asyncio.Event()

    async def late(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        await receiver.write(writer, respond())
        await asked.wait()
        await receiver.write(writer, respond("500 Stray"))
        assert await reader.read() == b""  # closed by the sender
        asked.clear()

    async with Receiver(late) as receiver, sending() as sender:
        assert (await sender.send(request(receiver.url))).status == 200
        asked.set()
        await until(lambda: not asked.is_set())
        assert (await sender.send(request(receiver.url))).status == 200
        assert receiver.connections == 2


@pytest.mark.parametrize(
    "url", ["http://secret-host.example/?token=hunter2", "http://127.0.0.1:1/?token=hunter2", "::hunter2", ""]
)
async def test_no_detail_quotes_the_url(url: str) -> None:
    async with sending() as sender:
        outcome = await sender.send(request(url))
    assert outcome.error_code in {"dns_failed", "connect_failed", "bad_target"}
    assert "hunter2" not in outcome.detail
    assert "secret-host" not in outcome.detail
    assert not outcome.byte_left


async def test_a_closed_sender_says_so_and_does_not_raise() -> None:
    async with sending() as sender:
        await sender.close()
        outcome = await sender.send(request("http://127.0.0.1:1/"))
    assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("internal", "platform", False)


async def test_closing_cuts_off_who_still_sends() -> None:
    async with Receiver(silent) as receiver, sending() as sender:
        send = asyncio.create_task(sender.send(request(receiver.url)))
        await until(lambda: bool(receiver.hits))
        await sender.close()
        assert (await send).error_code == "reset"


async def test_cookies_are_not_kept() -> None:
    async with (
        Receiver(answering(respond("200 OK", b"ok", "Set-Cookie: a=b; Path=/"))) as receiver,
        sending() as sender,
    ):
        for _ in range(2):
            await sender.send(request(receiver.url))
    assert all("cookie" not in hit.headers for hit in receiver.hits)
