"""Checks as clients make them, and pings as jobs send them: what becomes of both, who sees it, what is refused."""

import json
from contextlib import ExitStack
from typing import Any

import pytest

from tasktick.access.roles import Role
from tasktick.api import knocks
from tasktick.api.event_frames import frames
from tasktick.errors import Refused
from tasktick.scheduler.check_watch import look
from tasktick.scheduler.checkins import AWAY_AFTER_MS
from tasktick.store import checkins, names
from tasktick.store import events as stored_events
from tests.api.served import Answer, Served
from tests.store import told

CHECKS = "/v1/checks"
MINUTE_MS = 60_000
NOBODY = "/ping/chk_" + "0" * 32


async def made(served: Served, **fields: Any) -> dict[str, Any]:
    """A check, each minute with ten seconds of grace if nothing else is said."""
    body = {"period": "1m", "grace": "10s"} | fields
    answer = await served.ask("POST", CHECKS, {name: value for name, value in body.items() if value is not None})
    assert answer.status == 201, answer.raw
    return dict(answer.json)


async def ping(served: Served, check: dict[str, Any], word: str = "", **more: Any) -> Answer:
    """A ping, without a key."""
    path = str(check["ping_path"]) + (f"/{word}" if word else "") + str(more.pop("query", ""))
    return await served.ask(more.pop("method", "GET"), path, key="", **more)


async def read(served: Served, check: dict[str, Any]) -> dict[str, Any]:
    return dict((await served.ask("GET", f"{CHECKS}/{check['id']}")).json)


async def seen(served: Served) -> None:
    """Somebody is there."""
    now = served.world.now
    await served.database.write(lambda tx: checkins.note_seen(tx, now, AWAY_AFTER_MS))


async def watch(served: Served, duration_ms: int = 0, *, there: bool = True) -> None:
    """Let time pass and look at what is due; `there` says whether somebody was."""
    served.world.now += duration_ms
    now = served.world.now
    if there:
        await served.database.write(lambda tx: checkins.note_seen(tx, now, 1 << 50))
    await seen(served)
    due = await served.database.read(lambda tx: checkins.due(tx, now, 100))
    await served.database.write(lambda tx: look(tx, due, now))


async def events(served: Served) -> list[tuple[str, dict[str, Any]]]:
    await served.database.number_events()
    found = await served.database.read(told.items)
    return [(item.type, item.data or {}) for _, item in found if item.type is not None]


async def kinds(served: Served) -> list[str]:
    return [kind.removeprefix("check.") for kind, _ in await events(served)]


async def test_a_check_is_up_late_down_and_up_again(served: Served) -> None:
    check = await made(served, key="backup", name="Backup", tags={"team": "a"}, max_runtime="1h")
    assert (check["state"], check["grace"], check["period"], check["max_runtime"]) == ("new", 10, 60, 3600)
    assert check["ping_id"].startswith("chk_")
    answer = await ping(served, check)
    assert (answer.status, answer.raw, answer.headers["Content-Type"]) == (200, b"OK", "text/plain")
    assert (await read(served, check))["state"] == "up"
    await watch(served, MINUTE_MS - 1)
    assert (await read(served, check))["state"] == "up"
    await watch(served, 1)
    assert (await read(served, check))["state"] == "late"
    await watch(served, 10_000)
    down = await read(served, check)
    assert (down["state"], down["reason"], down["down_at"]) == ("down", "overdue", None)
    await watch(served, MINUTE_MS)
    await ping(served, check, method="HEAD")
    await ping(served, check, method="POST", raw=b"fine")
    assert await kinds(served) == ["up", "late", "down", "up"]
    assert (await events(served))[2][1]["reason"] == "overdue"
    pings = (await served.ask("GET", f"{CHECKS}/{check['id']}/pings")).json["data"]
    assert [(one["number"], one["method"], one["body"]) for one in pings] == [
        (3, "POST", "fine"),
        (2, "HEAD", None),
        (1, "GET", None),
    ]


async def test_exit_codes_and_failures_with_their_logs(served: Served) -> None:
    check = await made(served)
    assert (await ping(served, check, "0")).status == 200
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await ping(served, check, "17", method="POST", raw=b"no\0 space\xff", headers=headers)).status == 200
    assert (await ping(served, check, "fail")).status == 200
    found = await read(served, check)
    assert (found["state"], found["reason"], found["failures"]) == ("down", "failed", 2)
    told_of = [(kind, data.get("exit_code"), data["status"]) for kind, data in await events(served)]
    assert told_of == [("check.up", None, "up"), ("check.failed", 17, "down"), ("check.failed", None, "down")]
    failures = (await served.ask("GET", f"{CHECKS}/{check['id']}/pings?kind=fail&limit=1")).json
    assert failures["data"][0]["exit_code"] is None
    cursor = failures["next_cursor"]
    rest = (await served.ask("GET", f"{CHECKS}/{check['id']}/pings?kind=fail&limit=1&cursor={cursor}")).json
    (one,) = rest["data"]
    assert (one["exit_code"], one["body"], one["body_bytes"]) == (17, "no� space�", 10)
    for word in ("256", "-1", "1e1", "stop", "٣"):
        assert (await ping(served, check, word)).status == 404
    assert (await read(served, check))["pings"] == 3


async def test_a_run_is_paired_and_may_not_take_too_long(served: Served) -> None:
    check = await made(served, max_runtime="5m")
    await ping(served, check)
    await watch(served, MINUTE_MS - 5_000)
    await ping(served, check, "start", query="?run=a")
    started = await read(served, check)
    assert (started["state"], started["runs"][0]["run"]) == ("started", "a")
    await watch(served, 4 * MINUTE_MS)
    assert (await read(served, check))["state"] == "started", "it began in time, and may take five minutes"
    await ping(served, check, query="?run=a")
    ended = await read(served, check)
    assert (ended["state"], ended["last_duration"], ended["runs"]) == ("up", 240, [])
    await ping(served, check, "start", query="?run=b")
    await watch(served, 5 * MINUTE_MS)
    down = await read(served, check)
    assert (down["state"], down["reason"]) == ("down", "overran")
    kind, data = (await events(served))[-1]
    assert (kind, data["run"]) == ("check.down", "b")
    await ping(served, check, "log", method="POST", raw=b"still here")
    assert (await read(served, check))["state"] == "down"


async def test_a_cron_check_knows_its_zone_and_words_that_are_early(served: Served) -> None:
    check = await made(served, period=None, cron="0 9 * * *", timezone="Europe/Berlin", grace="10m")
    assert check["expected_at"].endswith("T08:00:00.000Z")
    early = await made(served, period=None, every="1h", grace="10m")
    expected = await read(served, early)
    await ping(served, early)
    assert (await read(served, early))["expected_at"] == expected["expected_at"]
    served.world.now += 3_600_000 - served.world.now % 3_600_000 - 60_000
    await ping(served, early)
    assert (await read(served, early))["expected_at"] > expected["expected_at"], "a minute early is for that hour"


async def test_after_an_absence_of_tasktick_nothing_goes_down_at_once(served: Served) -> None:
    check = await made(served)
    await seen(served)
    await ping(served, check)
    await watch(served, 10 * MINUTE_MS, there=False)
    found = await read(served, check)
    assert found["state"] == "late"
    kind, data = (await events(served))[-1]
    assert (kind, data["tasktick_was_away"]["until_at"]) == ("check.late", served.world.now)
    await watch(served, 9_999)
    assert (await read(served, check))["state"] == "late"
    await watch(served, 1)
    assert (await read(served, check))["state"] == "down"
    assert "tasktick_was_away" in (await events(served))[-1][1]
    await ping(served, check)
    await watch(served, MINUTE_MS + 10_000)
    assert (await read(served, check))["state"] == "down"
    assert "tasktick_was_away" not in (await events(served))[-1][1]


async def test_a_ping_that_comes_before_anybody_looked_after_an_absence_tells_nothing_wrong(served: Served) -> None:
    check = await made(served)
    await seen(served)
    await ping(served, check)
    served.world.now += 10 * MINUTE_MS
    await ping(served, check)
    assert await kinds(served) == ["up", "late", "up"]


async def test_a_paused_check_stays_paused_and_begins_anew(served: Served) -> None:
    check = await made(served)
    await ping(served, check)
    path = f"{CHECKS}/{check['id']}"
    assert (await served.ask("POST", f"{path}/pause")).json["state"] == "paused"
    await watch(served, 10 * MINUTE_MS)
    await ping(served, check, "fail")
    found = await read(served, check)
    assert (found["state"], found["pings"], found["expected_at"]) == ("paused", 2, None)
    assert (await served.ask("POST", f"{path}/resume")).json["state"] == "new"
    await watch(served, MINUTE_MS)
    assert await kinds(served) == ["up", "paused", "resumed", "late"]
    assert (await served.ask("POST", f"{path}/resume")).json["state"] == "late", "it was not paused"


async def test_a_check_is_replaced_changed_and_removed(served: Served) -> None:
    path = f"{CHECKS}/key:db"
    answer = await served.ask("PUT", path, {"period": "1h"})
    assert (answer.status, answer.json["grace"]) == (201, 300)
    first = answer.json
    again = await served.ask("PUT", path, {"period": "1h"})
    assert (again.status, again.json) == (200, first)
    other = (await served.ask("PUT", path, {"cron": "@daily", "paused": True})).json
    assert (other["cron"], other["period"], other["state"], other["ping_id"]) == (
        "@daily",
        None,
        "paused",
        first["ping_id"],
    )
    patched = await served.ask("PATCH", path, {"name": "DB", "grace": "2h"}, headers={"If-Match": '"2"'})
    assert (patched.json["name"], patched.json["grace"], patched.json["cron"]) == ("DB", 7200, "@daily")
    assert (await served.ask("PATCH", path, {"name": "x"}, headers={"If-Match": '"2"'})).status == 412
    assert (await served.ask("POST", CHECKS, {"key": "db", "period": "1h"})).code == "key_taken"
    rotated = (await served.ask("POST", f"{path}/rotate")).json
    assert rotated["ping_id"] != first["ping_id"]
    assert (await ping(served, first)).status == 404
    assert (await ping(served, rotated)).status == 200
    assert (await served.ask("DELETE", path)).status == 204
    assert (await ping(served, rotated)).status == 404
    assert (await served.ask("GET", path)).status == 404
    assert (await served.ask("PUT", path, {"period": "1h"})).status == 201, "its key is free"


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/period"}),
        ({"period": "1h", "cron": "@daily"}, {"/period"}),
        ({"cron": "61 * * * *"}, {"/cron"}),
        ({"period": "1h", "timezone": "UTC"}, {"/timezone"}),
        ({"period": "1ms"}, {"/period"}),
        ({"period": "1h", "max_runtime": "0s"}, {"/max_runtime"}),
        ({"cron": "@daily", "timezone": "Mars"}, {"/timezone"}),
        ({"period": "1h", "key": "a b"}, {"/key"}),
        ({"period": "1h", "url": "x"}, {"/url"}),
    ],
)
async def test_what_is_wrong_is_named(served: Served, body: dict[str, Any], pointers: set[str]) -> None:
    answer = await served.ask("POST", CHECKS, body)
    assert (answer.status, answer.pointers) == (422, pointers)


async def test_each_tenant_has_its_own_and_a_viewer_cannot_ping(served: Served) -> None:
    check = await made(served, name="Mine", tags={"team": "a"})
    other = await served.add_key(Role.MANAGER, "other")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/pings"), ("POST", "/rotate")):
        answer = await served.ask(method, f"{CHECKS}/{check['id']}{path}", key=other)
        assert (answer.status, answer.code) == (404, "not_found")
    assert (await served.ask("GET", CHECKS, key=other)).json["data"] == []
    viewer = await served.add_key(Role.VIEWER)
    (shown,) = (await served.ask("GET", f"{CHECKS}?q=mine&tag=team:a&status=new&paused=false", key=viewer)).json["data"]
    assert (shown["ping_path"], shown["ping_id"]) == (None, "***" + check["ping_id"][-4:])
    assert (await served.ask("GET", f"{CHECKS}?status=down")).json["data"] == []


async def test_checks_are_listed_in_pages(served: Served) -> None:
    names = [(await made(served, key=f"k{place}"))["id"] for place in range(3)]
    page = (await served.ask("GET", f"{CHECKS}?limit=2")).json
    assert [one["id"] for one in page["data"]] == names[:0:-1]
    rest = (await served.ask("GET", f"{CHECKS}?limit=2&cursor={page['next_cursor']}")).json
    assert ([one["id"] for one in rest["data"]], rest["next_cursor"]) == ([names[0]], None)


async def test_nobodys_ids_are_told_apart_by_nothing_and_not_without_end(served: Served) -> None:
    check = await made(served)
    assert (await ping(served, check)).status == 200
    for path in (NOBODY, "/ping/x", "/ping/%00", "/ping/" + "a" * 900, f"{NOBODY}/start", f"{NOBODY}/7", "/ping/"):
        answer = await served.ask("GET", path, key="")
        assert (answer.status, answer.code) == (404, "not_found")
        assert answer.json["detail"] == "There is nothing at this path."
    statuses = [(await served.ask("GET", NOBODY, key="")).status for _ in range(knocks.WRONG_PINGS.count)]
    assert set(statuses) == {404, 429}
    limited = await served.ask("GET", NOBODY, key="")
    assert (limited.status, int(limited.headers["Retry-After"]) > 0) == (429, True)
    assert (await ping(served, check)).status == 200, "an id that was right before is heard"


async def test_who_is_wrong_too_often_does_not_silence_others_behind_the_same_proxy(served: Served) -> None:
    check = await made(served)
    for _ in range(knocks.WRONG_PINGS.count + 1):
        limited = await served.ask("GET", NOBODY, key="")
    assert limited.status == 429

    assert (await ping(served, check)).status == 200, "nobody has heard of it since this process began"

    assert (await served.ask("GET", NOBODY, key="")).status == 429


def test_of_an_address_that_was_wrong_too_often_a_few_are_looked_up_at_once() -> None:
    door = knocks.Knocks()
    for _ in range(knocks.WRONG_PINGS.count):
        door.wrong("nobody", "10.0.0.1", 0.0)
    with pytest.raises(Refused, match="Too many wrong pings"):
        door.wrong("nobody", "10.0.0.1", 0.0)
    with ExitStack() as looked_up:
        for place in range(knocks.DOUBTED_MAX):
            looked_up.enter_context(door.heard(f"{place}", "10.0.0.1", 0.0))
        with pytest.raises(Refused, match="Too many wrong pings"), door.heard("one more", "10.0.0.1", 0.0):
            pass
        with door.heard("one more", "10.0.0.2", 0.0):
            pass
    with door.heard("one more", "10.0.0.1", 0.0):
        pass


@pytest.mark.parametrize("word", ["", "/rotate"])
async def test_what_is_kept_for_a_repetition_does_not_tell_the_ping_id(served: Served, word: str) -> None:
    check = await made(served, key="backup")
    body = {"period": 60} if word == "" else None
    path = f"{CHECKS}/{check['id']}{word}" if word else CHECKS
    first = await served.ask("POST", path, body, headers={"Idempotency-Key": "k"})
    again = await served.ask("POST", path, body, headers={"Idempotency-Key": "k"})
    assert again.json == first.json
    ping_id = first.json["ping_id"]
    assert ping_id.startswith("chk_")
    kept = await served.database.read(lambda tx: names.find(tx, "default", names.IDEMPOTENCY, "k"))
    assert kept is not None
    assert ping_id not in str(kept)


async def test_a_flood_is_refused_and_what_was_answered_is_kept(served: Served) -> None:
    check = await made(served)
    statuses = [(await ping(served, check)).status for _ in range(knocks.PINGS.count + 5)]
    assert statuses.count(200) == knocks.PINGS.count
    assert set(statuses[knocks.PINGS.count :]) == {429}
    assert (await read(served, check))["pings"] == knocks.PINGS.count


async def test_a_huge_log_is_cut_and_its_ping_is_not_lost(served: Served) -> None:
    check = await made(served)
    answer = await ping(served, check, "1", method="POST", raw=b"x" * 200_000, headers={"Content-Type": "text/plain"})
    assert answer.status == 200
    (one,) = (await served.ask("GET", f"{CHECKS}/{check['id']}/pings")).json["data"]
    assert (len(one["body"]), one["body_bytes"]) == (10_240, 200_000)
    head = f"POST {check['ping_path']}/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n".encode()
    assert b" 200 " in (await served.wire(head, *[b"y" * 65_536] * 6)).split(b"\r\n")[0]
    (one, _) = (await served.ask("GET", f"{CHECKS}/{check['id']}/pings")).json["data"]
    assert (one["exit_code"], one["body_bytes"]) == (2, 50_000_000)


async def test_a_check_keeps_so_many_pings(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkins, "PINGS_KEPT", 3)
    check = await made(served)
    for _ in range(5):
        await ping(served, check)
    pings = (await served.ask("GET", f"{CHECKS}/{check['id']}/pings")).json["data"]
    assert [one["number"] for one in pings] == [5, 4, 3]
    assert (await read(served, check))["pings"] == 5
    assert await served.database.write(lambda tx: checkins.purge(tx, served.world.now, 2)) == 2


async def test_a_store_that_is_away_or_slow_is_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    check = await made(served)
    monkeypatch.setattr("tasktick.api.pings.WAIT_S", 0.0)
    answer = await ping(served, check)
    assert (answer.status, answer.code) == (503, "store_unavailable")
    assert int(answer.headers["Retry-After"]) > 0


async def test_events_of_checks_are_in_the_feed_with_times_as_clients_read_them(served: Served) -> None:
    check = await made(served, key="job")
    await seen(served)
    await watch(served, MINUTE_MS)
    await served.database.number_events()
    rows = await served.database.read(lambda tx: stored_events.page(tx, 1))
    (frame,) = [one for row in rows for one in frames(row, "default")]
    assert frame.type == "check.late"
    data = json.loads(frame.text.partition(b"data: ")[2])
    assert (data["id"], data["key"], data["tenant"]) == (check["id"], "job", "default")
    assert data["expected_at"] == check["expected_at"]
    assert [row for row in rows if frames(row, "other")] == []
    known = await served.ask("GET", "/v1/events?type=check.late&type=schedule.late&after=none")
    assert (known.status, known.code) == (400, "malformed"), "the types are known, the place is not"


async def test_wrong_words_do_not_begin_the_allowance_anew(served: Served) -> None:
    check = await made(served)
    statuses = []
    for _ in range(2):
        statuses += [(await ping(served, check)).status for _ in range(knocks.PINGS.count - 1)]
        statuses.append((await ping(served, check, "256")).status)
    assert 429 in statuses
    assert statuses.count(200) < knocks.PINGS.count


@pytest.mark.parametrize("known", [True, False])
async def test_a_wrong_word_is_told_alike_whoever_is_pinged(served: Served, known: bool) -> None:
    check = await made(served) if known else {"ping_path": NOBODY}
    answer = await ping(served, check, "256")
    assert answer.status == 404
    assert "exit code from 0 to 255" in answer.json["detail"]
