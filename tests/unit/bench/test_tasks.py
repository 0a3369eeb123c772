"""What a bench sends, and what its receiver makes of it."""

import msgspec
import pytest

from bench.receiver import Tally
from bench.tasks import BODY_BYTES, body_of, instant, task

DUE_MS = 1_900_000_000_123


@pytest.mark.parametrize("number", [0, 7, 999_999])
def test_every_body_is_json_of_the_same_size(number: int) -> None:
    body = body_of(number)
    assert len(body) == BODY_BYTES
    assert msgspec.json.decode(body)["number"] == number


def test_a_task_carries_its_body_and_its_instant() -> None:
    made = msgspec.json.decode(msgspec.json.encode(task("http://127.0.0.1:9/x", DUE_MS, 3)))
    assert made["target"]["body"]["number"] == 3
    assert made["run_at"] == instant(DUE_MS) == "2030-03-17T17:46:40.123+00:00"


def test_the_receiver_counts_distinct_tasks_and_says_how_late_each_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.receiver.time.time_ns", lambda: DUE_MS * 1_000_000 + 1_500_000)
    tally = Tally()
    head = "post /x http/1.1\r\nwebhook-id: tsk_1\r\ntasktick-scheduled-at: 2030-03-17t17:46:40.123z\r\n"
    tally.hit(head.encode())
    tally.hit(head.encode())
    hits = msgspec.json.decode(tally.answer(b"/hits"))
    assert (hits["hits"], hits["distinct"]) == (2, 1)
    assert msgspec.json.decode(tally.answer(b"/stamps")) == [1_500.0, 1_500.0]
    tally.answer(b"/reset")
    assert msgspec.json.decode(tally.answer(b"/hits"))["hits"] == 0
