"""Receivers that mean harm: each costs its deadline, one connection and a bounded number of bytes.

An honest receiver beside each of them goes on being served.
"""

import asyncio
import tracemalloc

import pytest

from tasktick.dispatch.bounds import ANSWER_BYTES_MAX, BODY_BYTES_MAX, HEAD_BYTES_MAX
from tasktick.dispatch.outcome import Outcome
from tests.fakes.receivers import (
    Receiver,
    answering,
    dying_keepalive,
    honest,
    resetting,
    respond,
    silent,
    slamming,
    speaking_first,
)
from tests.fakes.sending import LOOPBACK, FakeResolver, request, sending
from tests.hostile.cases import BOMB, CASES, CHUNKED, ENDLESS, OK, POLITE

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("each_sender")]

# Of a call that nothing but its deadline ends; and of one that must end sooner, by what came.
DEADLINE_MS = 250
FAR_DEADLINE_MS = 30_000
# Room for a sweep, and for a machine with other things to do.
LATE_MS = 5_000
HONEST_MS = 1_000
# What the kernel and the loop take in before anybody looks at it.
UNREAD_BYTES = 12 << 20
HELD_BYTES = 8 << 20


def deadline_ms(name: str) -> int:
    return DEADLINE_MS if name in ENDLESS else FAR_DEADLINE_MS


def judged(outcome: Outcome) -> tuple[int | None, str | None, bool]:
    return outcome.status, outcome.error_code, outcome.truncated


@pytest.mark.parametrize("name", CASES)
async def test_it_is_bounded_and_the_honest_are_served(name: str) -> None:
    behave, expected = CASES[name]
    async with Receiver(behave) as hostile, Receiver(honest) as other, sending() as sender:
        tracemalloc.start()
        asked = request(hostile.url, timeout_ms=deadline_ms(name))
        harmed = asyncio.create_task(sender.send(asked))
        served = await sender.send(request(other.url))
        outcome = await harmed
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert judged(outcome) == expected, outcome
        assert outcome.byte_left
        assert outcome.duration_ms < DEADLINE_MS + LATE_MS
        ended_at_ms = outcome.started_at_monotonic_ms + outcome.duration_ms
        assert ended_at_ms >= asked.deadline_ms or name not in ENDLESS
        assert len(outcome.body) <= BODY_BYTES_MAX
        assert hostile.connections == 1
        assert hostile.sent_bytes < UNREAD_BYTES
        assert peak_bytes < HELD_BYTES
        assert (served.status, served.body) == (200, b"ok")
        assert served.duration_ms < HONEST_MS


@pytest.mark.parametrize("name", [name for name in CASES if name not in POLITE])
async def test_the_connection_is_not_used_again(name: str) -> None:
    async with Receiver(CASES[name][0]) as hostile, sending() as sender:
        for _ in range(2):
            await sender.send(request(hostile.url, timeout_ms=deadline_ms(name)))
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


async def test_a_flood_before_the_request_is_bounded() -> None:
    async with Receiver(speaking_first(b"y" * 65_536, 1_000)) as receiver, sending() as sender:
        for _ in range(3):
            outcome = await sender.send(request(receiver.url, timeout_ms=FAR_DEADLINE_MS))
            assert outcome.error_code in {"bad_response", "headers_too_large", "reset"}
        assert receiver.sent_bytes < 3 * UNREAD_BYTES


@pytest.mark.parametrize("more", [respond(body=b"forged"), b"HTTP/1.1 100 Continue\r\n\r\n", b"junk"])
@pytest.mark.parametrize("pause_s", [0.0, 0.02])
async def test_bytes_after_an_answer_are_nobody_elses_answer(more: bytes, pause_s: float) -> None:
    async def unasked(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        if pause_s:
            await receiver.write(writer, respond(body=b"own"))
            await asyncio.sleep(pause_s)
            await receiver.write(writer, more)
        else:
            await receiver.write(writer, respond(body=b"own") + more)
        await reader.read()

    async with Receiver(unasked) as receiver, sending() as sender:
        for _ in range(2):
            outcome = await sender.send(request(receiver.url))
            assert (outcome.status, outcome.body) == (200, b"own")
            await asyncio.sleep(3 * pause_s)
        assert receiver.connections == 2


async def test_what_came_before_a_fault_in_the_framing_is_kept_and_nobody_waits() -> None:
    async with Receiver(answering(CHUNKED + b"4\r\nhalf\r\nzz\r\n")) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url, timeout_ms=10_000))
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"half", True)
    assert outcome.duration_ms < 10_000
