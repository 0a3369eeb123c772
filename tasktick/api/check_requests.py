"""From a request to what a check is, and back to what clients read. Pure but for the vault, which opens ping ids."""

from typing import Any

import msgspec
from msgspec import UNSET

from tasktick.access.vault import SealBroken, Vault, masked
from tasktick.api import faults as checks
from tasktick.api.check_schemas import CheckFields, CheckPatch
from tasktick.api.faults import Faults
from tasktick.api.render import Document
from tasktick.api.schedule_requests import NOTE_CHARS_MAX, rule_of
from tasktick.api.schedule_schemas import DstRequest, Timing
from tasktick.api.times import seconds, seconds_or_none, written, written_or_none
from tasktick.model.checkin import Away, Check, Ping
from tasktick.model.ids import wire
from tasktick.model.schedule import Rule
from tasktick.scheduler.checkins import down_at
from tasktick.store.checkins import PREFIX

PERIOD_MIN_MS = 1_000
PERIOD_MAX_MS = 366 * 86_400_000
GRACE_DEFAULT_MS = 300_000
ONE_OF = "Give one of `cron`, `every`, `rrule` and `period`."
# What a change of counts anew from now on.
TIMES = ("rule", "period_ms")


class Definition(msgspec.Struct, frozen=True):
    """What a client says about a check."""

    rule: Rule | None
    period_ms: int | None
    grace_ms: int
    max_runtime_ms: int | None
    name: str | None
    note: str | None
    tags: dict[str, str]

    def of(self, check: Check) -> Check:
        """The check, as this says that it is."""
        return msgspec.structs.replace(check, **{name: getattr(self, name) for name in self.__struct_fields__})


def definition_of(faults: Faults, asked: CheckFields) -> Definition:
    """When words are expected, and what it is called."""
    period_ms = None
    if asked.period is not None:
        period_ms = checks.duration(faults, "/period", asked.period, 0, PERIOD_MAX_MS, least_ms=PERIOD_MIN_MS)
    max_runtime_ms = None
    if asked.max_runtime is not None:
        max_runtime_ms = checks.duration(faults, "/max_runtime", asked.max_runtime, 0, PERIOD_MAX_MS, least_ms=1_000)
    return Definition(
        rule=_rule(faults, asked),
        period_ms=period_ms,
        grace_ms=checks.duration(faults, "/grace", asked.grace, GRACE_DEFAULT_MS, PERIOD_MAX_MS),
        max_runtime_ms=max_runtime_ms,
        name=checks.text(faults, "/name", asked.name),
        note=checks.text(faults, "/note", asked.note, NOTE_CHARS_MAX),
        tags=checks.tags(faults, "/tags", asked.tags),
    )


def _rule(faults: Faults, asked: CheckFields) -> Rule | None:
    given = [one for one in ("cron", "every", "rrule", "period") if getattr(asked, one) is not None]
    if len(given) != 1:
        faults.add(f"/{given[1]}" if given else "/period", ONE_OF)
        return None
    if given == ["period"]:
        for name in ("timezone", "dst", "anchor"):
            if getattr(asked, name) is not None:
                faults.add(f"/{name}", "A period counts from the last word: this is for `cron`, `every` and `rrule`.")
        return None
    timing = Timing(
        cron=asked.cron,
        every=asked.every,
        anchor=asked.anchor,
        rrule=asked.rrule,
        timezone=asked.timezone,
        dst=asked.dst,
    )
    return rule_of(faults, timing)


def patched(check: Check, patch: CheckPatch) -> tuple[Definition, bool | None]:
    """The check with what a PATCH gives in place of what it had, and whether it is to be paused."""
    faults = Faults()
    asked = _as_asked(check)
    for name in CheckPatch.__struct_fields__:
        given = getattr(patch, name)
        if given is not UNSET:
            setattr(asked, name, given)
    definition = definition_of(faults, asked)
    faults.end()
    return definition, bool(asked.paused) if patch.paused is not UNSET else None


def _as_asked(check: Check) -> CheckFields:
    rule = check.rule
    asked = CheckFields(
        period=seconds_or_none(check.period_ms),
        grace=seconds(check.grace_ms),
        max_runtime=seconds_or_none(check.max_runtime_ms),
        name=check.name,
        note=check.note,
        tags=check.tags,
    )
    if rule is not None:
        asked.cron, asked.every = rule.cron, seconds_or_none(rule.every_ms)
        asked.anchor, asked.rrule = seconds_or_none(rule.anchor_at), rule.rrule
        asked.timezone, asked.dst = rule.timezone, DstRequest(rule.gap, rule.repeat)
    return asked


def ping_context(tenant: str, check_id: str) -> str:
    """What a ping id is sealed for."""
    return f"ping:{tenant}:{check_id}"


def shown(check: Check, vault: Vault, away: Away | None, *, whole: bool) -> Document:
    """A check as clients read it; its ping id whole, for those who may manage it."""
    rule = check.rule
    ping_id = _ping_id(check, vault)
    over_at = None if check.paused or check.status == "down" else down_at(check, away)
    return {
        "id": wire(PREFIX, check.id),
        "key": check.key,
        "tenant": check.tenant,
        "name": check.name,
        "note": check.note,
        "tags": check.tags,
        "cron": None if rule is None else rule.cron,
        "every": None if rule is None else seconds_or_none(rule.every_ms),
        "anchor": None if rule is None else written_or_none(rule.anchor_at),
        "rrule": None if rule is None else rule.rrule,
        "period": seconds_or_none(check.period_ms),
        "timezone": None if rule is None else rule.timezone,
        "dst": None if rule is None else {"gap": rule.gap, "repeat": rule.repeat},
        "grace": seconds(check.grace_ms),
        "max_runtime": seconds_or_none(check.max_runtime_ms),
        "paused": check.paused,
        "state": check.state,
        "status": check.status,
        "status_since": written(check.status_at),
        "reason": check.reason,
        "ping_id": ping_id if whole else masked(ping_id),
        "ping_path": f"/ping/{ping_id}" if whole else None,
        "expected_at": None if check.paused else written_or_none(check.expected_at),
        "down_at": written_or_none(over_at),
        "runs": [
            {"run": name or None, "started_at": written(at)}
            for name, at in sorted(check.runs.items(), key=lambda one: (one[1], one[0]))
        ],
        "failures": check.failures,
        "pings": check.pings,
        "last_ping_at": written_or_none(check.last_ping_at),
        "last_ping_kind": check.last_ping_kind,
        "last_success_at": written_or_none(check.last_success_at),
        "last_duration": seconds_or_none(check.last_duration_ms),
        "created_at": written(check.created_at),
        "updated_at": written(check.updated_at),
        "version": check.version,
    }


def _ping_id(check: Check, vault: Vault) -> str:
    try:
        return vault.open(check.ping_sealed, ping_context(check.tenant, check.id))
    except SealBroken:
        return "***"


def ping_shown(ping: Ping) -> dict[str, Any]:
    """A ping as clients read it."""
    return {
        "number": ping.number,
        "at": written(ping.at),
        "kind": ping.kind,
        "exit_code": ping.exit_code,
        "run": ping.run,
        "duration": seconds_or_none(ping.duration_ms),
        "method": ping.method,
        "source": ping.source,
        "agent": ping.agent,
        "body": ping.body,
        "body_bytes": ping.body_bytes,
    }
