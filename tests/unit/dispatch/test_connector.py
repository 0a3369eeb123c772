"""The descriptor of a connection whose TLS fails: closed once, whatever has its number afterwards."""

import gc
import os
import socket
import weakref
from collections.abc import Callable
from typing import Any

import aiohappyeyeballs
import pytest

from tests.fakes.sending import request, sending, until

pytestmark = pytest.mark.usefixtures("each_sender")

Harm = Callable[[socket.socket], None]
KEPT: list[socket.socket] = []


def reset(accepted: socket.socket) -> None:
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    accepted.close()


def stall(accepted: socket.socket) -> None:
    KEPT.append(accepted)


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("harm", "code"),
    [(reset, "tls_failed"), (socket.socket.close, "tls_failed"), (stall, "connect_timeout")],
    ids=["reset", "closed", "stalled"],
)
async def test_nothing_closes_a_number_that_is_another_connections(
    harm: Harm, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []
    held: list[socket.socket] = []  # as an error's frames hold it, for longer than the number is its own
    dial = aiohappyeyeballs.start_connection

    async def dial_and_be_harmed(*given: Any, **options: Any) -> socket.socket:
        dialled = await dial(*given, **options)
        numbers.append(dialled.fileno())
        held.append(dialled)
        harm(door.accept()[0])  # before a byte of TLS is written
        return dialled

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", dial_and_be_harmed)
    with socket.socket() as other, socket.create_server(("127.0.0.1", 0)) as door:
        async with sending(connect_timeout_ms=50) as sender:
            outcome = await sender.send(request(f"https://127.0.0.1:{door.getsockname()[1]}/"))
            assert (outcome.error_code, outcome.byte_left) == (code, False), outcome
            (number,) = numbers
            await until(lambda: not is_open(number))
            os.dup2(other.fileno(), number)
            collected = weakref.ref(held.pop())
            await until(lambda: gc.collect() >= 0 and collected() is None)
            assert is_open(number)
            os.close(number)
    while KEPT:
        KEPT.pop().close()
