"""Schedules of QStash, as `GET /v2/schedules` answers them.

`cron` is Go's cron (see `gocron`), in UTC or in the zone of a CRON_TZ= before it. `retries` counts retries, so
attempts are one more. `header` has a list for each name; `body` is text, or `bodyBase64`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tasktick.ctl.importers import gocron
from tasktick.ctl.importers.account import Account, Entry, Refused, glimpse, slug

RETRIES = 3
_LEFT_OUT = {
    "callback": "nobody is called with the answer",
    "failureCallback": "nobody is called after a failure",
    "delay": "a fire is sent at its time, without the delay after it",
    "flowControlKey": "its flow is not limited by that key",
    "retryDelayExpression": "retries follow the policy of the task",
}


def read(account: Account, document: Any) -> None:
    """Every schedule of an answer."""
    rows = document if isinstance(document, list) else [document]
    for number, one in enumerate(rows, 1):
        if not isinstance(one, Mapping) or "cron" not in one:
            account.refuse(f"schedule {number}", glimpse(one), "This is no schedule of QStash: it has no `cron`.")
            continue
        name = str(one.get("scheduleId") or f"schedule-{number}")
        account.add(f"schedule {name}", name, partial(_schedule, one=one))


def _schedule(entry: Entry, one: Mapping[str, Any]) -> dict[str, Any]:
    rule, zone = gocron.rule(entry, str(one["cron"]))
    url = str(one.get("destination", ""))
    if not url:
        raise Refused("It has no `destination`.")
    if urlsplit(url).scheme not in ("http", "https"):
        raise Refused(
            f"Its destination `{url[:80]}` is no URL: a URL group goes to several. Make one for each of them."
        )
    for name, meaning in _LEFT_OUT.items():
        if one.get(name):
            entry.changes(f"`{name}` is left out: {meaning}.")
    target: dict[str, Any] = {"url": url, "method": str(one.get("method") or "POST"), **_body(entry, one)}
    headers = _headers(entry, one.get("header") or {})
    if headers:
        target["headers"] = headers
    task: dict[str, Any] = {"target": target, "retry": {"max_attempts": int(one.get("retries", RETRIES)) + 1}}
    if one.get("queueName"):
        task["queue"] = slug(str(one["queueName"]))
    return {
        **rule,
        "timezone": zone or "UTC",
        "overlap": "allow",
        "paused": True if one.get("isPaused") else None,
        "task": task,
    }


def _body(entry: Entry, one: Mapping[str, Any]) -> dict[str, Any]:
    if one.get("body"):
        return {"body_text": str(one["body"])}
    return {"body_base64": str(one["bodyBase64"])} if one.get("bodyBase64") else {}


def _headers(entry: Entry, found: Mapping[str, Any]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, values in found.items():
        if str(name).lower().startswith(("upstash-", "content-length", "host")):
            continue
        several = [str(one) for one in values] if isinstance(values, list) else [str(values)]
        if len(several) > 1:
            entry.changes(f"The header {name} is sent once, its values joined by commas.")
        made[str(name)] = ", ".join(several)
    return entry.headers(made)
