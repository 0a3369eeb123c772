"""The receiver that remembers, over real sockets."""

import asyncio
from pathlib import Path

from tests.chaos.history import Answered, HistoryWriter, Hit
from tests.chaos.receiver import PLANS, Receiver, plan_of

DEADLINE_S = 5.0


def request(behaviour: str, attempt: int, body: bytes = b"{}") -> bytes:
    head = f"POST /hook/{behaviour}/m1 HTTP/1.1\r\nTaskTick-Attempt: {attempt}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def exchange(tmp_path: Path, *requests: bytes) -> tuple[bytes, list[object]]:
    """Send these on one connection; what came back until it ended, and the history."""
    history = HistoryWriter(tmp_path / "history.jsonl")
    async with asyncio.timeout(DEADLINE_S), Receiver(history) as receiver:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        writer.writelines(requests)
        writer.write_eof()
        answer = b""
        try:
            answer = await reader.read()
        except ConnectionResetError:
            answer = b"reset"
        writer.close()
    history.close()
    return answer, list(history.records)


async def test_it_writes_down_a_request_before_its_answer(tmp_path: Path) -> None:
    answer, records = await exchange(tmp_path, request("flaky", 1), request("flaky", 3, b"x"))
    assert answer.index(b"HTTP/1.1 500 ") < answer.index(b"HTTP/1.1 200 ")
    assert [type(one) for one in records] == [Hit, Answered, Hit, Answered]
    first, answered, second, _ = records
    assert isinstance(first, Hit)
    assert isinstance(answered, Answered)
    assert isinstance(second, Hit)
    assert (first.headers["tasktick-attempt"], answered.status, second.body) == ("1", 500, b"x")
    assert first.connection == second.connection


async def test_half_a_request_is_no_hit(tmp_path: Path) -> None:
    _, records = await exchange(tmp_path, request("ok", 1, b"0123456789")[:-3])
    assert records == []


async def test_a_reset_is_a_reset(tmp_path: Path) -> None:
    answer, records = await exchange(tmp_path, request("reset", 1))
    assert answer in (b"reset", b"")
    assert isinstance(records[-1], Answered)
    assert (records[-1].how, records[-1].status) == ("reset", None)


async def test_a_sender_that_goes_is_seen(tmp_path: Path) -> None:
    _, records = await exchange(tmp_path, request("hang", 1))
    assert isinstance(records[-1], Answered)
    assert records[-1].how == "gone"


def test_each_behaviour_settles_in_the_end() -> None:
    for behaviour, plans in PLANS.items():
        assert plan_of(behaviour, 99) == plans[-1]
        assert plan_of(behaviour, 1) == plans[0]
