"""The sender while it connects, and against its deadlines: what has left is told from what has not."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp.abc import ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tasktick.dispatch.outcome import Request
from tests.fakes.receivers import Receiver, answering, honest, silent
from tests.fakes.sending import FakeResolver, monotonic_ms, new_sender, request, sending, until

pytestmark = pytest.mark.usefixtures("each_sender")

BRIEF_MS = 60
LARGE_BYTES = 200_000
# A loop may wake so much before the time.
EARLY_MS = 2


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
        sender = new_sender()
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
    assert BRIEF_MS - EARLY_MS <= outcome.duration_ms < 5_000


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
    now_ms = 0.0

    class Slow(FakeResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            nonlocal now_ms
            now_ms = 2.0
            return await super().resolve(host, port, family)

    async with Receiver(honest) as receiver:
        sender = new_sender(monotonic=lambda: now_ms, resolver=Slow({"slow.test": ["127.0.0.1"]}))
        await sender.start()
        url = f"http://slow.test:{receiver.port}/"
        outcome = await sender.send(Request("POST", url, [], b"{}", deadline_ms=9.0, start_by_ms=1.0))
        await sender.close()
        assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)
        assert receiver.hits == []


async def test_the_start_delay_does_not_end_what_has_started() -> None:
    async with Receiver(silent) as receiver, sending() as sender:
        asked = request(receiver.url, timeout_ms=BRIEF_MS * 3, start_within_ms=BRIEF_MS)
        outcome = await sender.send(asked)
    assert outcome.error_code == "timeout"
    # It may have started a while after it was asked for, and what counts is the deadline.
    assert outcome.started_at_monotonic_ms is not None
    assert outcome.started_at_monotonic_ms + outcome.duration_ms >= asked.deadline_ms - EARLY_MS


async def test_nothing_arrives_after_the_deadline() -> None:
    """What the kernel still holds of a request that was given up is dropped with it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        async with sending() as sender:
            outcome = await sender.send(request(url, body=b"x" * LARGE_BYTES, timeout_ms=BRIEF_MS))
            assert outcome.error_code == "timeout"
            loop = asyncio.get_running_loop()
            arrived = b""
            with pytest.raises(ConnectionResetError):  # noqa: PT012 # what comes before the reset is of interest
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    while part := await loop.sock_recv(connection, LARGE_BYTES):
                        arrived += part
            assert len(arrived) < LARGE_BYTES


async def test_sweeping_ends_only_what_is_past_its_deadline() -> None:
    async with Receiver(silent) as receiver:
        sender = new_sender(resolver=FakeResolver())
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
