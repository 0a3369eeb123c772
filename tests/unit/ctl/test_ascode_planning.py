"""What a plan comes to: both sides compared, and who else has had a hand in it."""

from typing import Any

import msgspec
import pytest

from tasktick.ctl.ascode import planning
from tasktick.ctl.ascode.planning import Change, Standing, Wanted

READING: dict[str, Any] = {
    "key": "a",
    "cron": "0 9 * * *",
    "every": None,
    "tags": {"team": "x"},
    "paused": False,
    "note": None,
    "task": {"target": {"url": "u", "headers": {"A": "***abcd"}, "body": {"n": 1}}},
}


def wanted(request: dict[str, Any] | None = None, owner: str = "me", **changed: Any) -> Wanted:
    return Wanted("schedule", "a", owner, "a.toml", request or {}, {**READING, **changed})


def standing(owner: str | None = "me", digest: str | None = None, **changed: Any) -> Standing:
    reading = {**READING, **changed}
    return Standing("schedule", "a", 3, reading, owner, planning.digest(reading) if digest is None else digest)


def paths(change: Change) -> list[str]:
    return [one.path for one in change.fields]


def test_what_is_as_it_should_be_stays() -> None:
    marked = {**READING["tags"], "managed-by": "me", "managed-digest": "x"}
    change = planning.compare(wanted(), standing(tags=marked))
    assert (change.action, change.conflict) == ("none", None)
    assert planning.compare(wanted(), None).action == "create"


def test_a_change_is_told_field_by_field() -> None:
    target = {"url": "v", "headers": {"A": "***abcd", "B": "1"}, "body": {"n": 2, "m": 1}}
    change = planning.compare(wanted(cron=None, every=60, task={"target": target}), standing())
    assert change.action == "change"
    assert [(one.path, one.old, one.new) for one in change.fields] == [
        ("cron", "0 9 * * *", None),
        ("every", None, 60),
        ("task.target.url", "u", "v"),
        ("task.target.headers.B", None, "1"),
        ("task.target.body", {"n": 1}, {"n": 2, "m": 1}),
    ]


@pytest.mark.parametrize(
    ("there", "changed", "action", "conflict"),
    [
        (standing(digest="other"), {}, "mark", None),
        (standing(digest="other"), {"every": 1}, "change", "changed it since"),
        (standing(owner=None), {}, "mark", None),
        (standing(owner=None), {"every": 1}, "change", "not made from a file"),
        (standing(owner="you"), {}, "mark", "belongs to you"),
        (standing(owner="you"), {"every": 1}, "change", "belongs to you"),
        (standing(), {"every": 1}, "change", None),
    ],
)
def test_whose_it_is_and_who_has_changed_it(there: Standing, changed: Any, action: str, conflict: str | None) -> None:
    change = planning.compare(wanted(**changed), there)
    assert change.action == action
    assert (change.conflict is None) if conflict is None else (conflict in str(change.conflict))


def test_a_pause_is_no_change_unless_the_file_says_so() -> None:
    held = standing(paused=True, note="moving", digest=planning.digest(READING))
    assert planning.compare(wanted(), held).action == "none"
    assert paths(planning.compare(wanted({"paused": False}), held)) == ["paused", "note"]
    assert paths(planning.compare(wanted({"note": "x"}, note="x"), held)) == ["note"]
    assert paths(planning.compare(wanted(note="x"), standing())) == ["note"]


def test_one_is_not_true_and_nothing_said_is_nothing_there() -> None:
    assert [one.path for one in planning.differences({"a": 1}, {"a": True})] == ["a"]
    assert list(planning.differences({"a": {"b": None}, "c": {"y": 1, "x": 2}}, {"a": {}, "c": {"x": 2, "y": 1}})) == []
    assert planning.digest({**READING, "new": None}) == planning.digest(READING)


def test_what_is_in_no_file_is_pruned_and_what_was_changed_is_refused() -> None:
    mine, drifted = standing(), msgspec.structs.replace(standing(), key="b", digest="other")
    theirs = msgspec.structs.replace(standing(owner="you"), key="c")
    there = {("schedule", one.key): one for one in (mine, drifted, theirs)}
    found = planning.orphans([], there, {"me": "a.toml"})
    assert [(one.key, one.conflict is None) for one in found] == [("a", True), ("b", False)]
    assert planning.orphans(planning.plan([wanted()], there), there, {"me": "a.toml"})[0].key == "b"


def test_calendars_come_before_who_names_them() -> None:
    calendar = Wanted("calendar", "z", "me", "a.toml", {}, {"dates": ["2026-12-25"]})
    there = {("calendar", "z"): Standing("calendar", "z", 1, {"dates": []})}
    changes = planning.plan([wanted(), calendar], there)
    assert [(one.kind, one.action) for one in changes] == [("calendar", "change"), ("schedule", "create")]
