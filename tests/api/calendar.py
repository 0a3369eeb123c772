"""Schedules as a client makes them on a served API, and as a node would run what they make."""

from functools import partial
from typing import Any

from tasktick.model.state import State
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import settle
from tasktick.store import schedules
from tests.api.served import URL, Answer, Served

ALL = "/v1/schedules"
MINUTE_MS = 60_000
EACH_MINUTE: dict[str, Any] = {"every": "1m", "task": {"target": {"url": URL, "body": {"n": 1}}}}


def asked(**fields: Any) -> dict[str, Any]:
    """A schedule that fires each minute, if nothing else is said; None leaves a field out."""
    return {name: value for name, value in {**EACH_MINUTE, **fields}.items() if value is not None}


async def made(served: Served, **fields: Any) -> dict[str, Any]:
    """A schedule that was created, as it was answered."""
    answer = await served.ask("POST", ALL, asked(**fields))
    assert answer.status == 201, answer.raw
    return dict(answer.json)


async def read(served: Served, schedule: dict[str, Any]) -> dict[str, Any]:
    """The schedule as it is now."""
    return dict((await served.ask("GET", f"{ALL}/{schedule['id']}")).json)


async def act(served: Served, schedule: dict[str, Any], word: str, body: Any = None, **more: Any) -> Answer:
    """What an action on it came to."""
    return await served.ask("POST", f"{ALL}/{schedule['id']}/{word}", body, **more)


async def change(served: Served, schedule: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The schedule as it is after a PATCH."""
    answer = await served.ask("PATCH", f"{ALL}/{schedule['id']}", fields)
    assert answer.status == 200, answer.raw
    return dict(answer.json)


async def settled(served: Served) -> None:
    """Decide about everything that is due, as the loop behind all schedules does."""
    while due := await served.database.read(lambda tx: schedules.due(tx, served.world.now, 100)):
        plans = [
            settle(one.schedule, one.tasks, heeding(served.deciding(one.schedule.id), one.calendars, one.line))
            for one in due
        ]
        found = [plan for plan in plans if plan is not None]
        assert all(await served.database.write(partial(schedules.carry_out, plans=found)))


async def pass_ms(served: Served, duration_ms: int) -> None:
    """Let time pass, and decide about what came due."""
    served.world.now += duration_ms
    await settled(served)


async def ledger(served: Served, schedule: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    """What became of its times, the earliest first."""
    answer = await served.ask("GET", f"{ALL}/{schedule['id']}/fires{query}")
    assert answer.status == 200, answer.raw
    return list(reversed(answer.json["data"]))


async def outcomes(served: Served, schedule: dict[str, Any]) -> list[str]:
    """The same in words."""
    rows = await ledger(served, schedule)
    return [row["outcome"] + (f"({row['reason']})" if row["reason"] else "") for row in rows]


async def fire(served: Served, schedule: dict[str, Any], status: int | None = 200) -> State | None:
    """Move to the time of its next fire, run it, and settle."""
    ahead = await next_task(served, schedule)
    state = await served.world.state(ahead)
    served.world.now = max(served.world.now, state.due_at)
    [claimed] = await served.world.claim(ahead)
    ended = await served.world.finish(claimed, status)
    await settled(served)
    return ended


async def next_task(served: Served, schedule: dict[str, Any]) -> str:
    """The id of the fire that is made ahead."""
    found = await served.database.read(lambda tx: schedules.find(tx, schedule["tenant"], schedule["id"]))
    assert found.schedule.next_id is not None
    return found.schedule.next_id
