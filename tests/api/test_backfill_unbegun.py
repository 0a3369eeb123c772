"""What a backfill let run, and ended before it began: its row still says that a backfill had let it run."""

import pytest

from tasktick.api.times import written
from tasktick.model.change import cancel, expire
from tests.api.calendar import ALL, MINUTE_MS, ledger, made
from tests.api.served import Served
from tests.api.test_schedule_backfill import counts, filled, sound


@pytest.mark.parametrize("how", ["cancelled", "expired"])
async def test_what_a_backfill_let_run_and_never_began_says_so(served: Served, how: str) -> None:
    schedule = await made(served, task={"target": {"url": "https://receiver.example/hook"}, "expires_in": "30s"})
    begin = served.world.now - served.world.now % MINUTE_MS - MINUTE_MS
    await filled(served, schedule, **{"from": written(begin), "to": written(begin)})
    ((row),) = await ledger(served, schedule)
    task = await served.world.state(row["task_id"].removeprefix("tsk_"))
    served.world.now += 30_000
    ended = expire(task, served.world.now) if how == "expired" else cancel(task, served.world.now)
    assert await served.world.write(ended) == [task.id]

    ((row),) = await ledger(served, schedule)
    assert (row["outcome"], row["reason"], row["state"]) == ("skipped", f"{how}:backfill", how)
    assert (row["backfill"], row["was"]) == (True, None)
    for wanted in ("backfill", how, f"{how}:backfill"):
        assert await ledger(served, schedule, f"?reason={wanted}") == [row], wanted
    said = (await served.ask("GET", f"{ALL}/{schedule['id']}/explain?at={row['nominal']}")).raw.decode()
    assert "A backfill had let it run." in said
    assert await counts(served, schedule) == {"fired": 0, "skipped": 1, "missed": 0, "failed": 0}

    again = await filled(served, schedule, **{"from": written(begin), "to": written(begin)})
    ((row),) = await ledger(served, schedule)
    assert (again["skipped"], row["reason"], row["was"]["reason"]) == (1, "backfill", f"{how}:backfill")
    await sound(served)
