"""Receivers whose TLS is at fault: none gets a byte of the request, none costs more than its deadline."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tasktick.dispatch.tls import client_context
from tests.fakes.authority import EXPIRED, FAR, FARTHER, Authority
from tests.fakes.receivers import (
    Behaviour,
    Receiver,
    answering,
    flooding,
    honest,
    knocked,
    knocked_down,
    resetting,
    respond,
    silent,
    slamming,
)
from tests.fakes.sending import FakeResolver, request, sending

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("each_sender")]

# Of a call that nothing but its deadline ends; and of one that must end sooner, by what came.
DEADLINE_MS = 250
FAR_DEADLINE_MS = 30_000
LATE_MS = 5_000
UNREAD_BYTES = 12 << 20
NAME = "receiver.example"
OK = b"HTTP/1.1 200 OK\r\n"
HANDSHAKE = b"\x16\x03\x03"
SKIPPED = (HANDSHAKE + b"\x00\x04\x00\x00\x00\x00") * 1_000
Server = Callable[[Authority], ssl.SSLContext]


class Fault(msgspec.Struct, frozen=True):
    """A receiver called by https, and what must become of it."""

    code: str
    words: str
    behave: Behaviour = honest
    server: Server | None = None

    @property
    def deadline_ms(self) -> int:
        return DEADLINE_MS if self.code == "connect_timeout" else FAR_DEADLINE_MS


def _in_handshake(words: str, behave: Behaviour) -> Fault:
    return Fault("tls_failed", words, behave)


CUT = "closed the connection during the handshake"

FAULTS = {
    "another address": Fault("tls_failed", "mismatch", server=lambda authority: authority.context("127.0.0.9")),
    "another name": Fault("tls_failed", "mismatch", server=lambda authority: authority.context("other.example")),
    "expired": Fault("tls_failed", "has expired", server=lambda authority: authority.context(NAME, end=EXPIRED)),
    "not yet valid": Fault(
        "tls_failed", "not yet valid", server=lambda authority: authority.context(NAME, start=FAR, end=FARTHER)
    ),
    "self-signed": Fault("tls_failed", "self-signed", server=lambda authority: authority.context(NAME, signed=False)),
    "plain, waiting": Fault("connect_timeout", "in time"),
    "plain, answering": _in_handshake("wrong version number", knocked(respond("400 Bad Request"))),
    "stalled": Fault("connect_timeout", "in time", knocked(b"", keep=True)),
    "stalled in a record": Fault("connect_timeout", "in time", knocked(HANDSHAKE + b"\x40\x00\x02", keep=True)),
    "dripped": Fault("connect_timeout", "in time", knocked(HANDSHAKE + b"\x40\x00", b"\x02")),
    "junk": _in_handshake("wrong version number", knocked(b"\x00\xff" * 500, keep=True)),
    "junk in a record": _in_handshake("unexpected message", knocked(HANDSHAKE + b"\x00\x10" + b"\xff" * 16, keep=True)),
    "junk without end": _in_handshake("", knocked(b"\x00\xff" * 500, b"\x00" * 65_536, pause_s=0)),
    # Empty messages that a client must skip.
    "records without end": _in_handshake("nothing but tls", knocked(b"", SKIPPED, pause_s=0)),
    "an alert": _in_handshake("handshake failure", knocked(b"\x15\x03\x03\x00\x02\x02\x28", keep=True)),
    "closed at once": _in_handshake(CUT, slamming),
    "closed in the handshake": _in_handshake(CUT, knocked(b"")),
    "closed in a record": _in_handshake(CUT, knocked(HANDSHAKE + b"\x01\x00\x02")),
    "reset in the handshake": _in_handshake(CUT, knocked_down),
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The one that senders trust in this test."""
    return Authority(tmp_path)


def trusting(authority: Authority) -> ssl.SSLContext:
    return client_context(str(authority.file))


def resolver() -> FakeResolver:
    return FakeResolver({NAME: ["127.0.0.1"]})


@pytest.mark.parametrize("name", FAULTS)
async def test_nothing_of_the_request_leaves(name: str, authority: Authority) -> None:
    fault = FAULTS[name]
    tls = fault.server(authority) if fault.server is not None else None
    good = authority.context(NAME)
    async with (
        Receiver(fault.behave, tls=tls) as hostile,
        Receiver(honest, tls=good) as other,
        sending(resolver=resolver(), tls=trusting(authority)) as sender,
    ):
        url = f"https://{NAME}:{hostile.port}/hook"
        harmed = asyncio.create_task(sender.send(request(url, timeout_ms=fault.deadline_ms)))
        served = await sender.send(request(f"https://{NAME}:{other.port}/hook"))
        outcome = await harmed
    assert (outcome.status, outcome.error_code, outcome.error_class) == (None, fault.code, "network"), outcome
    assert fault.words in outcome.detail
    assert not outcome.detail.endswith("..")
    assert not outcome.byte_left
    assert outcome.duration_ms < DEADLINE_MS + LATE_MS
    assert hostile.hits == []
    assert hostile.sent_bytes < UNREAD_BYTES
    assert (served.status, served.body) == (200, b"ok")


async def test_a_handshake_ends_with_the_connect_timeout(authority: Authority) -> None:
    async with (
        Receiver(knocked(b"", keep=True)) as receiver,
        sending(tls=trusting(authority), connect_timeout_ms=100) as sender,
    ):
        outcome = await sender.send(request(f"https://127.0.0.1:{receiver.port}/", timeout_ms=10_000))
    assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)
    assert outcome.duration_ms < 100 + LATE_MS


async def test_http_to_a_port_of_https(authority: Authority) -> None:
    async with Receiver(honest, tls=authority.context()) as receiver, sending(tls=trusting(authority)) as sender:
        outcome = await sender.send(request(receiver.url.replace("https", "http"), timeout_ms=FAR_DEADLINE_MS))
    assert outcome.error_code in {"reset", "bad_response"}
    assert receiver.hits == []


async def test_a_receiver_that_wants_a_certificate_of_us(authority: Authority) -> None:
    """In TLS 1.3 it says so when the request may have gone: the outcome is not known."""
    server = authority.context()
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.file)
    async with Receiver(honest, tls=server) as receiver, sending(tls=trusting(authority)) as sender:
        outcome = await sender.send(request(receiver.url))
    assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("reset", "network", True)
    assert receiver.hits == []


CASES: dict[str, tuple[Behaviour, tuple[int | None, str | None, bool]]] = {
    "silent": (silent, (None, "timeout", False)),
    "short body": (answering(respond(body=b"half")[:-2], then_close=True), (200, None, True)),
    "reset in the body": (resetting(OK + b"Content-Length: 9\r\n\r\nhalf"), (200, None, True)),
    "great body": (answering(OK + b"\r\n" + b"x" * 200_000, then_close=True), (200, None, True)),
    "interim flood": (flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000), (None, "bad_response", False)),
    "junk": (answering(b"\x00\xff" * 500), (None, "bad_response", False)),
}


@pytest.mark.parametrize("name", CASES)
async def test_good_tls_makes_no_receiver_honest(name: str, authority: Authority) -> None:
    behave, expected = CASES[name]
    deadline_ms = DEADLINE_MS if "timeout" in expected else FAR_DEADLINE_MS
    async with Receiver(behave, tls=authority.context()) as receiver, sending(tls=trusting(authority)) as sender:
        outcome = await sender.send(request(receiver.url, timeout_ms=deadline_ms))
    assert (outcome.status, outcome.error_code, outcome.truncated) == expected, outcome
    assert outcome.byte_left
    assert outcome.duration_ms < DEADLINE_MS + LATE_MS
    assert receiver.sent_bytes < UNREAD_BYTES
