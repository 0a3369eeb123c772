"""The row of a task that is asked for is the row of the task that is made of it, whatever is asked for."""

from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tasktick.access.vault import Vault
from tasktick.api.decoding import Decoder
from tasktick.api.schemas import TaskRequest
from tasktick.api.target_requests import Sealing
from tasktick.api.task_requests import Making, new_task, row_of
from tasktick.dispatch.guard import AddressPolicy
from tasktick.errors import Refused
from tasktick.model.ids import IdMaker
from tasktick.store.task_rows import SHAPE, NewRow, new_row

NOW = 1_800_000_000_123
DECODER = Decoder(TaskRequest)
WORDS = st.sampled_from(["", "a", "Übung \\ \" '", "\0", "\u2028", "x" * 129])
DURATIONS = st.sampled_from([None, 0, 1, 0.0004, "90s", "1h30m", "P1D", -1, "soon", 1e12])
TARGETS = st.fixed_dictionaries(
    {"url": st.sampled_from(["http://r.example/a", "https://r.example:8443/?b", "http://10.0.0.1/", "ftp://x"])},
    optional={
        "method": st.sampled_from([None, "PUT", "TRACE"]),
        "body": st.none() | st.integers() | st.dictionaries(WORDS, WORDS, max_size=2),
        "body_text": st.none() | WORDS,
        "body_base64": st.sampled_from([None, "AAE=", "?"]),
        "headers": st.none() | st.dictionaries(st.sampled_from(["X-A", "Host", "B\n"]), WORDS, max_size=2),
        "timeout": DURATIONS,
        "success": st.sampled_from([None, ["2xx", 302], ["200-204"], [], ["9xx"]]),
    },
)
REQUESTS = st.fixed_dictionaries(
    {"target": TARGETS},
    optional={
        "key": st.sampled_from([None, "a.b:c", "a b"]),
        "name": st.none() | WORDS,
        "type": st.none() | WORDS,
        "run_at": st.sampled_from(
            [None, 0, 1_900_000_000.25, "2030-12-01T09:00:00.0005+01:00", "9999-12-31T23:59:59Z"]
        ),
        "delay": DURATIONS,
        "queue": st.sampled_from([None, "q", "a b"]),
        "priority": st.sampled_from([None, 0, 9, 10]),
        "retry": st.sampled_from([None, {}, {"max_attempts": 1}, {"strategy": "list", "delays": [1]}, {"factor": 0}]),
        "sla": DURATIONS,
        "jitter": DURATIONS,
        "expires_in": DURATIONS,
        "delivery": st.sampled_from([None, "at_most_once", "at_least_once", "never"]),
        "tags": st.none() | st.dictionaries(WORDS, WORDS, max_size=2),
    },
)


def making(seed: int) -> Making:
    sealing = Sealing("default", Vault(bytes(32)), AddressPolicy())
    return Making(sealing, IdMaker(Random(seed)), NOW, "00-" + "1" * 32 + "-" + "2" * 16 + "-01", latest=NOW + 7)


def row_or_refusal(way: Any, asked: dict[str, Any], seed: int) -> Any:
    try:
        return way(DECODER.decode(msgspec.json.encode(asked), 32), making(seed))
    except Refused as refused:
        return refused.code, refused.detail, refused.errors


def by_its_task(request: TaskRequest, with_what: Making) -> NewRow | None:
    return new_row(new_task(request, with_what))


@given(REQUESTS, st.integers(0, 9))
def test_a_row_is_that_of_its_task(asked: dict[str, Any], seed: int) -> None:
    quick = row_or_refusal(row_of, asked, seed)
    assert quick == row_or_refusal(by_its_task, asked, seed)
    if isinstance(quick, NewRow):
        assert msgspec.json.encode(quick) == msgspec.json.encode(row_or_refusal(by_its_task, asked, seed))


def test_a_task_has_what_its_row_has_in_its_place() -> None:
    asked = {
        "target": {"url": "http://r.example/a", "timeout": 7},
        "key": "k",
        "name": "n",
        "type": "t",
        "queue": "q",
        "priority": 3,
        "sla": 9,
        "tags": {"b": "2", "a": "1"},
        "run_at": "2030-12-01T09:00:00Z",
        "jitter": 60,
        "expires_in": 3_600,
        "delivery": "at_most_once",
        "retry": {"max_attempts": 2},
    }
    row = row_of(DECODER.decode(msgspec.json.encode(asked), 32), making(1))
    made = row.task()
    columns = msgspec.structs.asdict(made.detail) | msgspec.structs.asdict(made.state)

    assert dict(zip(SHAPE, row.shape, strict=True)) == {name: columns[name] for name in SHAPE}
    assert made.state.id == row.id
    wanted = (7_000, 2, "k", True, "n", "t", "q", 3, 9_000, 3_600_000, {"b": "2", "a": "1"})
    names = ("timeout_ms", "max_attempts", "key", "keyed", "name", "type", "queue", "priority", "sla_ms")
    assert tuple(columns[name] for name in (*names, "expires_in_ms", "tags")) == wanted
    assert made.state.run_at <= made.state.due_at == made.state.wake_at <= made.state.run_at + 60_000
    assert made.state.expires_at == made.state.due_at + 3_600_000
    assert made.state.at_most_once
    assert made.detail.created_at == made.state.updated_at == NOW
