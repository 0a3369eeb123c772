"""`ctl` on all that a filter finds: what it asks for, and what it refuses to guess."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tasktick.ctl import bulk
from tests.fakes.api_stub import ApiStub, refused, told
from tests.unit.ctl.conftest import Ctl

DONE = {"matched": 12, "changed": 9}


@pytest.mark.parametrize(
    ("command", "path", "by"),
    [
        ("task cancel --queue mail --state scheduled --state ready", "tasks/cancel", {"state": ["scheduled", "ready"]}),
        (
            "task retry --queue mail --tag team=billing --q timeout",
            "tasks/retry",
            {"tag": "team:billing", "q": "timeout"},
        ),
        ("task run --queue mail --type t --name n", "tasks/run", {"type": "t", "name": "n"}),
        ("task delete --queue mail --created-before 2026-01-01T00:00:00Z --yes", "tasks/delete", None),
        ("dlq replay --queue mail --all --class network", "dlq/replay", {"unresolved": True, "class": "network"}),
        ("dlq replay --queue mail --reason outcome_unknown", "dlq/replay", {"reason": "outcome_unknown"}),
        ("dlq archive --queue mail", "dlq/archive", {}),
        ("dlq purge --queue mail --resolved --yes", "dlq/purge", {"unresolved": False}),
    ],
)
def test_filters_are_sent_and_counts_shown(
    ctl: Ctl, stub: ApiStub, command: str, path: str, by: dict[str, Any] | None
) -> None:
    stub.tell(told(DONE), told(DONE))
    result = ctl(*command.split())

    assert result.exit_code == 0, result.stderr
    assert re.search(r"MATCHED +CHANGED\n12 +9", result.stdout)
    [asked] = stub.asked
    assert (asked.method, asked.path) == ("POST", f"/v1/{path}")
    assert re.fullmatch("[0-9a-f]{32}", asked.headers["idempotency-key"])
    expected = {"created_before": "2026-01-01T00:00:00Z"} if by is None else by
    assert asked.document == {"filter": {"queue": "mail", **expected}, "dry_run": False}
    result = ctl(*command.split(), "--dry-run", "-o", "json")
    assert stub.asked[1].document["dry_run"] is True
    assert result.stdout == '{"matched": 12, "changed": 9}\n'


@pytest.mark.parametrize(
    "command",
    [
        "task cancel",
        "task cancel --dry-run",
        "task cancel key:a --queue mail",
        "task delete key:a --dry-run",
        "dlq replay",
        "dlq replay dlq_1 --all",
        "dlq replay --all --to https://app.example/",
        "dlq purge",
        "dlq purge --all --resolved",
        "dlq purge --dry-run",
        "task run --tag nothing",
    ],
)
def test_what_is_meant_is_said_in_one_way(ctl: Ctl, stub: ApiStub, command: str) -> None:
    result = ctl(*command.split())

    assert result.exit_code == 2
    assert not stub.asked


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("task run --schedule key:daily --state missed", ["GET /v1/schedules/key:daily", "POST /v1/tasks/run"]),
        ("task list --schedule key:daily", ["GET /v1/schedules/key:daily", "GET /v1/tasks?schedule_id=sch_1"]),
        ("dlq list --schedule sch_1", ["GET /v1/dlq?schedule_id=sch_1"]),
    ],
)
def test_a_schedule_may_be_named_by_its_key(ctl: Ctl, stub: ApiStub, command: str, sent: list[str]) -> None:
    answers = [told({"id": "sch_1"}), told(DONE | {"data": []})]
    stub.tell(*answers[-len(sent) :])
    result = ctl(*command.split())

    assert result.exit_code == 0, result.stderr
    assert [f"{one.method} {one.path}" for one in stub.asked] == sent
    if "run" in command:
        assert stub.asked[1].document["filter"] == {"schedule_id": "sch_1", "state": ["missed"]}


def test_a_key_that_no_schedule_has(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(refused(404, "not_found", "There is no schedule 'key:gone' here."))
    result = ctl("task", "run", "--schedule", "key:gone")

    assert (result.exit_code, len(stub.asked)) == (1, 1)
    assert "There is no schedule 'key:gone' here." in result.stderr


def test_a_refusal_says_why(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(refused(422, "validation_failed", "No.", errors=[{"pointer": "/filter/state", "detail": "Odd."}]))
    result = ctl("task", "cancel", "--state", "odd")

    assert result.exit_code == 1
    assert "/filter/state (--state): Odd." in result.stderr


@pytest.mark.parametrize("command", ["task delete --queue mail", "dlq purge --all"])
def test_nothing_is_removed_where_nobody_can_be_asked(ctl: Ctl, stub: ApiStub, command: str) -> None:
    result = ctl(*command.split())

    assert result.exit_code == 2
    assert "say --yes" in result.stderr
    assert not stub.asked
    stub.tell(told(DONE))
    assert ctl(*command.split(), "--dry-run").exit_code == 0


@pytest.mark.parametrize(("answer", "sent"), [("y\n", [True, False]), ("n\n", [True])])
@pytest.mark.parametrize("command", ["task delete --queue mail", "dlq purge --all"])
def test_a_person_is_asked_before_things_are_gone(
    ctl: Ctl, stub: ApiStub, monkeypatch: pytest.MonkeyPatch, command: str, answer: str, sent: list[bool]
) -> None:
    monkeypatch.setattr(bulk, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    stub.tell(told({"matched": 12, "changed": 0}), told(DONE))
    result = ctl(*command.split(), stdin=answer)

    assert result.exit_code == (0 if len(sent) > 1 else 1)
    assert "Remove 12 " in result.stderr
    assert [asked.document["dry_run"] for asked in stub.asked] == sent


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("dlq replay --all", "tasktick ctl dlq replay ID..., or --reason outcome_unknown"),
        ("task retry --state dead", "tasktick ctl task retry ID..."),
    ],
)
def test_what_is_left_is_told_of(ctl: Ctl, stub: ApiStub, command: str, advice: str) -> None:
    stub.tell(told(DONE | {"left": 3}), told(DONE | {"left": 0}))
    said = ctl(*command.split()).stderr

    assert said.startswith("3 left alone: the call may have arrived (outcome_unknown).")
    assert said.count("\n") == 1
    assert advice in said
    assert "left alone" not in ctl(*command.split()).stderr


def test_what_is_only_counted_may_not_be_what_would_change(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"matched": 2, "changed": 0}), told({"matched": 2, "changed": 1}))
    assert "by --state" in ctl("task", "cancel", "--queue", "mail", "--dry-run").stderr
    assert "by --state" not in ctl("task", "cancel", "--queue", "mail").stderr
