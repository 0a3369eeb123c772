"""The sender: what goes out, what comes back, and what is known when nothing does. Real sockets."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest
from aiohttp import http_parser
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tasktick.dispatch.outcome import BODY_BYTES_MAX, Outcome, Request
from tasktick.dispatch.webhook import KEPT_HEADERS_MAX, WebhookSender
from tests.fakes.receivers import Receiver, answering, deaf, dying_keepalive, honest, respond, silent
from tests.fakes.sending import LOOPBACK, FakeResolver, monotonic_ms, request, sending, until

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
BRIEF_MS = 60


async def answer_to(answer: bytes, method: str = "POST") -> Outcome:
    """What becomes of one request that gets this answer."""
    async with Receiver(answering(answer)) as receiver, sending() as sender:
        return await sender.send(request(receiver.url, method, timeout_ms=1_000))


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port that answers no SYN: its queue of connections is full and nobody takes them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for one in waiting:
            one.close()


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """A server's context with a certificate that nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    start = datetime.datetime.fromtimestamp(0, datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "receiver.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


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


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_control_the_client_would_have_sent_it_again(method: str) -> None:
    async with Receiver(dying_keepalive) as receiver, sending() as sender:
        assert sender._session is not None
        sender._session._retry_connection = True
        await sender.send(request(receiver.url, method))
        await sender.send(request(receiver.url, method))
    assert len(receiver.hits) == 3


async def test_the_start_fails_without_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, "HttpResponseParser", http_parser.HttpResponseParserPy)
    with pytest.raises(AssertionError, match="C parser"):
        await WebhookSender(LOOPBACK, monotonic_ms, resolver=FakeResolver()).start()


async def test_nothing_listens() -> None:
    async with Receiver(honest) as receiver:
        url = receiver.url
    async with sending() as sender:
        outcome = await sender.send(request(url))
    assert (outcome.status, outcome.error_code, outcome.error_class) == (None, "connect_failed", "network")
    assert not outcome.byte_left
    assert outcome.detail == "The connection could not be made: Connection refused."


async def test_an_unknown_name() -> None:
    async with sending() as sender:
        outcome = await sender.send(request("http://nowhere.example/"))
    assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("dns_failed", "network", False)


async def test_the_system_is_asked_for_names() -> None:
    async with Receiver(honest) as receiver:
        sender = WebhookSender(LOOPBACK, monotonic_ms)
        await sender.start()
        outcome = await sender.send(request(f"http://localhost:{receiver.port}/"))
        await sender.close()
    assert outcome.status == 200


async def test_an_unsigned_certificate_gets_no_request(tls: ssl.SSLContext) -> None:
    async with Receiver(honest, tls=tls) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url))
    assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("tls_failed", "network", False)
    assert "certificate" in outcome.detail
    assert receiver.hits == []


async def test_a_receiver_without_tls() -> None:
    async with Receiver(answering(b"")) as receiver, sending() as sender:
        url = receiver.url.replace("http", "https")
        outcome = await sender.send(request(url, timeout_ms=BRIEF_MS))
    assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)


async def test_no_connection_within_the_connect_timeout() -> None:
    with full_backlog() as port:
        async with sending(connect_timeout_ms=BRIEF_MS) as sender:
            outcome = await sender.send(request(f"http://127.0.0.1:{port}/"))
    assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("connect_timeout", "network", False)
    assert BRIEF_MS <= outcome.duration_ms < 5_000


async def test_no_connection_by_the_deadline() -> None:
    with full_backlog() as port:
        async with sending() as sender:
            outcome = await sender.send(request(f"http://127.0.0.1:{port}/", timeout_ms=BRIEF_MS))
    assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)


async def test_nothing_is_sent_past_the_start_delay() -> None:
    async with Receiver(honest) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url, start_within_ms=-1))
        assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("too_late", "platform", False)
        assert receiver.connections == 0


async def test_connecting_ends_with_the_start_delay() -> None:
    with full_backlog() as port:
        async with sending() as sender:
            outcome = await sender.send(request(f"http://127.0.0.1:{port}/", start_within_ms=BRIEF_MS))
    assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)
    assert outcome.duration_ms < 5_000


async def test_a_connection_made_too_late_is_not_written_to() -> None:
    """The clock is looked at again between connecting and writing."""
    ticks = iter([0.0, 2.0])
    async with Receiver(honest) as receiver:
        sender = WebhookSender(LOOPBACK, lambda: next(ticks, 3.0), resolver=FakeResolver())
        await sender.start()
        late = Request("POST", receiver.url, [], b"{}", deadline_ms=9.0, start_by_ms=1.0)
        outcome = await sender.send(late)
        await sender.close()
        assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)
        assert receiver.hits == []


async def test_the_start_delay_does_not_end_what_has_started() -> None:
    async with Receiver(silent) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url, timeout_ms=BRIEF_MS * 3, start_within_ms=BRIEF_MS))
    assert outcome.error_code == "timeout"
    assert outcome.duration_ms >= BRIEF_MS * 3


async def test_sweeping_ends_only_what_is_past_its_deadline() -> None:
    async with Receiver(silent) as receiver:
        sender = WebhookSender(LOOPBACK, monotonic_ms, resolver=FakeResolver())
        await sender.start()
        now_ms = monotonic_ms()
        sends = [asyncio.create_task(sender.send(request(receiver.url, timeout_ms=ms))) for ms in (1_000, 2_000)]
        await until(lambda: len(receiver.hits) == 2)
        assert sender.in_flight == 2
        assert sender.sweep(now_ms) == 0
        assert sender.sweep(now_ms + 1_500) == 1
        assert sender.sweep(now_ms + 1_500) == 0
        assert (await sends[0]).error_code == "timeout"
        assert not sends[1].done()
        assert sender.sweep(now_ms + 3_000) == 1
        assert (await sends[1]).error_code == "timeout"
        assert sender.in_flight == 0
        assert sender.sweep(now_ms + 9_000) == 0
        await sender.close()


@pytest.mark.parametrize("swept", [False, True])
async def test_whoever_cancels_a_send_gets_its_cancellation(swept: bool) -> None:
    async with Receiver(silent) as receiver, sending() as sender:
        send = asyncio.create_task(sender.send(request(receiver.url)))
        await until(lambda: bool(receiver.hits))
        if swept:
            assert sender.sweep(monotonic_ms() * 2) == 1
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        assert sender.in_flight == 0


async def test_a_task_that_was_swept_goes_on() -> None:
    async with Receiver(silent) as receiver, sending() as sender:
        outcome = await sender.send(request(receiver.url, timeout_ms=BRIEF_MS))
        assert (outcome.error_code, outcome.error_class, outcome.byte_left) == ("timeout", "receiver", True)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


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
    outcome = await answer_to(b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nmore")
    assert (outcome.status, outcome.error_code) == (101, "bad_response")


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
    async with Receiver(deaf) as receiver, sending() as sender:
        send = asyncio.create_task(sender.send(request(receiver.url)))
        await until(lambda: bool(receiver.connections))
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


def test_the_client_still_has_the_switch_for_its_re_send() -> None:
    assert "_retry_connection" in aiohttp.ClientSession.ATTRS
