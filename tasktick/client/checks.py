"""The requests about checks; pure, as those of `core` are. A ping takes no key: it is a plain GET or POST."""

from typing import Any

from tasktick.client import core
from tasktick.client.core import Filters, Request


def create(check: Any, idempotency_key: str | None = None) -> Request:
    """Make a check; `check` is as the HTTP contract has it."""
    return core.post("checks", body=check, idempotency_key=idempotency_key)


def put(name: str, check: Any) -> Request:
    """Make the check with this `key:…`, or replace it."""
    return core.put("checks", name, body=check)


def find(filters: Filters | None = None) -> Request:
    """A page of checks; filters are those of the contract, with `limit` and `cursor`."""
    return core.get("checks", query=filters)


def read(name: str) -> Request:
    """One check, by `chi_…` or `key:…`."""
    return core.get("checks", name)


def change(name: str, changes: Any, version: str | None = None) -> Request:
    """Change the fields that are given; with the `ETag` of what was read, only if nobody was faster."""
    return core.patch("checks", name, body=changes, version=version)


def delete(name: str) -> Request:
    """Remove a check with its pings."""
    return core.delete("checks", name)


def pings(name: str, filters: Filters | None = None) -> Request:
    """A page of what a job has said, the latest first."""
    return core.get("checks", name, "pings", query=filters)


def pause(name: str, idempotency_key: str | None = None) -> Request:
    """Let nothing of it be missed until it is resumed."""
    return core.post("checks", name, "pause", idempotency_key=idempotency_key)


def resume(name: str, idempotency_key: str | None = None) -> Request:
    """Watch it from now on."""
    return core.post("checks", name, "resume", idempotency_key=idempotency_key)


def rotate(name: str, idempotency_key: str | None = None) -> Request:
    """Give it another id to be pinged by."""
    return core.post("checks", name, "rotate", idempotency_key=idempotency_key)
