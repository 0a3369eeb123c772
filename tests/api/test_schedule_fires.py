"""The ledger as clients read it."""

from tests.api.calendar import ALL, MINUTE_MS, act, change, fire, ledger, made, pass_ms, read
from tests.api.served import Served


async def test_every_time_has_a_row(served: Served) -> None:
    schedule = await made(served, timezone="Europe/Berlin")
    await fire(served, schedule)
    [claimed] = await served.world.claim(await _due(served, schedule))
    await pass_ms(served, 2 * MINUTE_MS)

    rows = await ledger(served, schedule)

    assert [(row["outcome"], row["reason"], row["state"]) for row in rows] == [
        ("run", None, "succeeded"),
        ("run", None, "running"),
        ("skipped", "overlap", "skipped"),
        ("skipped", "overlap", "skipped"),
    ]
    first = rows[0]
    assert first["local"].endswith("+01:00")
    assert (first["effective"], first["count"], first["from"], first["collapsed"]) == (first["nominal"], 1, None, 1)
    assert (first["schedule_version"], first["node"], first["missed"]) == (1, "node-a", 0)
    assert first["tzdata"] == schedule["tzdata"]
    assert None not in (first["started_at"], first["completed_at"], first["decided_at"])
    assert await served.world.finish(claimed) is not None
    assert (await ledger(served, schedule))[1]["state"] == "succeeded"


async def _due(served: Served, schedule: dict[str, object]) -> str:
    """The fire ahead, at its time."""
    shown = (await served.ask("GET", f"/v1/tasks?schedule_id={schedule['id']}&state=scheduled")).json["data"]
    served.world.now += MINUTE_MS
    return str(shown[0]["id"]).removeprefix("tsk_")


async def test_a_ledger_comes_in_pages_and_by_filter(served: Served) -> None:
    schedule = await made(served, overlap="allow")
    await pass_ms(served, 3 * MINUTE_MS)
    await act(served, schedule, "pause")
    await pass_ms(served, 2 * MINUTE_MS)
    await act(served, schedule, "resume")
    path = f"{ALL}/{schedule['id']}/fires"
    rows = (await served.ask("GET", path)).json["data"]
    assert [row["outcome"] for row in rows] == ["skipped"] * 2 + ["run"] * 3

    page = (await served.ask("GET", f"{path}?limit=3")).json
    rest = (await served.ask("GET", f"{path}?limit=3&cursor={page['next_cursor']}")).json
    assert (page["data"] + rest["data"], rest["next_cursor"]) == (rows, None)
    assert [one["outcome"] for one in await ledger(served, schedule, "?outcome=run")] == ["run"] * 3
    assert len(await ledger(served, schedule, "?outcome=run&outcome=skipped")) == 5
    assert await ledger(served, schedule, "?outcome=missed") == []
    between = await ledger(served, schedule, f"?from={rows[3]['nominal']}&to={rows[1]['nominal']}")
    assert between == [rows[3], rows[2]]
    for query in ("?outcome=lost", "?from=then", "?state=dead", "?limit=1001", "?order=asc"):
        assert (await served.ask("GET", path + query)).status == 422, query
    assert (await served.ask("GET", f"{path}?cursor=nonsense")).status == 400
    assert (await served.ask("GET", f"{path}?cursor={page['next_cursor']}&outcome=run")).status == 400
    assert (await served.ask("GET", f"{ALL}/key:none/fires")).status == 404


async def test_a_long_stretch_is_one_row(served: Served) -> None:
    schedule = await made(served, every="1s", paused=True)
    served.world.now += 2_000_000
    await act(served, schedule, "resume")

    rows = (await served.ask("GET", f"{ALL}/{schedule['id']}/fires?limit=1000")).json
    last = (await served.ask("GET", f"{ALL}/{schedule['id']}/fires?cursor={rows['next_cursor']}")).json["data"]
    [stretch] = last
    assert (stretch["outcome"], stretch["count"], stretch["task_id"], stretch["state"]) == (
        "skipped",
        1_000,
        None,
        None,
    )
    assert stretch["from"] == stretch["nominal"] < stretch["to"] < rows["data"][-1]["nominal"]
    assert (await read(served, schedule))["counts"]["skipped"] == 2_000


async def test_a_fire_cancelled_ahead_of_its_time_is_skipped(served: Served) -> None:
    schedule = await made(served)
    [ahead] = (await served.ask("GET", f"/v1/tasks?schedule_id={schedule['id']}")).json["data"]
    assert (await served.ask("POST", f"/v1/tasks/{ahead['id']}/cancel")).status == 200

    after = await change(served, schedule, name="x")

    [row] = await ledger(served, schedule)
    assert (row["outcome"], row["reason"], row["task_id"]) == ("skipped", "cancelled", ahead["id"])
    assert after["next_fire_at"] > ahead["run_at"]
    assert after["clock_behind_ledger"] is True


async def test_a_skipped_time_can_be_run_later(served: Served) -> None:
    schedule = await made(served)
    [claimed] = await served.world.claim(await _due(served, schedule))
    await pass_ms(served, MINUTE_MS)
    [_, skipped] = await ledger(served, schedule)
    await served.world.finish(claimed)

    again = await served.ask("POST", f"/v1/tasks/{skipped['task_id']}/run")

    assert (again.status, again.json["run_at"]) == (200, skipped["nominal"])
    assert await ledger(served, schedule, "?outcome=skipped") == []
    [_, row] = await ledger(served, schedule)
    assert (row["outcome"], row["reason"], row["state"]) == ("run", "run_later", "ready")
    assert (row["was"]["outcome"], row["was"]["reason"]) == ("skipped", "overlap")


async def test_a_clock_that_was_set_back_is_told(served: Served) -> None:
    schedule = await made(served)
    await fire(served, schedule)
    assert (await read(served, schedule))["clock_behind_ledger"] is False
    served.world.now -= 5 * MINUTE_MS
    assert (await read(served, schedule))["clock_behind_ledger"] is True
