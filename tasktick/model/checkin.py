"""A check: a job that runs elsewhere and says so, by pings. Values as the store has them."""

from typing import Literal

import msgspec

from tasktick.model.schedule import Rule

Status = Literal["new", "up", "late", "down"]
Kind = Literal["success", "start", "fail", "log"]
STATUSES: tuple[Status, ...] = ("new", "up", "late", "down")
KINDS: tuple[Kind, ...] = ("success", "start", "fail", "log")
# Runs that may be open at once; the one that began first is forgotten.
RUNS_MAX = 20


class Check(msgspec.Struct, frozen=True):
    """The row, column by column."""

    id: str
    tenant: str
    version: int
    created_at: int
    updated_at: int
    grace_ms: int
    ping_hash: str
    ping_sealed: str
    status: Status
    status_at: int
    anchor_at: int
    """From when the next word is counted."""
    rule: Rule | None = None
    """Exactly one of `rule` and `period_ms`."""
    period_ms: int | None = None
    key: str | None = None
    name: str | None = None
    note: str | None = None
    tags: dict[str, str] = {}
    max_runtime_ms: int | None = None
    paused: bool = False
    reason: str | None = None
    """Why it is down: `overdue`, `overran` or `failed`."""
    expected_at: int | None = None
    runs: dict[str, int] = {}
    """Runs that have begun and not ended, by what they call themselves."""
    failures: int = 0
    """In a row."""
    pings: int = 0
    last_ping_at: int | None = None
    last_ping_kind: Kind | None = None
    last_success_at: int | None = None
    last_duration_ms: int | None = None
    next_at: int | None = None

    @property
    def state(self) -> str:
        """As people are told."""
        if self.paused:
            return "paused"
        return "started" if self.runs and self.status in {"new", "up"} else self.status


class Ping(msgspec.Struct, frozen=True):
    """What a job has said, as it is kept."""

    check_id: str
    number: int
    at: int
    kind: Kind
    method: str
    exit_code: int | None = None
    run: str | None = None
    duration_ms: int | None = None
    source: str | None = None
    agent: str | None = None
    body: str | None = None
    body_bytes: int = 0


class Away(msgspec.Struct, frozen=True):
    """When nobody was there to hear pings."""

    from_at: int
    until_at: int
