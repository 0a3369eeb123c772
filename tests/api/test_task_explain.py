"""Why a task did, did not, or does not yet run."""

from typing import Any, get_args

import pytest

from tasktick.api.insight_answers import TaskCode
from tasktick.ready.limits import Reason
from tasktick.ready.standing import Standing
from tasktick.store import leases
from tasktick.store.leases import Start
from tests.api.calendar import ALL, MINUTE_MS, act, made, next_task, pass_ms, settled
from tests.api.served import Served

HOUR_MS = 3_600_000


async def explained(served: Served, name: str) -> list[dict[str, Any]]:
    """The steps, each with a code that is described, in the order of time."""
    answer = await served.ask("GET", f"/v1/tasks/{name}/explain")
    assert answer.status == 200, answer.raw
    steps: list[dict[str, Any]] = answer.json["steps"]
    times = [one["at"] for one in steps if one["at"] is not None]
    assert times == sorted(times)
    assert {one["code"] for one in steps} <= set(get_args(TaskCode))
    return steps


def codes(steps: list[dict[str, Any]]) -> list[str]:
    return [one["code"] for one in steps]


async def test_a_task_that_is_not_due(served: Served) -> None:
    task = await served.create(delay="1h")

    steps = await explained(served, task["id"])

    assert codes(steps) == ["created", "not_due"]
    assert task["run_at"] in steps[1]["detail"]


async def test_a_retry_waits_for_its_backoff_and_a_dead_one_says_what_to_do(served: Served) -> None:
    task = await served.create(retry={"max_attempts": 2, "jitter": 0})
    await served.run(task, 503)
    steps = await explained(served, task["id"])
    assert codes(steps) == ["created", "due", "attempt_failed", "backoff"]
    assert "node-a" in steps[2]["detail"]
    assert "503" in steps[2]["detail"]

    served.world.now += HOUR_MS
    await served.run(task, 503)
    steps = await explained(served, task["id"])

    assert codes(steps) == ["created", "due", "attempt_failed", "attempt_failed", "dead"]
    assert "attempts_exhausted" in steps[-1]["detail"]
    assert f"/v1/tasks/{task['id']}/retry" in steps[-1]["detail"]

    assert (await served.ask("POST", f"/v1/tasks/{task['id']}/retry")).status == 200
    await served.run(task)
    assert codes(await explained(served, task["id"]))[-3:] == ["reopened", "attempt_succeeded", "succeeded"]


async def test_one_that_is_cancelled_paused_or_expired(served: Served) -> None:
    task = await served.create(delay="1h")
    await served.ask("POST", f"/v1/tasks/{task['id']}/pause")
    assert codes(await explained(served, task["id"])) == ["created", "paused"]
    await served.ask("POST", f"/v1/tasks/{task['id']}/cancel")
    steps = await explained(served, task["id"])
    assert codes(steps) == ["created", "cancelled"]
    assert "not recorded" in steps[-1]["detail"]


async def test_one_that_runs_is_held_by_a_node_under_an_epoch(served: Served) -> None:
    task = await served.create()
    [claimed] = await served.world.claim(task["id"].removeprefix("tsk_"))

    steps = await explained(served, task["id"])
    assert codes(steps) == ["created", "due", "running"]
    assert f"node node-a holds it under epoch {claimed.epoch} until " in steps[-1]["detail"]

    assert (await served.ask("POST", f"/v1/tasks/{task['id']}/cancel")).status == 200
    assert codes(await explained(served, task["id"]))[-1] == "cancel_requested"
    served.world.now = claimed.lease_until
    assert codes(await explained(served, task["id"]))[-1] == "lease_expired"


async def test_an_attempt_that_was_cut_off(served: Served) -> None:
    task = await served.create()
    [claimed] = await served.world.claim(task["id"].removeprefix("tsk_"))
    served.world.now = claimed.lease_until
    await served.world.rescue(claimed)

    steps = await explained(served, task["id"])

    assert codes(steps)[:3] == ["created", "due", "attempt_lease_lost"]
    assert "does not count" in steps[2]["detail"]


@pytest.mark.parametrize(
    ("standing", "code", "said"),
    [
        (Standing("ready", None, None, None, 12), "waiting_turn", "12"),
        (Standing("ready", Reason.HOST, 64, 64, 12), "held_host", "64 of 64"),
        (Standing("ready", Reason.GLOBAL, 10_000, 10_000, 12), "held_global", "10,000 of 10,000"),
        (Standing("ready", Reason.TENANT, 5, 5, 12), "held_tenant", "5 of 5"),
        (Standing("ready", Reason.QUEUE, 2, 2, 12), "held_queue", "2 of 2"),
        (Standing("in_hand"), "being_claimed", "this node"),
        (Standing("not_loaded"), "not_loaded", "about to read"),
        (Standing("unknown"), "not_known", "not known"),
        (Standing("elsewhere"), "owner_elsewhere", "node node-a owns its partition"),
    ],
)
async def test_what_is_due_waits_for_what_its_owner_has_in_memory(
    served: Served, standing: Standing, code: str, said: str
) -> None:
    task = await served.create()
    served.switches.standing = standing

    step = (await explained(served, task["id"]))[-1]

    assert step["code"] == code
    assert said in step["detail"]


async def test_a_partition_that_nobody_owns(served: Served) -> None:
    task = await served.create()
    served.switches.standing = Standing("elsewhere")
    await served.world.let_go()

    assert codes(await explained(served, task["id"]))[-1] == "no_owner"


async def test_another_node_of_a_ring_is_named_with_where_to_ask(served: Served) -> None:
    world = served.world
    task = await served.create()
    await world.let_go()
    start = Start("incarnation-2", "node-b", 10_000, address="http://10.0.0.7:8080")
    await served.database.write(lambda tx: leases.join(tx, start, world.now))
    await served.database.write(lambda tx: leases.acquire(tx, "incarnation-2", world.now))
    served.switches.standing = Standing("elsewhere")

    step = (await explained(served, task["id"]))[-1]

    assert step["code"] == "owner_elsewhere"
    assert "node node-b owns its partition" in step["detail"]
    assert f"http://10.0.0.7:8080/v1/tasks/{task['id']}/explain" in step["detail"]
    world.now += 10_000
    assert codes(await explained(served, task["id"]))[-1] == "no_owner"


async def test_a_fire_tells_of_its_schedule(served: Served) -> None:
    schedule = await made(served, overlap="buffer_one")
    first = await next_task(served, schedule)
    steps = await explained(served, f"tsk_{first}")
    assert codes(steps) == ["made_by_schedule", "not_due"]
    served.world.now += MINUTE_MS
    [claimed] = await served.world.claim(first)
    await settled(served)
    assert codes(await explained(served, f"tsk_{first}")) == ["made_by_schedule", "due", "fire_runs", "running"]

    second = await next_task(served, schedule)
    await pass_ms(served, MINUTE_MS)
    third = await next_task(served, schedule)
    await pass_ms(served, MINUTE_MS)
    steps = await explained(served, f"tsk_{second}")
    assert codes(steps) == ["made_by_schedule", "due", "fire_runs", "behind_earlier_fire"]
    assert f"tsk_{first}" in steps[-1]["detail"]
    steps = await explained(served, f"tsk_{third}")
    assert codes(steps) == ["made_by_schedule", "fire_skipped", "skipped"]
    assert "overlap" in steps[-1]["detail"]

    await served.world.finish(claimed)
    assert codes(await explained(served, f"tsk_{first}"))[-3:] == ["fire_runs", "attempt_succeeded", "succeeded"]
    assert codes(await explained(served, f"tsk_{second}"))[-1] != "behind_earlier_fire"


async def test_a_fire_made_by_hand_and_one_of_a_schedule_that_is_gone(served: Served) -> None:
    schedule = await made(served)
    by_hand = (await act(served, schedule, "trigger")).json
    assert codes(await explained(served, by_hand["id"]))[0] == "triggered"

    assert (await served.ask("DELETE", f"{ALL}/{schedule['id']}")).status == 204
    first = (await explained(served, by_hand["id"]))[0]
    assert first["code"] == "made_by_schedule"
    assert "deleted" in first["detail"]


async def test_another_tenant_is_told_nothing(served: Served) -> None:
    task = await served.create()
    there = {"TaskTick-Tenant": "acme"}

    assert (await served.ask("GET", f"/v1/tasks/{task['id']}/explain", headers=there)).status == 404
    assert (await served.ask("GET", "/v1/tasks/key:none/explain")).status == 404
    assert (await served.ask("GET", f"/v1/tasks/{task['id']}/explain?at=1")).status == 422
