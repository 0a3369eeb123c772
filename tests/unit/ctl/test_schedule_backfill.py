"""`ctl schedule backfill`: it counts, asks, and goes in parts."""

import json
from typing import Any

import pytest

from tests.fakes.api_stub import ApiStub, Told, refused, told
from tests.unit.ctl.conftest import Ctl

FROM = "2026-12-01T00:00:00Z"
PATH = "/v1/schedules/key:daily/backfill"
NONE: dict[str, Any] = {
    **dict.fromkeys(("fires", "absent", "missed", "skipped", "kept", "held", "forgotten", "beyond_max_fires"), 0),
    "first": [],
    "last": [],
    "next": None,
    "dry_run": False,
}
TIMES = [f"2026-12-0{n}T08:00:00.000Z" for n in range(1, 8)]


def answer(**more: Any) -> Told:
    return told({**NONE, **more})


def test_a_dry_run_says_what_would_run_and_what_is_left_alone(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(
        answer(fires=7, missed=5, absent=2, kept=3, held=1, first=TIMES[:3], last=TIMES[-3:], dry_run=True, next=FROM)
    )
    result = ctl("schedule", "backfill", "key:daily", "--from", FROM, "--overlap", "allow", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert (stub.asked[0].path, stub.asked[0].document) == (
        PATH,
        {"from": FROM, "overlap": "allow", "limit": 100_000, "dry_run": True},
    )
    assert "7 times at least would run: " + ", ".join(TIMES[:3]) + " … " + ", ".join(TIMES[-3:]) in result.stderr
    assert "2 without a row" in result.stderr
    assert "3 ran, or are of a rule" in result.stderr
    assert "skipped" not in result.stderr


def test_it_goes_in_parts_and_adds_them_up(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(
        answer(fires=4, missed=4, dry_run=True),
        answer(fires=3, missed=3, first=TIMES[:3], last=TIMES[:3], next=TIMES[3]),
        answer(fires=1, missed=1, kept=2, first=TIMES[3:4], last=TIMES[3:4]),
    )
    result = ctl("schedule", "backfill", "key:daily", "--from", "1780000000", "--held", "--yes", "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert [one.document["from"] for one in stub.asked] == [1_780_000_000, 1_780_000_000, TIMES[3]]
    assert [one.document.get("limit") for one in stub.asked] == [100_000, 1_000, 1_000]
    assert all(one.document["held"] for one in stub.asked)
    shown = json.loads(result.stdout)
    assert (shown["fires"], shown["missed"], shown["kept"]) == (4, 4, 2)
    assert (shown["first"], shown["last"]) == (TIMES[:3], TIMES[1:4])


def test_where_there_is_nothing_it_says_so_and_asks_nobody(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(answer(kept=5, dry_run=True))
    result = ctl("schedule", "backfill", "key:daily", "--from", FROM, "--yes")
    assert (result.exit_code, len(stub.asked)) == (0, 1)
    assert "Nothing is to be run between these times." in result.stderr
    assert "5 ran, or are of a rule" in result.stderr


def test_more_than_it_counts_is_refused_before_any_is_started(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(answer(fires=100_000, absent=100_000, dry_run=True, next=TIMES[3]))
    result = ctl("schedule", "backfill", "key:daily", "--from", FROM, "--yes")
    assert (result.exit_code, len(stub.asked)) == (1, 1)
    assert f"--to {TIMES[3]}" in result.stderr


def test_with_nobody_to_ask_it_wants_to_be_sure(ctl: Ctl, stub: ApiStub) -> None:
    result = ctl("schedule", "backfill", "key:daily", "--from", FROM)
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert stub.asked == []


@pytest.mark.parametrize("word", ["422", "429"])
def test_a_refusal_is_told(ctl: Ctl, stub: ApiStub, word: str) -> None:
    stub.tell(refused(int(word), "validation_failed", "No."))
    result = ctl("schedule", "backfill", "key:daily", "--from", FROM, "--dry-run")
    assert result.exit_code == 1
