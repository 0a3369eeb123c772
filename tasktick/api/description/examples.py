"""Examples by model; tests read each into its model. Pure."""

import json
from typing import Any

TARGET: dict[str, Any] = {
    "url": "https://app.example/hooks/remind",
    "method": "POST",
    "headers": {"x-team": "billing"},
    "body": {"invoice": 771},
    "timeout": "30s",
    "success": ["2xx"],
}
TASK: dict[str, Any] = {
    "key": "invoice-771",
    "name": "Invoice reminder",
    "type": "invoice.remind",
    "run_at": "2030-12-01T09:00:00+01:00",
    "target": TARGET,
    "priority": 5,
    "retry": {"max_attempts": 5, "strategy": "exponential", "initial": "10s", "factor": 3, "max_delay": "1h"},
    "sla": "30s",
    "tags": {"team": "billing"},
}
SCHEDULE: dict[str, Any] = {
    "key": "daily-report",
    "name": "Daily report",
    "cron": "0 9 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "jitter": "10m",
    "overlap": "skip",
    "catch_up": {"mode": "latest", "window": "6h"},
    "task": {"target": {"url": "https://app.example/hooks/report", "body": {"report": "daily"}}, "queue": "reports"},
}
PROBLEM: dict[str, Any] = {
    "type": "urn:tasktick:problem:validation_failed",
    "title": "The request is not valid",
    "status": 422,
    "detail": "This must be from 0 to 9.",
    "code": "validation_failed",
    "request_id": "req_019b2f0e7a4c7d1e8f3a5b6c7d8e9f00",
    "errors": [{"pointer": "/priority", "detail": "This must be from 0 to 9."}],
}

EVENT: dict[str, Any] = {
    "type": "task.succeeded",
    "id": "tsk_019b2f0e7a4c7d1e8f3a5b6c7d8e9f00",
    "tenant": "default",
    "before": "running",
    "state": "succeeded",
    "attempt": 1,
    "at": "2030-12-01T08:00:00.123Z",
}
STREAM = f"event: task.succeeded\nid: 123-4\ndata: {json.dumps(EVENT, separators=(',', ':'))}\n\n"

EXAMPLES: dict[str, Any] = {
    "TaskRequest": TASK,
    "TaskBatch": {"tasks": [{"target": {"url": "https://app.example/hooks/remind"}, "delay": "5m"}]},
    "TaskPatch": {"delay": "1h30m", "priority": 0},
    "Replay": {"target": {"url": "https://app.example/fixed"}},
    "TaskBulk": {"filter": {"queue": "mail", "state": ["scheduled", "retrying"]}, "dry_run": True},
    "DeadLetterBulk": {"filter": {"class": "network", "created_after": "2030-12-01T00:00:00Z"}, "dry_run": True},
    "KeyRequest": {"role": "submitter", "name": "billing", "expires_in": "90d"},
    "TenantRequest": {"max_pending": 100_000, "create_rate": "100/1m"},
    "Rotation": {"retire_after": "7d"},
    "PreviewRequest": {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"},
    "ScheduleRequest": SCHEDULE,
    "SchedulePatch": {"cron": "0 8 * * MON-FRI", "note": "Earlier, as asked for by sales."},
    "Occurrence": {"at": "2030-12-24T09:00:00+01:00"},
    "CalendarRequest": {
        "timezone": "Europe/Berlin",
        "dates": ["2030-12-25", {"from": "2030-12-30", "to": "2031-01-02"}],
        "weekly": [{"days": "MON-FRI", "from": "18:00", "to": "08:00"}, {"days": "SAT,SUN"}],
    },
    "PauseRequest": {"until": "2030-12-02T00:00:00Z", "note": "The shop is closed."},
    "Trigger": {"target": {"body": {"report": "daily", "again": True}}},
    "BulkDone": {"matched": 12, "changed": 0, "left": 0},
    "BatchMade": {"data": [{"id": "tsk_019b2f0e7a4c7d1e8f3a5b6c7d8e9f00"}]},
    "Health": {"status": "ok"},
    "Ready": {"status": "ready", "reasons": []},
    "Problem": PROBLEM,
}
