"""Times that did not run, run by the ids of their tasks or by a filter; and where they are found."""

from typing import Any

from tasktick.api.times import written
from tests.api.calendar import MINUTE_MS, act, ledger, made, outcomes
from tests.api.served import Served
from tests.api.test_schedule_backfill import counts, filled, sound


async def test_a_stretch_has_no_tasks_and_run_says_what_to_do(served: Served) -> None:
    schedule = await made(served, every="1s", paused=True)
    served.world.now += 2_000_000
    await act(served, schedule, "resume")
    by = {"schedule_id": schedule["id"], "state": ["skipped", "missed"]}

    answer = await served.ask("POST", "/v1/tasks/run", {"filter": by, "dry_run": True})

    assert (answer.json["matched"], answer.json["changed"]) == (1_000, 0)
    assert answer.json["condensed"] + 1_000 == (await counts(served, schedule))["skipped"]
    assert "backfill" in answer.json["note"]


async def test_tasks_are_run_by_their_ids_once(served: Served) -> None:
    schedule = await made(served)
    await act(served, schedule, "pause")
    served.world.now += 5 * MINUTE_MS
    await act(served, schedule, "resume")
    ids = [row["task_id"] for row in await ledger(served, schedule)]
    assert len(ids) >= 5
    stranger = await served.create(delay=60)
    body = {"ids": ids[:3], "filter": {"state": ["skipped", "missed"]}}

    first = await served.ask("POST", "/v1/tasks/run", body)
    second = await served.ask("POST", "/v1/tasks/run", body)

    assert first.json == {"matched": 3, "changed": 3, "left": 0}
    assert second.json == {"matched": 0, "changed": 0, "left": 0}
    assert (await outcomes(served, schedule))[:4] == ["run(run_later)"] * 3 + ["skipped(paused)"]
    alone = await served.ask("POST", "/v1/tasks/run", {"ids": [ids[3], stranger["id"], f"tsk_{0:032x}", "key:none"]})
    assert alone.json == {"matched": 2, "changed": 2, "left": 0}
    oddities: list[dict[str, Any]] = [{}, {"ids": []}, {"ids": ids, "filter": {}}, {"ids": ids * 300}]
    for odd in oddities:
        assert (await served.ask("POST", "/v1/tasks/run", odd)).status == 422, odd
    await sound(served)


async def test_fires_are_found_by_reason(served: Served) -> None:
    schedule = await made(served)
    await act(served, schedule, "pause")
    served.world.now += 3 * MINUTE_MS
    await act(served, schedule, "resume")
    await filled(served, schedule, **{"from": written(served.world.now - MINUTE_MS)})

    assert {row["backfill"] for row in await ledger(served, schedule, "?reason=backfill")} == {True}
    assert {row["reason"] for row in await ledger(served, schedule, "?reason=paused")} == {"paused"}
    assert await ledger(served, schedule, "?reason=pause") == []
