"""POST /v1/tasks/batch, as a document and as lines: each task for itself, all of them in order."""

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tasktick.api.batch_reading import SLICE_LEAST
from tasktick.api.task_batches import SLICES_UNDER_WAY
from tasktick.model.ids import partition_of, partition_of_name
from tasktick.store import tenants
from tasktick.store.plain_tasks import CREATE_SLICE
from tasktick.store.protocol import Batch
from tests.api.served import URL, Served

TASK: dict[str, Any] = {"target": {"url": URL}, "delay": 60}
BATCH = "/v1/tasks/batch"


def lines(*items: Any) -> bytes:
    """Items as NDJSON."""
    return b"\n".join(item if isinstance(item, bytes) else json.dumps(item).encode() for item in items)


NDJSON = {"Content-Type": "application/x-ndjson"}


async def test_a_bad_one_does_not_spoil_the_rest(served: Served) -> None:
    await served.create(key="taken", delay=60)
    items = [TASK, {"target": {"url": "x"}}, {**TASK, "key": "taken"}, {**TASK, "key": "a"}, {**TASK, "key": "a"}, 3]
    answer = await served.ask("POST", BATCH, {"tasks": items})

    assert answer.status == 200, answer.raw
    data = answer.json["data"]
    codes = [one.get("error", {}).get("code") for one in data]
    assert codes == [None, "validation_failed", "key_taken", None, "key_taken", "validation_failed"]
    assert data[1]["error"]["errors"][0]["pointer"] == "/target/url"
    for at in (0, 3):
        assert (await served.ask("GET", f"/v1/tasks/{data[at]['id']}")).status == 200
    assert len(served.created) == 3


async def test_one_item_tells_a_few_of_its_faults(served: Served) -> None:
    answer = await served.ask("POST", BATCH, {"tasks": [{str(n): n for n in range(1_000)}]})

    assert len(answer.json["data"][0]["error"]["errors"]) == 10


async def test_lines(served: Served) -> None:
    answer = await served.ask("POST", BATCH, raw=lines(TASK, b"", b"{nonsense", TASK) + b"\n", headers=NDJSON)

    assert answer.status == 200, answer.raw
    data = answer.json["data"]
    assert [one.get("error", {}).get("code") for one in data] == [None, "malformed", None]


async def test_more_than_one_commit_holds(served: Served) -> None:
    count = 1_203
    body = lines(*({**TASK, "name": str(n)} for n in range(count)))
    answer = await served.ask("POST", BATCH, raw=body, headers=NDJSON)

    ids = [one["id"] for one in answer.json["data"]]
    assert len(set(ids)) == len(served.created) == count
    last = (await served.ask("GET", f"/v1/tasks/{ids[-1]}")).json
    assert last["name"] == str(count - 1)


@pytest.mark.parametrize(
    ("pressed", "count", "wide", "most"), [(False, 1_203, 0, 1_000), (True, 1_203, 0, 500), (False, 203, 3_000, 134)]
)
async def test_no_more_is_written_at_once_than_others_can_wait_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, pressed: bool, count: int, wide: int, most: int
) -> None:
    written: list[int] = []
    begin = served.database.begin

    def noting(batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        written.append(item.rows)
        begin(batch, item, told)

    monkeypatch.setattr(served.database, "begin", noting)
    served.switches.pressed = pressed
    task = {"target": {"url": URL, "body_text": "x" * wide}}
    await served.ask("POST", BATCH, raw=lines(*[task] * count), headers=NDJSON)

    most = min(most, served.database.slice_rows)
    assert (sum(written), max(written) <= most) == (count, True)
    assert len(written) < count / most + 2, "and not fewer"


async def test_ids_grow_with_the_batch_and_one_with_a_key_is_where_its_key_belongs(served: Served) -> None:
    tasks = [*[TASK] * SLICE_LEAST, {**TASK, "key": "k"}, *[TASK] * SLICE_LEAST]
    answer = await served.ask("POST", BATCH, raw=lines(*tasks), headers=NDJSON)

    ids = [one["id"] for one in answer.json["data"]]
    assert ids == sorted(set(ids))
    assert partition_of(ids[SLICE_LEAST].removeprefix("tsk_")) == partition_of_name("k")


@pytest.mark.parametrize(
    ("body", "status"),
    [({"tasks": []}, 422), ({}, 422), ({"tasks": {}}, 422), ({"tasks": [TASK], "x": 1}, 422), ([TASK], 422)],
)
async def test_what_is_no_batch(served: Served, body: Any, status: int) -> None:
    answer = await served.ask("POST", BATCH, body)

    assert (answer.status, answer.code) == (status, "validation_failed")


async def test_a_list_alone_is_told_where_it_belongs(served: Served) -> None:
    assert '{"tasks": [...]}' in (await served.ask("POST", BATCH, [TASK])).json["detail"]


@pytest.mark.parametrize("first", [TASK, {"tasks": [TASK]}])
async def test_lines_that_are_not_said_to_be_lines(served: Served, first: Any) -> None:
    answer = await served.ask("POST", BATCH, raw=lines(first, TASK))

    assert (answer.status, answer.code) == (400, "malformed")
    assert "application/x-ndjson" in answer.json["detail"]


async def test_lines_that_were_joined(served: Served) -> None:
    answer = await served.ask("POST", BATCH, raw=lines(TASK, TASK).replace(b"\n", b""), headers=NDJSON)

    [refused] = answer.json["data"]
    assert refused["error"]["code"] == "malformed"
    assert "--data-binary" in refused["error"]["detail"]


async def test_what_cannot_be_read(served: Served) -> None:
    assert (await served.ask("POST", BATCH, raw=b'{"tasks": [}')).code == "malformed"
    assert (await served.ask("POST", BATCH, raw=b"")).code == "malformed"
    deep = await served.ask("POST", BATCH, raw=b'{"tasks": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}")
    assert deep.code == "malformed"


async def test_too_many(served: Served) -> None:
    answer = await served.ask("POST", BATCH, raw=b"\n".join([b"{}"] * 10_001), headers=NDJSON)

    assert (answer.status, answer.code) == (422, "validation_failed")
    assert served.created == []


async def test_a_task_in_a_batch_is_no_larger_than_one_alone(served: Served) -> None:
    large = {"target": {"url": URL, "body": "x" * 262_144}, "delay": 60}
    answer = await served.ask("POST", BATCH, {"tasks": [large, TASK]})

    assert [one.get("error", {}).get("code") for one in answer.json["data"]] == ["payload_too_large", None]
    assert "server.body_max_bytes" in answer.json["data"][0]["error"]["detail"]


async def test_a_batch_counts_once(served: Served) -> None:
    headers = {"Idempotency-Key": "batch-1"}
    first = await served.ask("POST", BATCH, {"tasks": [TASK, {}, TASK]}, headers=headers)
    again = await served.ask("POST", BATCH, {"tasks": [TASK, {}, TASK]}, headers=headers)
    other = await served.ask("POST", BATCH, {"tasks": [TASK]}, headers=headers)

    assert again.raw == first.raw
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert len(served.created) == 2


async def test_a_batch_that_was_cut_off_goes_on_where_it_stopped(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Idempotency-Key": "batch-1"}
    body = {"tasks": [{**TASK, "name": str(n)} for n in range(5)]}

    async def cut(*_: Any) -> None:
        raise RuntimeError("cut")

    with monkeypatch.context() as patched:
        patched.setattr("tasktick.api.task_batches._keep", cut)
        assert (await served.ask("POST", BATCH, body, headers=headers)).code == "internal"
    made = [state.id for state in served.created]
    answer = await served.ask("POST", BATCH, body, headers=headers)

    assert answer.status == 200
    assert [one["id"] for one in answer.json["data"]] == [f"tsk_{one}" for one in made]
    assert len(served.created) == 5


async def test_plain_ones_and_others_in_one_batch(served: Served) -> None:
    """From the first with a key on each is written by itself; all are answered in order."""
    items = [{**TASK, "name": str(n), **({"key": f"k-{n}"} if n > 700 and n % 3 == 0 else {})} for n in range(1_100)]
    answer = await served.ask("POST", BATCH, {"tasks": items})

    ids = [one["id"] for one in answer.json["data"]]
    assert len(set(ids)) == len(served.created) == len(items)
    for at in (0, 1, 499, 500, 701, 702, 703, 1_099):
        there = (await served.ask("GET", f"/v1/tasks/{ids[at]}")).json
        assert (there["name"], there.get("key")) == (str(at), items[at].get("key"))


@pytest.mark.parametrize("count", [SLICE_LEAST - 1, SLICE_LEAST + 20])
async def test_a_batch_of_a_tenant_with_a_quota(served: Served, count: int) -> None:
    """What room is left is given in the order of the batch, whatever else is in it."""
    await served.world.database.write(
        lambda tx: tenants.put(tx, "default", max_pending=3, create_rate=None, now=served.world.now)
    )
    keyed = [{**TASK, "key": f"k-{n}"} for n in range(5)]
    items = [TASK, {}, TASK, TASK, TASK, *keyed, *[TASK] * (count - 10)]
    answer = await served.ask("POST", BATCH, {"tasks": items})

    data = answer.json["data"]
    codes = [one.get("error", {}).get("code") for one in data]
    assert codes == [None, "validation_failed", None, None, *["quota_exceeded"] * (count - 4)]
    assert [f"tsk_{state.id}" for state in served.created] == [data[at]["id"] for at in (0, 2, 3)]
    for at in (0, 2, 3):
        assert (await served.ask("GET", f"/v1/tasks/{data[at]['id']}")).status == 200


async def test_a_rate_is_used_up_in_the_order_of_the_batch(served: Served) -> None:
    rate = SLICE_LEAST + 10
    await served.world.database.write(
        lambda tx: tenants.put(tx, "default", max_pending=None, create_rate=f"{rate}/1d", now=served.world.now)
    )
    answer = await served.ask("POST", BATCH, {"tasks": [TASK] * (rate + 20)})

    codes = [one.get("error", {}).get("code") for one in answer.json["data"]]
    assert codes == [None] * rate + ["rate_limited"] * 20
    assert len(served.created) == rate


async def test_few_are_written_with_those_of_others(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    write, begin = served.world.database.write_batch, served.database.begin

    async def noting(batch: Batch, items: list[Any]) -> list[Any]:
        asked.append(batch.name)
        return await write(batch, items)

    def noting_too(batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        asked.append(batch.name)
        begin(batch, item, told)

    monkeypatch.setattr(served.world.database, "write_batch", noting)
    monkeypatch.setattr(served.database, "begin", noting_too)
    for count in (1, SLICE_LEAST - 1, SLICE_LEAST):
        await served.ask("POST", BATCH, {"tasks": [TASK] * count})
    assert asked == ["create", "create", "create_slice"]


async def test_those_that_cannot_be_written_as_one_are_judged_one_by_one(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a slice fails of: a row that no database takes is one of its tasks."""
    asked: list[str] = []

    def refuse(batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        asked.append(batch.name)
        asyncio.get_running_loop().call_soon(told, ValueError("a row's fault"))

    monkeypatch.setattr(served.database, "begin", refuse)
    count = served.database.slice_rows * 5
    answer = await served.ask("POST", BATCH, raw=lines(*[TASK] * count), headers=NDJSON)

    assert len({one["id"] for one in answer.json["data"]}) == len(served.created) == count
    assert set(asked) == {CREATE_SLICE.name}
    assert len(asked) <= SLICES_UNDER_WAY + 1, "what has not been read yet is not put together any more"


async def test_what_is_far_away_is_counted_and_not_told(served: Served) -> None:
    served.switches.near_until = served.world.now + 60_000
    answer = await served.ask(
        "POST", BATCH, {"tasks": [{**TASK, "delay": s} for s in (60, 61, *[3_600] * SLICE_LEAST, 1)]}
    )

    data = answer.json["data"]
    assert [f"tsk_{state.id}" for state in served.created] == [data[0]["id"], data[-1]["id"]]
    assert served.created_far == [SLICE_LEAST + 1]


def some_task(random: Random, number: int) -> dict[str, Any]:
    """A task of any kind, or one that is wrong."""
    target: dict[str, Any] = {"url": random.choice((URL, URL, f"{URL}/{number}", "http://10.0.0.1/", "x"))}
    target |= random.choice(
        ({}, {"body": {"n": number, "\u2028\\": "\0"}}, {"body_text": f"é\n{number}"}, {"method": "PUT"})
    )
    target |= random.choice(({}, {}, {"headers": {"X-A": "b", "Authorization": "secret"}}, {"timeout": 9}))
    chosen: list[dict[str, Any]] = [
        {"delay": 60},
        {"run_at": "2030-12-01T09:00:00.25+01:00", "name": f"Übung {number}"},
        {"tags": {"b": "2", "a": str(number)}, "type": "t", "queue": "q", "priority": number % 12},
        {"retry": {"max_attempts": 1}, "sla": 3, "expires_in": "2h", "delivery": "at_most_once"},
        {"delay": 1, "run_at": 1_900_000_000, "nonsense": 1},
    ]
    fields = {name: value for one in random.sample(chosen, random.choice((0, 1, 2))) for name, value in one.items()}
    return {"target": target, **fields}


async def test_many_at_once_are_what_each_is_by_itself(served: Served) -> None:
    """Whatever is asked for, and what is wrong with it."""
    random = Random(7)
    items = [some_task(random, number) for number in range(SLICE_LEAST * 2)]
    together = (await served.ask("POST", BATCH, {"tasks": items})).json["data"]

    for item, one in zip(items, together, strict=True):
        alone = (await served.ask("POST", "/v1/tasks", item)).json
        if "error" in one:
            assert [one["error"][name] for name in ("code", "detail")] == [alone[name] for name in ("code", "detail")]
            assert one["error"].get("errors") == alone.get("errors")
        else:
            there = (await served.ask("GET", f"/v1/tasks/{one['id']}")).json
            assert there | alone == {**there, "id": alone["id"], "partition": alone["partition"]}
    assert {"id" in one for one in together} == {True, False}
