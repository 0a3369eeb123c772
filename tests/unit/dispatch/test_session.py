"""What the session sender alone leans on inside aiohttp."""

import aiohttp
import msgspec
import pytest
from aiohttp import http_parser

from tasktick.dispatch.bounded_handler import BoundedHandler
from tasktick.dispatch.webhook import WebhookSender
from tests.fakes.receivers import Receiver, dying_keepalive, honest
from tests.fakes.sending import LOOPBACK, FakeResolver, monotonic_ms, request


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_control_the_client_would_have_sent_it_again(method: str) -> None:
    async with Receiver(dying_keepalive) as receiver:
        sender = WebhookSender(LOOPBACK, monotonic_ms, resolver=FakeResolver())
        await sender.start()
        assert sender._session is not None
        sender._session._retry_connection = True
        await sender.send(request(receiver.url, method))
        await sender.send(request(receiver.url, method))
        await sender.close()
    assert len(receiver.hits) == 3


async def test_the_start_fails_without_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, "HttpResponseParser", http_parser.HttpResponseParserPy)
    with pytest.raises(AssertionError, match="C parser"):
        await WebhookSender(LOOPBACK, monotonic_ms, resolver=FakeResolver()).start()


def test_the_client_still_has_the_switch_for_its_re_send() -> None:
    assert "_retry_connection" in aiohttp.ClientSession.ATTRS


async def test_nothing_leaves_that_was_stopped_between_its_connection_and_its_first_byte() -> None:
    """The process may be stopped between the two for longer than its claim lasts."""
    stopped_ms = 0.0

    def now_ms() -> float:
        return monotonic_ms() + stopped_ms

    async with Receiver(honest) as receiver:
        sender = WebhookSender(LOOPBACK, now_ms, resolver=FakeResolver())
        await sender.start()
        assert sender._connector is not None
        hand_out = sender._connector._on_connected

        def connected(handler: BoundedHandler) -> None:
            nonlocal stopped_ms
            hand_out(handler)
            stopped_ms += 60_000.0

        sender._connector._on_connected = connected
        outcome = await sender.send(request(receiver.url, start_within_ms=2_000))
        assert (outcome.status, outcome.error_code, outcome.byte_left) == (None, "too_late", False)
        assert receiver.hits == []
        sender._connector._on_connected = hand_out
        again = msgspec.structs.replace(request(receiver.url), start_by_ms=now_ms() + 2_000)
        assert (await sender.send(again)).status == 200
        await sender.close()
    assert len(receiver.hits) == 1
