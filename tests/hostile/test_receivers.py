"""Receivers that mean harm: each costs its deadline, one connection and a bounded number of bytes.

An honest receiver beside each of them goes on being served.
"""

import asyncio
import tracemalloc

import pytest

from tasktick.dispatch.connector import ANSWER_BYTES_MAX, HEAD_BYTES_MAX
from tasktick.dispatch.outcome import BODY_BYTES_MAX, Outcome
from tests.fakes.receivers import (
    Behaviour,
    Receiver,
    answering,
    deaf,
    dripping,
    dying_keepalive,
    flooding,
    gzip_bomb,
    honest,
    resetting,
    respond,
    silent,
    slamming,
)
from tests.fakes.sending import LOOPBACK, FakeResolver, request, sending

pytestmark = pytest.mark.hostile

DEADLINE_MS = 250
# Room for a sweep, and for a machine with other things to do.
LATE_MS = 500
HONEST_MS = 1_000
# What the kernel and the loop take in before anybody looks at it.
UNREAD_BYTES = 12 << 20
HELD_BYTES = 8 << 20
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BOMB = gzip_bomb(64 << 20)

# What is answered, and what becomes of it: (status, error code, truncated).
CASES: dict[str, tuple[Behaviour, tuple[int | None, str | None, bool]]] = {
    "silent": (silent, (None, "timeout", False)),
    "deaf": (deaf, (None, "timeout", False)),
    "status line drip": (dripping(b"HTTP/1.1 200 ", b"O"), (None, "timeout", False)),
    "header drip": (dripping(OK, b"X: y\r\n"), (None, "timeout", False)),
    "header value drip": (dripping(OK + b"X: ", b"y"), (None, "timeout", False)),
    "interim drip": (dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (None, "bad_response", False)),
    "interim flood": (flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000), (None, "bad_response", False)),
    "one huge header": (flooding(OK + b"X: ", b"y" * 65_536), (None, "headers_too_large", False)),
    "one huge header name": (flooding(OK, b"y" * 65_536), (None, "headers_too_large", False)),
    "headers over the sum": (flooding(OK, b"X: " + b"y" * 1_000 + b"\r\n"), (None, "headers_too_large", False)),
    "many small headers": (flooding(OK, b"X: y\r\n" * 1_000), (None, "bad_response", False)),
    "endless status line": (flooding(b"HTTP/1.1 200 ", b"O" * 65_536), (None, "headers_too_large", False)),
    "body drip": (dripping(OK + b"Content-Length: 9999\r\n\r\n", b"x"), (200, None, True)),
    "chunk drip": (dripping(CHUNKED, b"1\r\nx\r\n"), (200, None, True)),
    "chunk extension flood": (flooding(CHUNKED + b"1;", b"e" * 65_536), (200, None, True)),
    "trailer flood": (flooding(CHUNKED + b"0\r\n", b"X: y\r\n" * 1_000), (200, None, True)),
    "endless body": (flooding(OK + b"\r\n", b"x" * 65_536), (200, None, True)),
    "endless sized body": (flooding(OK + b"Content-Length: 99999999999\r\n\r\n", b"x" * 65_536), (200, None, True)),
    "endless chunks": (flooding(CHUNKED, b"8000\r\n" + b"x" * 0x8000 + b"\r\n"), (200, None, True)),
    "small chunks": (flooding(CHUNKED, b"1\r\nx\r\n" * 10_000), (200, None, True)),
    "endless error": (flooding(b"HTTP/1.1 500 X\r\n\r\n", b"x" * 65_536), (500, None, True)),
    "gzip bomb": (answering(respond("200 OK", BOMB, "Content-Encoding: gzip")), (200, None, True)),
    "deflate lie": (answering(respond("200 OK", b"no gzip", "Content-Encoding: gzip")), (200, None, False)),
    "reset at once": (slamming, (None, "reset", False)),
    "reset before the answer": (resetting(b""), (None, "reset", False)),
    "reset in the headers": (resetting(OK + b"X: y\r\n"), (None, "reset", False)),
    "reset in the body": (resetting(OK + b"Content-Length: 9\r\n\r\nhalf"), (200, None, True)),
    "closed before the answer": (answering(b"", then_close=True), (None, "reset", False)),
    "closed in the headers": (answering(OK + b"X: y", then_close=True), (None, "reset", False)),
    "closed in the body": (answering(respond(body=b"half")[:-2], then_close=True), (200, None, True)),
    "closed in a chunk": (answering(CHUNKED + b"9\r\nhalf", then_close=True), (200, None, True)),
    "garbage": (answering(b"\x00\xff" * 500), (None, "bad_response", False)),
    "not http": (answering(b"SSH-2.0-OpenSSH_9.2\r\n"), (None, "bad_response", False)),
    "status of four digits": (answering(b"HTTP/1.1 2000 OK\r\n\r\n"), (None, "bad_response", False)),
    "two lengths": (answering(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), (None, "bad_response", False)),
    "length and chunks": (
        answering(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (None, "bad_response", False),
    ),
    "negative length": (answering(OK + b"Content-Length: -1\r\n\r\n"), (None, "bad_response", False)),
    "bad chunk": (answering(CHUNKED + b"zz\r\n"), (200, None, True)),
    "redirect without end": (answering(respond("302 Found", b"", "Location: /hook")), (302, "redirect", False)),
}


def judged(outcome: Outcome) -> tuple[int | None, str | None, bool]:
    return outcome.status, outcome.error_code, outcome.truncated


@pytest.mark.parametrize("name", CASES)
async def test_it_is_bounded_and_the_honest_are_served(name: str) -> None:
    behave, expected = CASES[name]
    async with Receiver(behave) as hostile, Receiver(honest) as other, sending() as sender:
        tracemalloc.start()
        harmed = asyncio.create_task(sender.send(request(hostile.url, timeout_ms=DEADLINE_MS)))
        served = await sender.send(request(other.url))
        outcome = await harmed
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert judged(outcome) == expected, outcome
        assert outcome.byte_left
        assert outcome.duration_ms < DEADLINE_MS + LATE_MS
        assert len(outcome.body) <= BODY_BYTES_MAX
        assert hostile.connections == 1
        assert hostile.sent_bytes < UNREAD_BYTES
        assert peak_bytes < HELD_BYTES
        assert (served.status, served.body) == (200, b"ok")
        assert served.duration_ms < HONEST_MS


@pytest.mark.parametrize("name", [name for name in CASES if name not in {"deflate lie", "redirect without end"}])
async def test_the_connection_is_not_used_again(name: str) -> None:
    async with Receiver(CASES[name][0]) as hostile, sending() as sender:
        for _ in range(2):
            await sender.send(request(hostile.url, timeout_ms=60))
        assert hostile.connections == 2
        assert len(hostile.hits) <= 2


@pytest.mark.parametrize("kept", ["half of it"])
async def test_what_came_of_a_body_is_kept(kept: str) -> None:
    head = OK + b"Content-Length: 99\r\n\r\n"
    for behave in (resetting(head + kept.encode()), answering(head + kept.encode(), then_close=True)):
        async with Receiver(behave) as receiver, sending() as sender:
            outcome = await sender.send(request(receiver.url))
            assert (outcome.body, outcome.truncated) == (kept.encode(), True)


async def test_a_gzip_bomb_is_kept_as_it_came() -> None:
    async with Receiver(CASES["gzip bomb"][0]) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url))
    assert outcome.body == BOMB[:BODY_BYTES_MAX]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_redirect_to_this_machine_is_not_followed(status: int, method: str) -> None:
    """Not even where the range is allowed."""
    resolver = FakeResolver({"canary.example": ["127.0.0.1"]})
    async with Receiver(honest) as canary, sending(LOOPBACK, resolver) as sender:
        for target in (canary.url, f"http://canary.example:{canary.port}/", f"//127.0.0.1:{canary.port}/"):
            answer = respond(f"{status} Moved", b"", f"Location: {target}", f"Refresh: 0; url={target}")
            async with Receiver(answering(answer)) as receiver:
                outcome = await sender.send(request(receiver.url, method))
                assert (outcome.status, outcome.error_code) == (status, "redirect")
        assert canary.connections == 0


async def test_headers_just_within_the_bound_are_read() -> None:
    value = "y" * (HEAD_BYTES_MAX - 1_000)
    async with Receiver(answering(respond("200 OK", b"ok", f"X: {value}"))) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url))
    assert (outcome.status, outcome.error_code) == (200, None)


async def test_a_body_under_the_cap_in_wasteful_chunks_is_bounded_too() -> None:
    chunk = b"1;" + b"e" * 200 + b"\r\nx\r\n"
    behave = answering(CHUNKED + chunk * (2 * ANSWER_BYTES_MAX // len(chunk)) + b"0\r\n\r\n")
    async with Receiver(behave) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url))
    assert (outcome.status, outcome.truncated) == (200, True)


async def test_a_dying_connection_costs_one_request() -> None:
    async with Receiver(dying_keepalive) as receiver, sending() as sender:
        outcomes = [await sender.send(request(receiver.url, "GET")) for _ in range(4)]
    assert [outcome.error_code for outcome in outcomes] == [None, "reset", None, "reset"]
    assert len(receiver.hits) == 4


async def test_a_crowd_of_hostile_receivers_leaves_the_honest_their_second() -> None:
    behaviours = [silent, CASES["header drip"][0], CASES["body drip"][0], CASES["endless body"][0], slamming]
    async with Receiver(honest) as other, sending() as sender:
        receivers = [await Receiver(behave).__aenter__() for behave in behaviours]
        harmed = [
            asyncio.create_task(sender.send(request(receiver.url, timeout_ms=2_000)))
            for _ in range(40)
            for receiver in receivers
        ]
        served = [await sender.send(request(other.url)) for _ in range(50)]
        outcomes = await asyncio.gather(*harmed)
        for receiver in receivers:
            await receiver.__aexit__(None, None, None)
    assert max(outcome.duration_ms for outcome in served) < HONEST_MS
    assert all(outcome.status == 200 for outcome in served)
    assert max(outcome.duration_ms for outcome in outcomes) < 2_000 + LATE_MS
    assert sender.in_flight == 0


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_a_body_where_there_is_none_is_nobody_elses_answer(status: str) -> None:
    async def late_body(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await receiver.read_request(reader)
            await receiver.write(writer, f"HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\n".encode())
            await receiver.read_request(reader)  # the next request is on its way when the body comes
            await receiver.write(writer, b"abc")

    async with Receiver(late_body) as receiver, sending() as sender:
        outcomes = [await sender.send(request(receiver.url)) for _ in range(3)]

    assert {outcome.status for outcome in outcomes} == {int(status[:3])}
