"""Whatever a receiver answers, in whatever pieces, every sender makes the same outcome of it.

Two things the wire does better, and they are kept out of here. The session forgets an answer whose head ends in a bare
LF if something malformed comes in one piece with it. And it takes a body that ends with the connection for whole when
that was reset.
"""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tasktick.dispatch.outcome import Outcome
from tests.fakes import sending as senders
from tests.fakes.receivers import Receiver
from tests.fakes.sending import request, sending
from tests.property.answers import METHODS, in_pieces

pytestmark = pytest.mark.slow


async def outcome_of(kind: str, method: str, pieces: list[bytes]) -> Outcome:
    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        for piece in pieces:
            await receiver.write(writer, piece)
            await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(senders, "CHOSEN", kind)
        async with Receiver(behave) as receiver, sending() as sender:
            return await sender.send(request(receiver.url, method))


def without_time(outcome: Outcome) -> Outcome:
    return msgspec.structs.replace(outcome, started_at_monotonic_ms=0.0, duration_ms=0.0)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(METHODS, in_pieces())
async def test_every_sender_makes_the_same_of_it(method: str, pieces: list[bytes]) -> None:
    session = without_time(await outcome_of("session", method, pieces))
    wire = without_time(await outcome_of("wire", method, pieces))
    assert wire == session
