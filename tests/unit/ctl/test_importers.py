"""What becomes of each thing that a source may say, but for when: that is held against oracles."""

from typing import Any

import pytest

from tasktick.ctl.importers import apscheduler, celery, crontab, eventbridge, kubernetes, qstash
from tasktick.ctl.importers.account import Account, Options

RUNNER = "https://runner.example/"


def account(read: Any, document: Any, **options: Any) -> Account:
    made = Account(Options(**options))
    read(made, document)
    return made


def only(read: Any, document: Any, **options: Any) -> dict[str, Any]:
    made = account(read, document, **options)
    assert [line.outcome for line in made.lines if line.outcome == "refused"] == [], made.lines
    (schedule,) = made.schedules.values()
    return schedule


def said(made: Account) -> str:
    return "\n".join(detail for line in made.lines for detail in line.details)


def test_a_crontab_line_by_line() -> None:
    text = """
# a comment
MAILTO=ops@example.com
PATH = "/usr/bin:/bin"
CRON_TZ=Europe/Berlin
0 9 * * 1-5 curl https://app.example/report
CRON_TZ=America/New_York
@daily  /usr/local/bin/backup --full % first\\%line%second
@reboot /usr/bin/thing
0 25 * * * true
nonsense
-*/5 * * * FRI-MON curl https://app.example/report
"""
    made = account(crontab.read, text)
    assert list(made.schedules) == ["report", "backup"]
    assert made.schedules["report"] == {
        "cron": "0 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "overlap": "allow",
        "catch_up": {"mode": "none"},
        "task": {"target": {"url": "https://app.example/report", "method": "GET"}, "retry": {"max_attempts": 1}},
    }
    backup = made.schedules["backup"]
    assert (backup["cron"], backup["timezone"]) == ("@daily", "America/New_York")
    assert backup["task"]["queue"] == "commands"
    assert backup["task"]["payload"] == {
        "command": "/usr/local/bin/backup --full",
        "stdin": " first%line\nsecond",
        "environment": {"PATH": "/usr/bin:/bin"},
    }
    outcomes = [(line.where, line.outcome) for line in made.lines]
    assert outcomes == [
        ("line 3", "changed"),
        ("line 6", "carried"),
        ("line 8", "changed"),
        ("line 9", "refused"),
        ("line 10", "refused"),
        ("line 11", "refused"),
        ("line 12", "refused"),
    ]
    for words in ("Nothing is mailed", "no machine", "`25` is not in 0 to 23", "neither a variable", "wrap around"):
        assert words in said(made)


def test_a_crontab_without_a_zone_says_so() -> None:
    made = account(crontab.read, "0 9 * * * curl https://app.example/\n")
    assert "read in UTC" in said(made)
    assert made.schedules["app.example"]["timezone"] == "UTC"
    assert (
        only(crontab.read, "0 9 * * * curl https://app.example/\n", timezone="Asia/Tokyo")["timezone"] == "Asia/Tokyo"
    )


def test_a_crontab_of_the_system_has_users() -> None:
    made = only(crontab.read, "17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly\n", system=True, timezone="UTC")
    assert made["task"]["payload"] == {"command": "cd / && run-parts /etc/cron.hourly", "user": "root"}
    assert "has a user before" in said(account(crontab.read, "0 9 * * * root\n", system=True))


def test_commands_can_be_posted() -> None:
    made = only(crontab.read, "0 9 * * * backup\n", commands_to=RUNNER, timezone="UTC")
    assert made["task"]["target"] == {"url": RUNNER, "body": {"command": "backup"}}


def test_secrets_are_not_copied() -> None:
    lines = [
        "0 9 * * * curl -H 'Authorization: Bearer s3cr3t' https://app.example/a\n",
        "0 9 * * * curl -u me:s3cr3t https://app.example/b\n",
    ]
    made = account(crontab.read, "".join(lines), timezone="UTC")
    assert "s3cr3t" not in f"{made.schedules}{made.lines}"
    assert made.schedules["a"]["task"]["target"]["headers"] == {"Authorization": "${ENV:A_AUTHORIZATION}"}
    assert "set A_AUTHORIZATION" in said(made)


def test_two_of_a_name_are_two() -> None:
    made = account(crontab.read, "0 9 * * * curl https://app.example/a\n0 8 * * * curl https://app.example/a\n")
    assert list(made.schedules) == ["a", "a-2"]


def cron_job(container: dict[str, Any], job: dict[str, Any] | None = None, **spec: Any) -> list[Any]:
    template = {"spec": {"containers": [{"name": "c", **container}]}}
    whole = {"schedule": "0 9 * * *", "timeZone": "UTC", "jobTemplate": {"spec": {"template": template, **(job or {})}}}
    meta = {"name": "hello", "namespace": "shop", "labels": {"app": "x"}}
    return [{"kind": "CronJob", "metadata": meta, "spec": {**whole, **spec}}]


CURL = {"image": "registry.example:5000/curlimages/curl:8.1", "args": ["-X", "POST", "https://app.example/h"]}


def test_a_cron_job_of_kubernetes() -> None:
    policies = {"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 200, "suspend": True}
    made = only(kubernetes.read, cron_job(CURL, {"backoffLimit": 2, "activeDeadlineSeconds": 60}, **policies))
    assert made == {
        "cron": "0 9 * * *",
        "dst": {"gap": "skip", "repeat": "both"},
        "timezone": "UTC",
        "overlap": "skip",
        "catch_up": {"mode": "latest", "window": "200s"},
        "paused": True,
        "tags": {"app": "x"},
        "task": {
            "target": {"url": "https://app.example/h", "method": "POST", "timeout": "60s"},
            "retry": {"max_attempts": 3},
        },
    }
    assert only(kubernetes.read, cron_job(CURL))["overlap"] == "allow"
    assert only(kubernetes.read, cron_job(CURL, concurrencyPolicy="Replace"))["overlap"] == "cancel_other"
    assert only(kubernetes.read, cron_job(CURL))["task"]["retry"] == {"max_attempts": 7}


def test_containers_that_call_and_those_that_do_more() -> None:
    env = [{"name": "HOST", "value": "https://app.example"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {}}}]
    shell = {
        "image": "alpine",
        "command": ["/bin/sh", "-c", 'wget -qO- --header "Authorization: $TOKEN" $HOST/a'],
        "env": env,
    }
    target = only(kubernetes.read, cron_job(shell))["task"]["target"]
    assert target["url"] == "https://app.example/a"
    assert target["headers"] == {"Authorization": "${ENV:TOKEN}"}
    words = {"image": "x", "command": ["curl"], "args": ["$(HOST)/b"], "env": env}
    assert only(kubernetes.read, cron_job(words))["task"]["target"]["url"] == "https://app.example/b"
    more = {"image": "busybox", "command": ["sh", "-c", "date; curl https://app.example/"]}
    made = account(kubernetes.read, cron_job(more))
    assert made.schedules["shop.hello"]["task"]["payload"] == {"containers": [{"name": "c", **more}]}
    assert "more than one command" in said(made)


def test_kubernetes_in_other_wrappings() -> None:
    listed = [{"kind": "List", "items": cron_job(CURL)}]
    assert only(kubernetes.read, listed)["cron"] == "0 9 * * *"
    made = account(kubernetes.read, [{"kind": "Deployment"}, None, *cron_job(CURL, schedule="0 9 * * 7")])
    assert [line.outcome for line in made.lines] == ["refused", "refused"]
    assert "`7` is not in 0 to 6" in said(made)
    without = account(kubernetes.read, cron_job(CURL, timeZone=None))
    assert "read in UTC" in said(without)
    assert only(kubernetes.read, cron_job(CURL, schedule="@every 1h30m"))["every"] == "1h30m"


def test_qstash() -> None:
    one = {
        "scheduleId": "scd_7",
        "cron": "CRON_TZ=America/New_York 5/15 4 * * *",
        "destination": "https://app.example/q",
        "method": "PUT",
        "header": {"Content-Type": ["application/json"], "X-Api-Key": ["s3cr3t"], "Upstash-Retries": ["3"]},
        "body": '{"a":1}',
        "retries": 5,
        "delay": 3,
        "callback": "https://app.example/cb",
        "queueName": "my queue",
        "isPaused": True,
    }
    made = account(qstash.read, [one, {**one, "destination": "my-group"}, {"x": 1}])
    assert [line.outcome for line in made.lines] == ["changed", "refused", "refused"]
    schedule = made.schedules["scd_7"]
    assert (schedule["cron"], schedule["timezone"], schedule["paused"]) == (
        "5,20,35,50 4 * * *",
        "America/New_York",
        True,
    )
    assert schedule["task"]["queue"] == "my-queue"
    assert schedule["task"]["retry"] == {"max_attempts": 6}
    target = schedule["task"]["target"]
    assert target["headers"] == {"Content-Type": "application/json", "X-Api-Key": "${ENV:SCD_7_X_API_KEY}"}
    assert (target["method"], target["body_text"]) == ("PUT", '{"a":1}')
    for words in ("`delay` is left out", "`callback` is left out", "URL group"):
        assert words in said(made)


def amazon(expression: str | None, **more: Any) -> dict[str, Any]:
    return {"Name": "x", "ScheduleExpression": expression, "Target": {"Arn": "arn:aws:lambda:f"}, **more}


def test_eventbridge() -> None:
    made = only(
        eventbridge.read,
        amazon(
            "cron(0 9 ? * 2-6 2027-2028)",
            GroupName="shop",
            State="DISABLED",
            ScheduleExpressionTimezone="Europe/Berlin",
            FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
            Target={
                "Arn": "a",
                "Input": '{"n":1}',
                "RetryPolicy": {"MaximumRetryAttempts": 4, "MaximumEventAgeInSeconds": 60},
            },
        ),
        commands_to=RUNNER,
    )
    assert made == {
        "timezone": "Europe/Berlin",
        "overlap": "allow",
        "jitter": "15m",
        "paused": True,
        "cron": "0 9 * * MON,TUE,WED,THU,FRI",
        "dst": {"gap": "skip", "repeat": "first"},
        "start_at": "2027-01-01T00:00:00",
        "end_at": "2028-12-31T23:59:59",
        "task": {
            "target": {"url": RUNNER, "body": {"arn": "a", "input": {"n": 1}}},
            "retry": {"max_attempts": 5},
            "expires_in": "60s",
        },
    }
    assert list(account(eventbridge.read, amazon("rate(1 day)", GroupName="shop")).schedules) == ["shop.x"]


def test_eventbridge_at_a_rate_and_once() -> None:
    rate = only(eventbridge.read, amazon("rate(5 minutes)", StartDate="2026-11-20T10:00:30+01:00"))
    assert (rate["every"], rate["anchor"], rate["start_at"]) == ("5m", "2026-11-20T09:00:30Z", "2026-11-20T09:00:30Z")
    assert (
        only(eventbridge.read, amazon("rate(5 minutes)", CreationDate=1_700_000_000.5))["anchor"]
        == "2023-11-14T22:13:20Z"
    )
    assert "counted from its creation" in said(account(eventbridge.read, amazon("rate(5 minutes)")))
    once = only(eventbridge.read, amazon("at(2030-11-20T13:00:00)"))
    assert once["rrule"] == "DTSTART:20301120T130000\nRRULE:FREQ=DAILY;COUNT=1"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (None, "list-schedules"),
        ("every(5)", "none of cron"),
        ("rate(0 minutes)", "cannot be read"),
        ("cron(0 9 * * *)", "has not six"),
        ("cron(0 9 1 * 2 *)", "both given"),
        ("cron(0 9 ? * 0 *)", "`0` is not in 1 to 7"),
        ("cron(0 9 ? * 8 *)", "`8` is not in 1 to 7"),
        ("cron(0 9 * * ? 2027,2029)", "gaps"),
        ("cron(0 9 31 2 ? *)", "never"),
        ("at(tomorrow)", "no time"),
    ],
)
def test_what_eventbridge_cannot_mean(expression: str | None, why: str) -> None:
    made = account(eventbridge.read, amazon(expression))
    assert [line.outcome for line in made.lines] == ["refused"]
    assert why in said(made)


def test_celery_dumps() -> None:
    table = {
        "a": {"task": "t.a", "schedule": 30.0, "args": [1], "options": {"queue": "mail", "expires": 10}},
        "b": {"task": "t.b", "schedule": "<crontab: 0 4 * 1-3 mon-fri (m/h/dM/MY/d)>"},
        "c": {"task": "t.c", "schedule": "<crontab: 0 4 mon-fri * 1-3 (m/h/d/dM/MY)>"},
        "d": {"task": "t.d", "schedule": "<freq: 10.00 minutes>"},
        "e": {"task": "t.e", "schedule": "1 day, 0:00:30"},
        "f": {"task": "t.f", "schedule": {"event": "sunset", "lat": 1, "lon": 2}},
        "g": {"task": "t.g", "schedule": {"minute": 0, "hour": [8, 9], "day_of_week": "friday-monday"}},
        "h": {"task": "t.h"},
        "i": {"task": "t.i", "schedule": {"minute": "0/5"}},
    }
    made = account(celery.read, {"beat_schedule": table, "timezone": "Europe/Berlin"})
    assert made.schedules["a"]["every"] == 30
    assert made.schedules["a"]["task"] == {
        "queue": "mail",
        "payload": {"task": "t.a", "args": [1], "kwargs": {}},
        "expires_in": 10,
        "retry": {"max_attempts": 1},
    }
    for key in ("b", "c"):
        assert (made.schedules[key]["cron"], made.schedules[key]["timezone"]) == ("0 4 * 1-3 1-5", "Europe/Berlin")
    assert (made.schedules["d"]["every"], made.schedules["e"]["every"]) == (600, 86_430)
    assert made.schedules["g"]["cron"] == "0 8,9 * * 0,1,5,6"
    assert [line.name for line in made.lines if line.outcome == "refused"] == ["f", "h", "i"]
    assert "The sun's times" in said(made)


def test_fixtures_of_django_celery_beat() -> None:
    crontab_fields = {"minute": "0", "hour": "9", "day_of_week": "1", "day_of_month": "*", "month_of_year": "*"}
    task = {"name": "Send mail", "task": "t.mail", "args": "[1]", "kwargs": '{"a": null}', "enabled": False}
    rows = [
        {
            "model": "django_celery_beat.crontabschedule",
            "pk": 1,
            "fields": {**crontab_fields, "timezone": "Asia/Tokyo"},
        },
        {"model": "django_celery_beat.intervalschedule", "pk": 1, "fields": {"every": 2, "period": "hours"}},
        {
            "model": "django_celery_beat.clockedschedule",
            "pk": 1,
            "fields": {"clocked_time": "2030-01-01T09:00:00+09:00"},
        },
        {"model": "django_celery_beat.periodictask", "pk": 5, "fields": {**task, "crontab": 1, "expire_seconds": 60}},
        {
            "model": "django_celery_beat.periodictask",
            "pk": 6,
            "fields": {"name": "b", "task": "t", "interval": 1, "one_off": True},
        },
        {"model": "django_celery_beat.periodictask", "pk": 7, "fields": {"name": "c", "task": "t", "clocked": 1}},
        {"model": "django_celery_beat.periodictask", "pk": 8, "fields": {"name": "d", "task": "t", "interval": 9}},
        {"model": "django_celery_beat.periodictasks", "pk": 1, "fields": {"last_update": "x"}},
    ]
    made = account(celery.read, rows)
    mail = made.schedules["Send-mail"]
    assert (mail["cron"], mail["timezone"], mail["paused"]) == ("0 9 * * 1", "Asia/Tokyo", True)
    assert mail["task"]["payload"] == {"task": "t.mail", "args": [1], "kwargs": {"a": None}}
    assert mail["task"]["expires_in"] == 60
    assert (made.schedules["b"]["every"], made.schedules["b"]["max_fires"]) == (7_200, 1)
    assert made.schedules["c"]["rrule"].startswith("DTSTART:20300101T000000\n")
    assert [line.where for line in made.lines if line.outcome == "refused"] == ["periodictask 8"]


def test_apscheduler() -> None:
    jobs = [
        {"id": "a", "func": "m:f", "args": [1], "trigger": "cron", "day_of_week": "0-4", "hour": "9", "coalesce": False}
        | {"misfire_grace_time": 3600, "max_instances": 3, "timezone": "UTC"},
        {"id": "b", "func": "m:f", "trigger": "interval", "minutes": 5, "next_run_time": "2026-11-20T10:00:00+01:00"},
        {
            "id": "c",
            "func": "m:f",
            "trigger": "date",
            "run_date": "2030-01-01T09:00:00+01:00",
            "misfire_grace_time": None,
        },
        {"id": "d", "func": "m:f", "trigger": "cron[day_of_week='mon', hour='9', second='30']", "next_run_time": None},
        {"id": "e", "func": "m:f", "trigger": {"type": "cron", "fields": {"week": "2"}}},
        {"id": "f", "func": "m:f", "trigger": "and"},
        {"id": "g", "func": "m:f", "trigger": "cron", "day": "1st mon", "day_of_week": "tue", "timezone": "UTC"},
        {"id": "h", "func": "m:f", "trigger": "cron", "day": "last", "day_of_week": "fri", "timezone": "UTC"},
        {"id": "i", "trigger": "date[2030-01-01 09:00:00 CET]", "next_run_time": "2030-01-01 09:00:00+01:00"},
        {"id": "j", "trigger": "date[2030-01-01 09:00:00 CET]"},
    ]
    made = account(apscheduler.read, jobs)
    a = made.schedules["a"]
    assert (a["cron"], a["overlap"], a["catch_up"]) == ("0 9 * * 1-5", "allow", {"mode": "all", "window": 3600.0})
    b = made.schedules["b"]
    assert (b["every"], b["anchor"], b["overlap"]) == (300, "2026-11-20T10:00:00+01:00", "skip")
    assert b["catch_up"] == {"mode": "none"}
    assert made.schedules["c"]["rrule"].startswith("DTSTART:20300101T080000\n")
    assert made.schedules["c"]["catch_up"] == {"mode": "latest"}
    d = made.schedules["d"]
    assert (d["cron"], d["paused"]) == ("30 * 9 * * 1", True)
    assert made.schedules["h"]["rrule"] == "FREQ=DAILY;BYMONTHDAY=-1;BYDAY=FR;BYHOUR=0;BYMINUTE=0"
    assert made.schedules["i"]["rrule"] == made.schedules["c"]["rrule"]
    assert [line.name for line in made.lines if line.outcome == "refused"] == ["e", "f", "g", "j"]
