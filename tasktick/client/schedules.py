"""The requests about schedules; pure, as those of `core` are."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from tasktick.client import core
from tasktick.client.core import Filters, Request


def preview(timing: Mapping[str, Any], count: int, after: str | None = None) -> Request:
    """When an unsaved schedule would fire; `timing` is its fields, those that are None left out."""
    query = urlencode({"count": count} | ({} if after is None else {"from": after}))
    given = {name: value for name, value in timing.items() if value is not None}
    request = core.post("schedules", "preview", body=given)
    return msgspec.structs.replace(request, path=f"{request.path}?{query}")


def create(schedule: Any, idempotency_key: str | None = None) -> Request:
    """Make a schedule; `schedule` is as the HTTP contract has it, a `msgspec.Raw` goes as it stands."""
    return core.post("schedules", body=schedule, idempotency_key=idempotency_key)


def put(name: str, schedule: Any, version: str | None = None) -> Request:
    """Make the schedule with this `key:…`, or replace it; with the `ETag` of what was read, only that."""
    return core.put("schedules", name, body=schedule, version=version)


def find(filters: Filters | None = None) -> Request:
    """A page of schedules; filters are those of the contract, with `limit`, `cursor` and `order`."""
    return core.get("schedules", query=filters)


def read(name: str) -> Request:
    """One schedule, by `sch_…` or `key:…`."""
    return core.get("schedules", name)


def change(name: str, changes: Any, version: str | None = None) -> Request:
    """Change the fields that are given; with the `ETag` of what was read, only if nobody was faster."""
    return core.patch("schedules", name, body=changes, version=version)


def delete(name: str, version: str | None = None) -> Request:
    """Remove a schedule; with the `ETag` of what was read, only if nobody was faster."""
    return core.delete("schedules", name, version=version)


def upcoming(name: str, count: int, after: str | None = None) -> Request:
    """When a schedule fires next, after this instant or after now."""
    return core.get("schedules", name, "upcoming", query={"count": count, "from": after})


def fires(name: str, filters: Filters | None = None) -> Request:
    """A page of the ledger: what became of a schedule's times, the latest first."""
    return core.get("schedules", name, "fires", query=filters)


def pause(
    name: str, until: str | float | None = None, note: str | None = None, idempotency_key: str | None = None
) -> Request:
    """Let nothing of it start, until then or until it is resumed."""
    said = {field: value for field, value in (("until", until), ("note", note)) if value is not None}
    return core.post("schedules", name, "pause", body=said or None, idempotency_key=idempotency_key)


def resume(name: str, idempotency_key: str | None = None) -> Request:
    """Let it fire again, from now on."""
    return core.post("schedules", name, "resume", idempotency_key=idempotency_key)


def skip(name: str, at: str | float, idempotency_key: str | None = None) -> Request:
    """Leave out one of its times to come."""
    return core.post("schedules", name, "skip", body={"at": at}, idempotency_key=idempotency_key)


def unskip(name: str, at: str | float, idempotency_key: str | None = None) -> Request:
    """Let a time run that was to be left out."""
    return core.post("schedules", name, "unskip", body={"at": at}, idempotency_key=idempotency_key)


def trigger(
    name: str,
    target: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Request:
    """Run its task now, beside its times; what `target` has replaces what the schedule's has.

    `changes` are `queue`, `priority`, `name` and `tags`, as the HTTP contract has them.
    """
    body = {**({"target": target} if target else {}), **(changes or {})}
    return core.post("schedules", name, "trigger", body=body or None, idempotency_key=idempotency_key)


def backfill(name: str, stretch: Mapping[str, Any], idempotency_key: str | None = None) -> Request:
    """Let times that have passed run after all: `from`, `to`, `overlap`, `held`, `limit`, `dry_run`.

    Cut off, it is sent again as it was: what was done stays done.
    """
    body = {field: value for field, value in stretch.items() if value is not None}
    made = core.post("schedules", name, "backfill", body=body, idempotency_key=idempotency_key)
    return msgspec.structs.replace(made, timeout_ms=core.BULK_TIMEOUT_MS)
