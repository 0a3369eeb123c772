"""Backfills as clients ask for them: what runs, what is left alone, and how they go on when they were cut off."""

from typing import Any

import pytest

from tasktick.api import schedule_backfill
from tasktick.api.times import instant_ms, written
from tasktick.errors import StoreError
from tasktick.model.state import State
from tasktick.store import check, fires, tasks
from tests.api.calendar import ALL, MINUTE_MS, act, change, fire, ledger, made, outcomes, pass_ms, read, settled
from tests.api.served import Served

HOUR_MS = 60 * MINUTE_MS


@pytest.fixture(params=[1, 3, 200])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that end before, with and after what there is."""
    monkeypatch.setattr(schedule_backfill, "SLICE", request.param)


async def filled(served: Served, schedule: dict[str, Any], **body: Any) -> dict[str, Any]:
    """What a backfill came to."""
    answer = await act(served, schedule, "backfill", {"overlap": "allow", **body})
    assert answer.status == 200, answer.raw
    return dict(answer.json)


async def counts(served: Served, schedule: dict[str, Any]) -> dict[str, int]:
    return dict((await read(served, schedule))["counts"])


async def sound(served: Served) -> None:
    """The checks of the store find nothing."""
    found = [(name, await served.database.read(look)) for name, look in check.contents()]
    assert [f"{name}: {detail}" for name, (ok, detail) in found if not ok] == []


@pytest.mark.usefixtures("slices")
async def test_absent_times_run_and_say_so(served: Served) -> None:
    schedule = await made(served)
    begin = served.world.now - served.world.now % MINUTE_MS - 5 * MINUTE_MS
    body = {"from": written(begin), "to": written(served.world.now)}

    dry = await filled(served, schedule, **body, dry_run=True)
    assert await ledger(served, schedule) == []
    done = await filled(served, schedule, **body)

    assert (done["fires"], done["absent"], done["kept"], done["next"]) == (6, 6, 0, None)
    assert dry == done | {"dry_run": True}
    assert (done["first"][0], len(done["first"]), len(done["last"])) == (written(begin), 3, 3)
    rows = await ledger(served, schedule)
    assert [(row["outcome"], row["reason"], row["backfill"], row["was"]) for row in rows] == [
        ("run", "backfill", True, None)
    ] * 6
    assert [row["nominal"] for row in rows] == [written(begin + n * MINUTE_MS) for n in range(6)]
    assert {row["state"] for row in rows} == {"ready"}
    task = (await served.ask("GET", f"/v1/tasks/{rows[0]['task_id']}")).json
    assert (task["run_at"], task["due_at"]) == (written(begin), written(served.world.now))
    assert (await counts(served, schedule))["fired"] == 6
    nothing = {"fires": 0, "absent": 0, "kept": 6, "first": [], "last": []}
    assert await filled(served, schedule, **body) == done | nothing
    await sound(served)


@pytest.mark.usefixtures("slices")
async def test_what_was_missed_or_skipped_runs_in_its_own_row_and_what_ran_is_left_alone(served: Served) -> None:
    schedule = await made(served)
    begin = served.world.now + 1
    assert await fire(served, schedule) is State.SUCCEEDED
    await act(served, schedule, "pause")
    await pass_ms(served, 3 * MINUTE_MS)
    await act(served, schedule, "resume")
    before = await ledger(served, schedule)
    assert await outcomes(served, schedule) == ["run"] + ["skipped(paused)"] * 3
    changed = await change(served, schedule, task={"target": {"url": "https://receiver.example/new"}})

    done = await filled(served, schedule, **{"from": written(begin)})

    assert (done["fires"], done["skipped"], done["kept"]) == (3, 3, 1)
    after = await ledger(served, schedule)
    assert after[0] == before[0]
    for was, row in zip(before[1:], after[1:], strict=True):
        assert (row["task_id"], row["nominal"]) == (was["task_id"], was["nominal"])
        assert (row["outcome"], row["reason"], row["schedule_version"]) == ("run", "backfill", changed["version"])
        assert row["was"]["outcome"] == "skipped"
        assert (row["was"]["reason"], row["was"]["decided_at"]) == ("paused", was["decided_at"])
        task = (await served.ask("GET", f"/v1/tasks/{row['task_id']}")).json
        assert (task["state"], task["target"]["url"]) == ("ready", "https://receiver.example/new")
    assert await counts(served, schedule) == {"fired": 4, "skipped": 0, "missed": 0, "failed": 0}
    await sound(served)


@pytest.mark.usefixtures("slices")
async def test_a_paused_schedule_is_filled_up_to_now_and_stays_paused(served: Served) -> None:
    schedule = await made(served)
    begin = served.world.now
    await act(served, schedule, "pause")
    served.world.now += 3 * MINUTE_MS
    body = {"from": written(begin)}

    dry = await filled(served, schedule, **body, dry_run=True)
    done = await filled(served, schedule, **body)

    assert (dry["skipped"], dry["absent"]) == (done["skipped"], done["absent"])
    assert done["fires"] == dry["fires"] == len(await ledger(served, schedule)) > 2
    assert (await read(served, schedule))["paused"]
    await act(served, schedule, "resume")
    assert set(await outcomes(served, schedule)) == {"run(backfill)"}
    await sound(served)


@pytest.mark.parametrize("part", [(0, 0), (0, 7), (3, 9), (500, 999), (999, 999), (1, 998)])
async def test_a_stretch_is_cut_where_times_of_it_run(served: Served, part: tuple[int, int]) -> None:
    schedule = await made(served, every="1s", paused=True)
    served.world.now += 2_000_000
    await act(served, schedule, "resume")
    [stretch] = [row for row in await ledger(served, schedule, "?limit=1000&to=" + _z(served, -990)) if row["from"]]
    assert stretch["count"] == 1_000
    first = _ms(stretch["from"])
    total = (await counts(served, schedule))["skipped"]
    from_at, to_at = (first + place * 1_000 for place in part)

    done = await filled(served, schedule, **{"from": written(from_at), "to": written(to_at)})

    runs = part[1] - part[0] + 1
    assert (done["fires"], done["skipped"]) == (runs, runs)
    rows = await whole(served, schedule)
    mine = [row for row in rows if _ms(row["nominal"]) < first + 1_000_000]
    covered = [at for row in mine for at in range(_ms(row["nominal"]), _ms(row["to"] or row["nominal"]) + 1, 1_000)]
    assert covered == [first + n * 1_000 for n in range(1_000)]
    assert sum(row["count"] for row in mine) == 1_000
    assert [row["outcome"] for row in mine].count("run") == runs
    assert all(row["count"] > 1 or row["task_id"] for row in mine)
    assert await counts(served, schedule) == {"fired": runs, "skipped": total - runs, "missed": 0, "failed": 0}
    await sound(served)


def _ms(text: str) -> int:
    return instant_ms(text)


def _z(served: Served, seconds: int) -> str:
    return written(served.world.now + seconds * 1_000)


async def whole(served: Served, schedule: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows, the earliest first."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = f"&cursor={cursor}" if cursor else ""
        found = (await served.ask("GET", f"{ALL}/{schedule['id']}/fires?limit=1000{page}")).json
        rows, cursor = rows + found["data"], found["next_cursor"]
    return rows[::-1]


@pytest.mark.usefixtures("slices")
async def test_one_after_the_other_in_the_order_of_the_calendar_and_beside_the_schedules_own(served: Served) -> None:
    schedule = await made(served)
    await act(served, schedule, "pause")
    served.world.now += 2 * MINUTE_MS
    await act(served, schedule, "resume")
    begin = served.world.now - served.world.now % MINUTE_MS - 4 * MINUTE_MS
    body = {"from": written(begin), "to": written(served.world.now), "overlap": "buffer_all"}

    done = await filled(served, schedule, **body)

    rows = await ledger(served, schedule)
    assert [row["nominal"] for row in rows] == [written(begin + n * MINUTE_MS) for n in range(done["fires"])]
    assert [row["state"] for row in rows] == ["ready"] + ["blocked"] * (len(rows) - 1)
    assert [one.id for one in served.due] == [rows[0]["task_id"].removeprefix("tsk_")], "it waits for no look"
    for place, row in enumerate(rows):
        [claimed] = await served.world.claim(row["task_id"].removeprefix("tsk_"))
        assert await served.world.finish(claimed, 200 if place % 2 else 404) in (State.SUCCEEDED, State.DEAD)
    after = await ledger(served, schedule)
    assert {row["state"] for row in after} == {"succeeded", "dead"}
    assert (await counts(served, schedule))["failed"] == sum(row["failed"] for row in after) == (len(rows) + 1) // 2
    # Its own fire at its time waits for none of these.
    assert await fire(served, schedule) is State.SUCCEEDED
    await sound(served)


async def test_who_waits_in_a_backfill_can_be_cancelled_and_lets_the_next_go(served: Served) -> None:
    schedule = await made(served)
    body = {"from": written(served.world.now - 5 * MINUTE_MS), "to": written(served.world.now), "overlap": "buffer_all"}
    await filled(served, schedule, **body)
    rows = await ledger(served, schedule)
    by = {"schedule_id": schedule["id"], "state": ["blocked"], "run_before": rows[3]["nominal"]}

    await served.ask("POST", "/v1/tasks/cancel", {"filter": by})
    [claimed] = await served.world.claim(rows[0]["task_id"].removeprefix("tsk_"))
    await served.world.finish(claimed)

    states = [row["state"] for row in await ledger(served, schedule)]
    assert states[:4] == ["succeeded", "cancelled", "cancelled", "ready"]
    again = await filled(served, schedule, **body)
    assert again["skipped"] == 2
    await sound(served)


async def test_a_backfill_goes_one_after_the_other_unless_the_schedule_allows_more(served: Served) -> None:
    for overlap, wanted in (("skip", {"ready", "blocked"}), ("allow", {"ready"})):
        schedule = await made(served, overlap=overlap)
        begin = written(served.world.now - 5 * MINUTE_MS)
        assert (await act(served, schedule, "backfill", {"from": begin})).status == 200
        assert {row["state"] for row in await ledger(served, schedule)} == wanted


async def test_a_stretch_of_another_rule_is_left_alone(served: Served) -> None:
    schedule = await made(served, every="1s", paused=True)
    begin = served.world.now
    served.world.now += 2_000_000
    await act(served, schedule, "resume")
    await change(served, schedule, every="7s")

    done = await filled(served, schedule, **{"from": written(begin), "to": written(begin + 700_000)})

    assert (done["fires"], done["kept"]) == (0, 100)
    await sound(served)


async def test_what_a_calendar_holds_stays_skipped_unless_it_is_asked_for(served: Served) -> None:
    await served.ask("PUT", "/v1/calendars/always", {"ranges": [{"from": 0, "to": 4_000_000_000}]})
    schedule = await made(served, calendars=["always"])
    begin = served.world.now
    await pass_ms(served, 2 * MINUTE_MS)
    body = {"from": written(begin - MINUTE_MS + 1)}

    kept = await filled(served, schedule, **body)
    assert (kept["fires"], kept["held"]) == (0, 3)
    done = await filled(served, schedule, **body, held=True)

    assert (done["fires"], done["absent"], done["skipped"]) == (3, 1, 2)
    assert await outcomes(served, schedule) == ["run(backfill)"] * 3
    await sound(served)


@pytest.mark.parametrize("dry_run", [True, False])
async def test_of_times_that_do_not_run_so_many_are_looked_at_in_one_request(
    served: Served, dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that had run as often as it may was looked through from 1900 on, with no end to it."""
    monkeypatch.setattr(schedule_backfill, "TIMES_MAX", 1_000)
    schedule = await made(served, every="1s", max_fires=1)
    await pass_ms(served, 1_000)

    done = await filled(served, schedule, **{"from": "1900-01-01T00:00:00Z"}, limit=5, dry_run=dry_run)

    assert (done["fires"], done["beyond_max_fires"]) == (0, 1_000)
    assert done["next"] == "1900-01-01T00:16:40.001Z"


async def test_max_fires_bounds_a_backfill_and_a_backfill_ends_a_schedule(served: Served) -> None:
    schedule = await made(served, max_fires=3)
    begin = served.world.now - 10 * MINUTE_MS + 1
    body = {"from": written(begin), "to": written(served.world.now)}

    dry = await filled(served, schedule, **body, dry_run=True)
    done = await filled(served, schedule, **body)

    assert (done["fires"], done["beyond_max_fires"]) == (dry["fires"], dry["beyond_max_fires"]) == (3, 7)
    shown = await read(served, schedule)
    assert (shown["ended"], shown["next_fire_at"], shown["counts"]["fired"]) == (True, None, 3)
    await sound(served)


async def test_what_retention_has_taken_is_not_run_again(served: Served) -> None:
    schedule = await made(served, overlap="allow")
    begin = served.world.now + 1
    for _ in range(3):
        await fire(served, schedule)
    rows = await ledger(served, schedule)
    gone = [(row["task_id"].removeprefix("tsk_"), "default", int(State.SUCCEEDED)) for row in rows[:2]]
    await served.database.write(lambda tx: tasks.delete(tx, gone))
    await served.database.write(lambda tx: fires.purge(tx, served.world.now, 100))
    assert len(await ledger(served, schedule)) == 1

    done = await filled(served, schedule, **{"from": written(begin), "to": written(served.world.now)})

    assert (done["fires"], done["kept"], done["forgotten"]) == (0, 1, 2)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, None),
        ({"from": "then"}, "/from"),
        ({"from": 100, "to": 50}, "/from"),
        ({"from": 4_000_000_000}, "/from"),
        ({"from": 100, "to": 4_000_000_000}, "/to"),
        ({"from": 100, "overlap": "skip"}, "/overlap"),
        ({"from": 100, "limit": 0}, "/limit"),
        ({"from": 100, "limit": 100_001}, "/limit"),
    ],
)
async def test_what_makes_no_sense_is_refused(served: Served, body: dict[str, Any], pointer: str | None) -> None:
    schedule = await made(served)

    answer = await act(served, schedule, "backfill", body)

    assert (answer.status, answer.code) == (422, "validation_failed")
    if pointer is not None:
        assert pointer in answer.pointers


async def test_too_many_times_are_refused_and_the_error_says_what_to_do(served: Served) -> None:
    schedule = await made(served, every="1s")
    begin = written(served.world.now - 200_000_000)

    answer = await act(served, schedule, "backfill", {"from": begin})

    assert answer.status == 422
    assert "`limit`" in answer.json["detail"]
    assert "100000" in answer.json["detail"]
    part = await filled(served, schedule, **{"from": begin}, limit=5)
    assert (part["fires"], part["next"]) == (5, written(_ms(part["last"][-1]) + 1))
    again = await filled(served, schedule, **{"from": part["next"]}, limit=5)
    assert (again["fires"], again["absent"], _ms(again["first"][0])) == (5, 5, _ms(part["last"][-1]) + 1_000)


async def test_before_its_start_or_behind_its_end_there_is_nothing(served: Served) -> None:
    now = served.world.now
    begun = await made(served, start_at=written(now - MINUTE_MS))
    ended = await made(served, end_at=written(now + MINUTE_MS))
    await pass_ms(served, 5 * MINUTE_MS)

    before = await act(served, begun, "backfill", {"from": 100, "to": 200})
    behind = await act(served, ended, "backfill", {"from": written(now + 2 * MINUTE_MS)})

    assert (before.status, "start_at" in before.json["detail"]) == (422, True)
    assert (behind.status, "end_at" in behind.json["detail"]) == (422, True)
    assert (await filled(served, begun, **{"from": 100, "to": written(now)}))["fires"] <= 2
    await settled(served)


async def test_a_backfill_that_was_cut_off_goes_on_and_counts_nothing_twice(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_backfill, "SLICE", 2)
    schedule = await made(served)
    body = {"from": written(served.world.now - 9 * MINUTE_MS), "to": written(served.world.now), "overlap": "allow"}
    key = {"Idempotency-Key": "once"}
    slice_, done = schedule_backfill._filled, 0

    async def cut(*args: Any) -> Any:
        nonlocal done
        done += 1
        if done > 2:
            raise StoreError("cut off")
        return await slice_(*args)

    with monkeypatch.context() as broken:
        broken.setattr(schedule_backfill, "_filled", cut)
        assert (await act(served, schedule, "backfill", body, headers=key)).status >= 500
    assert (await counts(served, schedule))["fired"] == 4

    first = await act(served, schedule, "backfill", body, headers=key)
    again = await act(served, schedule, "backfill", body, headers=key)

    assert first.json["fires"] == (await counts(served, schedule))["fired"] == len(await ledger(served, schedule))
    assert (again.raw, again.headers["Idempotency-Replayed"]) == (first.raw, "true")
    await sound(served)


async def test_a_backfill_takes_the_room_there_is_and_says_so(served: Served) -> None:
    schedule = await made(served)
    await served.ask("PUT", "/v1/tenants/default", {"max_pending": 4})
    body = {"from": written(served.world.now - 9 * MINUTE_MS), "overlap": "allow"}

    answer = await act(served, schedule, "backfill", body)

    assert (answer.status, answer.code) == (429, "quota_exceeded")
    assert answer.headers["Retry-After"]
    assert answer.json["detail"].startswith("3 are on their way")
    assert (await counts(served, schedule))["fired"] == 3
    await sound(served)
