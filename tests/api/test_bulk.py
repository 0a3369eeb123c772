"""What is done to all that a filter finds: what it reaches, what it counts, how it goes on when it was cut off."""

from typing import Any

import pytest

from tasktick.access.roles import Role
from tasktick.api import bulk
from tasktick.errors import StoreError
from tasktick.model.state import State
from tests.api.served import URL, Answer, Served

HOUR_MS = 3_600_000


async def bulk_of(served: Served, path: str, by: dict[str, Any], **more: Any) -> tuple[int, int]:
    """Matched and changed."""
    answer = await served.ask("POST", f"/v1/{path}", {"filter": by, **more})
    assert answer.status == 200, answer.raw
    return answer.json["matched"], answer.json["changed"]


async def states(served: Served, made: list[dict[str, Any]]) -> list[str]:
    return [(await served.ask("GET", f"/v1/tasks/{one['id']}")).json["state"] for one in made]


@pytest.fixture(params=[1, 2, 200])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that end before, with and after what there is."""
    monkeypatch.setattr(bulk, "SLICE", request.param)


@pytest.mark.usefixtures("slices")
async def test_cancel_reaches_what_is_found_and_nothing_else(served: Served) -> None:
    mail = [await served.create(delay=60, queue="mail", tags={"n": str(n)}) for n in range(4)]
    other = [await served.create(delay=60)]
    foreign = await served.ask(
        "POST", "/v1/tasks", {"target": {"url": URL}, "queue": "mail"}, headers={"TaskTick-Tenant": "other"}
    )
    served.changed.clear()

    assert await bulk_of(served, "tasks/cancel", {"queue": "mail"}, dry_run=True) == (4, 0)
    assert await states(served, mail) == ["scheduled"] * 4
    assert await bulk_of(served, "tasks/cancel", {"queue": "mail", "tag": "n:2"}) == (1, 1)
    assert await bulk_of(served, "tasks/cancel", {"queue": "mail"}) == (4, 3)
    assert await bulk_of(served, "tasks/cancel", {"queue": "mail", "state": ["scheduled", "ready"]}) == (0, 0)
    assert await states(served, mail + other) == ["cancelled"] * 4 + ["scheduled"]
    seen = await served.ask("GET", f"/v1/tasks/{foreign.json['id']}", headers={"TaskTick-Tenant": "other"})
    assert seen.json["state"] == "ready"
    assert {f"tsk_{state.id}" for state in served.changed} == {one["id"] for one in mail}
    assert {state.state for state in served.changed} == {State.CANCELLED}


@pytest.mark.usefixtures("slices")
async def test_retry_run_and_delete(served: Served) -> None:
    dead = [await served.create(name=f"dead {n}") for n in range(3)]
    for one in dead:
        await served.kill(one)
    done = await served.create(name="done")
    await served.run(done)
    later = await served.create(name="later", delay=3_600)

    everything = {"created_after": 0}
    assert await bulk_of(served, "tasks/retry", everything) == (5, 3)
    assert await states(served, dead) == ["ready"] * 3
    assert (await served.ask("GET", "/v1/dlq")).json["data"] == []
    assert await bulk_of(served, "tasks/run", {"name": "later"}) == (1, 1)
    assert await bulk_of(served, "tasks/run", {"state": "succeeded"}) == (1, 1)
    assert await states(served, [done, later]) == ["ready", "ready"]
    [_] = await served.world.claim(later["id"].removeprefix("tsk_"))
    assert await bulk_of(served, "tasks/delete", everything) == (5, 4)
    assert [one["name"] for one in (await served.ask("GET", "/v1/tasks")).json["data"]] == ["later"]
    assert await bulk_of(served, "tasks/cancel", everything) == (1, 1)
    assert await bulk_of(served, "tasks/cancel", everything) == (1, 0), "it is asked to stop already"


async def test_a_key_that_is_taken_is_left_out(served: Served) -> None:
    first = await served.create(key="k", delay=60)
    await served.ask("POST", f"/v1/tasks/{first['id']}/cancel")
    await served.create(key="k", delay=60)

    assert await bulk_of(served, "tasks/retry", {"state": "cancelled"}) == (1, 0)


@pytest.mark.usefixtures("slices")
async def test_dead_letters(served: Served) -> None:
    made = [await served.create(name=str(n)) for n in range(4)]
    letters = [await served.kill(one) for one in made]
    everything: dict[str, Any] = {"unresolved": True}

    assert await bulk_of(served, "dlq/replay", everything, dry_run=True) == (4, 0)
    assert await bulk_of(served, "dlq/replay", {"name": "0", "class": "receiver"}) == (1, 1)
    assert await bulk_of(served, "dlq/archive", {"name": "1"}) == (1, 1)
    assert await bulk_of(served, "dlq/archive", {"name": "1"}) == (0, 0)
    assert await bulk_of(served, "dlq/archive", {"name": "1", "unresolved": False}) == (1, 0)
    assert await bulk_of(served, "dlq/purge", {"name": "2"}) == (1, 1)
    assert (await served.ask("GET", f"/v1/tasks/{made[2]['id']}")).status == 404
    # The first lives again: its letter goes alone. The second is dead still, and goes with its letter.
    assert await bulk_of(served, "dlq/purge", {"unresolved": False}) == (2, 2)
    assert (await served.ask("GET", f"/v1/tasks/{made[1]['id']}")).status == 404
    assert await states(served, [made[0], made[3]]) == ["ready", "dead"]
    assert (await served.ask("GET", f"/v1/dlq/{letters[0]['id']}")).status == 404
    assert len((await served.ask("GET", "/v1/dlq")).json["data"]) == 1


async def test_an_old_letter_does_not_take_a_task_with_it_that_died_again(served: Served) -> None:
    made = await served.create()
    old = await served.kill(made)
    served.world.now += 1_000
    await served.ask("POST", f"/v1/dlq/{old['id']}/replay")
    served.world.now += 1_000
    assert await served.run(made, 400) is State.DEAD

    assert await bulk_of(served, "dlq/purge", {"unresolved": False}) == (1, 1)
    assert await states(served, [made]) == ["dead"]
    assert len((await served.ask("GET", "/v1/dlq")).json["data"]) == 1


@pytest.mark.parametrize("path", ["tasks/cancel", "tasks/delete", "dlq/replay", "dlq/purge"])
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/filter"),
        ({"filter": {}}, "/filter"),
        ({"filter": {"queue": None}}, "/filter"),
        ({"filter": None}, "/filter"),
        ({"filter": {"colour": "red"}}, "/filter/colour"),
        ({"filter": {"limit": 5}}, "/filter/limit"),
        ({"filter": {"run_after": "yesterday"}}, "/filter/run_after"),
        ({"filter": {"tag": "nothing"}}, "/filter/tag"),
        ({"filter": {"q": ""}}, "/filter/q"),
        ({"filter": {"schedule_id": "x"}}, "/filter/schedule_id"),
        ({"filter": {"queue": "a"}, "dry_run": "yes"}, "/dry_run"),
        ({"filter": {"queue": "a"}, "rate": "1/s"}, "/rate"),
    ],
)
async def test_a_filter_that_is_wrong_or_says_nothing(
    served: Served, path: str, body: dict[str, Any], pointer: str
) -> None:
    answer = await served.ask("POST", f"/v1/{path}", body)

    assert (answer.status, answer.code, answer.pointers) == (422, "validation_failed", {pointer})


async def test_states_and_classes_are_checked(served: Served) -> None:
    async def pointers(path: str, by: dict[str, Any]) -> set[str]:
        return (await served.ask("POST", f"/v1/{path}", {"filter": by})).pointers

    assert await pointers("tasks/cancel", {"state": "odd"}) == {"/filter/state"}
    assert await pointers("tasks/cancel", {"state": []}) == {"/filter/state"}
    assert await pointers("dlq/replay", {"class": "odd"}) == {"/filter/class"}
    assert await pointers("dlq/replay", {"reason": "odd"}) == {"/filter/reason"}


async def test_who_may(served: Served) -> None:
    submitter = await served.add_key(Role.SUBMITTER)

    async def status(path: str) -> int:
        return (await served.ask("POST", f"/v1/{path}", {"filter": {"queue": "a"}}, key=submitter)).status

    assert await status("tasks/cancel") == 200
    assert {await status(f"tasks/{word}") for word in ("retry", "run", "delete")} == {403}
    assert {await status(f"dlq/{word}") for word in ("replay", "archive", "purge")} == {403}


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize(
    ("path", "by"),
    [("tasks/retry", {"state": "dead"}), ("tasks/run", {"state": "dead"}), ("dlq/replay", {"unresolved": True})],
)
async def test_what_finds_no_room_in_the_quota_is_left_out(served: Served, path: str, by: dict[str, Any]) -> None:
    made = [await served.create() for _ in range(4)]
    for one in made:
        await served.kill(one)
    await served.create(name="there already", delay=60)
    await served.ask("PUT", "/v1/tenants/default", {"max_pending": 3})

    assert await bulk_of(served, path, by) == (4, 2)
    assert sorted(await states(served, made)) == ["dead", "dead", "ready", "ready"]
    assert len((await served.ask("GET", "/v1/dlq")).json["data"]) == 2
    assert await bulk_of(served, path, by) == (2, 0)
    await served.ask("PUT", "/v1/tenants/default", {"max_pending": 5})
    assert await bulk_of(served, path, by) == (2, 2)


async def test_what_waits_already_needs_no_room(served: Served) -> None:
    made = [await served.create(delay=60) for _ in range(2)]
    await served.ask("PUT", "/v1/tenants/default", {"max_pending": 1})

    assert await bulk_of(served, "tasks/run", {"state": "scheduled"}) == (2, 2)
    assert await states(served, made) == ["ready", "ready"]


async def _keyed(served: Served, by: dict[str, Any], **more: Any) -> Answer:
    return await served.ask("POST", "/v1/tasks/run", {"filter": by, **more}, headers={"Idempotency-Key": "bulk-1"})


async def test_the_first_answer_is_given_again(served: Served) -> None:
    await served.run(await served.create(queue="mail"))
    first = await _keyed(served, {"queue": "mail"})
    again = await _keyed(served, {"queue": "mail"})
    other = await _keyed(served, {"queue": "mail"}, dry_run=True)

    assert first.json == {"matched": 1, "changed": 1, "left": 0}
    assert (again.raw, again.headers["Idempotency-Replayed"]) == (first.raw, "true")
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    dry = {"filter": {"queue": "mail"}, "dry_run": True}
    for _ in range(2):
        answer = await served.ask("POST", "/v1/tasks/run", dry, headers={"Idempotency-Key": "bulk-2"})
        assert answer.json == {"matched": 1, "changed": 0, "left": 0}


async def test_what_was_cut_off_goes_on_where_it_stopped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SLICE", 2)
    made = [await served.create(queue="mail") for _ in range(5)]
    for one in made:
        await served.run(one)
    steps = iter([False, False, True])
    monkeypatch.setattr(bulk, "_step", _failing(steps))
    cut = await _keyed(served, {"state": "succeeded"})
    assert (cut.status, cut.code) == (503, "store_unavailable")
    assert await states(served, made) == ["succeeded", *["ready"] * 4]
    # Of those that were run again one is done already, and is not run a third time.
    await served.run(made[4])
    whole = await _keyed(served, {"state": "succeeded"})

    assert whole.json == {"matched": 5, "changed": 5, "left": 0}
    assert await states(served, made) == [*["ready"] * 4, "succeeded"]
    assert (await _keyed(served, {"state": "succeeded"})).headers["Idempotency-Replayed"] == "true"


def _failing(steps: Any) -> Any:
    whole = bulk._step

    async def step(*given: Any, **named: Any) -> Any:
        if next(steps, False):
            raise StoreError("closing")
        return await whole(*given, **named)

    return step


async def test_a_server_that_stops_ends_between_two_slices(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SLICE", 1)
    made = [await served.create(delay=60) for _ in range(3)]

    whole = bulk._step

    async def step(*given: Any, **named: Any) -> Any:
        done = await whole(*given, **named)
        served.switches.draining = True
        return done

    monkeypatch.setattr(bulk, "_step", step)
    answer = await served.ask("POST", "/v1/tasks/cancel", {"filter": {"state": "scheduled"}})

    assert (answer.status, answer.code) == (503, "draining")
    assert await states(served, made) == ["scheduled", "scheduled", "cancelled"]


async def test_what_no_longer_matches_is_left_alone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [await served.create(delay=60, queue="mail") for _ in range(2)]
    whole = bulk._step
    read = served.database.read

    async def step(*given: Any, **named: Any) -> Any:
        async def moved(operation: Any) -> Any:
            found = await read(operation)
            monkeypatch.setattr(served.database, "read", read)
            await served.ask("PATCH", f"/v1/tasks/{made[0]['id']}", {"queue": "other"})
            return found

        monkeypatch.setattr(served.database, "read", moved)
        return await whole(*given, **named)

    monkeypatch.setattr(bulk, "_step", step)

    assert await bulk_of(served, "tasks/cancel", {"queue": "mail"}) == (1, 1)
    assert await states(served, made) == ["scheduled", "cancelled"]
