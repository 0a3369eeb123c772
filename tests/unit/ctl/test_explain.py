"""`ctl task explain` and `ctl schedule explain`."""

from tests.fakes.api_stub import ApiStub, refused, told
from tests.unit.ctl.conftest import Ctl

TASK = {
    "id": "tsk_1",
    "state": "retrying",
    "at": "2026-02-10T08:00:00.000Z",
    "steps": [
        {"at": "2026-02-10T07:00:00.000Z", "code": "created", "detail": "It was created."},
        {"at": None, "code": "reopened", "detail": "It was taken up again.\x1b[2J"},
        {"at": "2026-02-10T08:00:00.000Z", "code": "backoff", "detail": "The next one is due at nine."},
    ],
}
SCHEDULE = {
    "id": "sch_1",
    "at": "2026-02-10T08:30:00.000Z",
    "local": "2026-02-10T09:30:00+01:00",
    "nominal": False,
    "version": 1,
    "steps": [{"code": "minute_differs", "detail": "The minute is 30."}],
    "before": {"nominal": "2026-02-10T08:00:00.000Z", "local": "2026-02-10T09:00:00+01:00"},
    "after": None,
    "fire": None,
    "lateness": None,
    "attempts": None,
}


def test_a_task(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(TASK))
    result = ctl("task", "explain", "key:x")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/tasks/key:x/explain"
    lines = result.stdout.splitlines()
    assert lines[-2:] == ["2026-02-10T08:00:00.000Z  backoff", "  The next one is due at nine."]
    assert "-  reopened" in lines
    assert "\x1b" not in result.stdout


def test_a_schedule(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(SCHEDULE))
    result = ctl("schedule", "explain", "key:daily", "--at", "2026-02-10T09:30:00+01:00")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/schedules/key:daily/explain?at=2026-02-10T09:30:00%2B01:00"
    assert result.stdout.splitlines() == [
        "2026-02-10T08:30:00.000Z (2026-02-10T09:30:00+01:00) is no time of it.",
        "minute_differs",
        "  The minute is 30.",
        "The time before: 2026-02-10T08:00:00.000Z (2026-02-10T09:00:00+01:00)",
    ]


def test_as_json_and_refused(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(TASK), told(SCHEDULE), refused(404, "not_found", "There is no task here."))
    assert '"backoff"' in ctl("task", "explain", "tsk_1", "-o", "json").stdout
    assert '"minute_differs"' in ctl("schedule", "explain", "sch_1", "--at", "1", "-o", "json").stdout
    assert ctl("task", "explain", "tsk_2").exit_code == 1
    stub.tell(told(SCHEDULE))
    assert ctl("schedule", "explain", "sch_1").exit_code == 0
    assert stub.asked[-1].path == "/v1/schedules/sch_1/explain"
