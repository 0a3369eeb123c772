"""Schedules of recurrence rules and of several rules: made, changed from form to form, fired."""

from typing import Any

from tests.api.calendar import ALL, MINUTE_MS, change, ledger, made, pass_ms, read
from tests.api.served import Served, ids_of

SPEC: list[dict[str, Any]] = [
    {"cron": "*/5 * * * *"},
    {"every": "2m"},
    {"rrule": "FREQ=HOURLY;BYMINUTE=0,10,20,30,40,50"},
]


async def test_equal_instants_are_one_fire_of_the_ledger(served: Served) -> None:
    schedule = await made(served, every=None, spec=SPEC, overlap="allow")
    assert (schedule["cron"], schedule["every"], schedule["rrule"]) == (None, None, None)
    assert schedule["spec"] == [
        {"cron": "*/5 * * * *", "every": None, "anchor": None, "rrule": None},
        {"cron": None, "every": 120, "anchor": None, "rrule": None},
        {"cron": None, "every": None, "anchor": None, "rrule": SPEC[2]["rrule"]},
    ]
    for _ in range(10):
        await pass_ms(served, MINUTE_MS)

    rows = await ledger(served, schedule)
    together = {row["nominal"][15:16]: row["collapsed"] for row in rows}
    assert together == {"0": 3, "2": 1, "4": 1, "5": 1, "6": 1, "8": 1}
    assert {row["outcome"] for row in rows} == {"run"}


async def test_one_form_takes_the_place_of_another(served: Served) -> None:
    schedule = await made(served)
    both = await served.ask("PATCH", f"{ALL}/{schedule['id']}", {"spec": SPEC})
    assert (both.status, both.pointers) == (422, {"/spec"})

    several = await change(served, schedule, every=None, spec=SPEC)
    assert several["spec"][0]["cron"] == "*/5 * * * *"
    assert await change(served, schedule, name="n") == await read(served, schedule)
    assert (await read(served, schedule))["spec"] == several["spec"], "what is not named stays"
    rule = "DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"
    single = await change(served, schedule, spec=None, rrule=rule, timezone="Europe/Berlin")
    assert (single["spec"], single["rrule"], single["next_fire_at"][13:]) == (None, rule, ":00:00.000Z")
    back = await change(served, schedule, rrule=None, every="1m")
    assert (back["every"], back["rrule"], back["spec"]) == (60, None, None)


async def test_each_form_is_found_by_its_text(served: Served) -> None:
    several = await made(served, every=None, spec=[{"cron": "11 3 * * *"}, {"every": "2h"}])
    single = await made(served, every=None, rrule="FREQ=DAILY;BYHOUR=13")
    for text, wanted in (("11 3", several), ("byhour", single)):
        found = await served.ask("GET", f"{ALL}?q={text.replace(' ', '%20')}")
        assert ids_of(found.json["data"]) == [wanted["id"]]


async def test_what_is_too_much_to_count_is_refused(served: Served) -> None:
    schedule = await made(served, every=None, spec=[{"every": "1m"}, {"every": "61s"}], max_fires=9)
    far = await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?from=2090-01-01T00:00:00Z")
    assert (far.status, far.pointers) == (422, {"?from"})
    near = await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?from={served.world.now // 1_000 + 200}")
    assert (near.status, len(near.json["fires"]) in {2, 3}) == (200, True)
