"""A load played against limits: what starts when, and what waits."""

from collections.abc import Sequence

import pytest

from tasktick.ready.forecast import Cap, Caps, Lane, Minute, play

ONE: Lane = ("t", "q", "h")


def played(load: dict[Lane, list[float]], caps: Caps | None = None, minutes: int = 20) -> list[Minute]:
    """What happens, where a load names its first minutes."""
    filled = {lane: [*amounts, *([0.0] * (minutes - len(amounts)))] for lane, amounts in load.items()}
    return list(play(filled, caps or Caps(), minutes))


def starts(found: Sequence[Minute]) -> list[float]:
    return [one.starts for one in found]


def test_without_limits_all_starts_when_it_is_due() -> None:
    found = played({ONE: [3, 0, 7], ("u", "q", "g"): [1]})
    assert [(one.due, one.starts, one.delayed, one.backlog) for one in found[:4]] == [
        (4, 4, 0, 0),
        (0, 0, 0, 0),
        (7, 7, 0, 0),
        (0, 0, 0, 0),
    ]


@pytest.mark.parametrize(
    "caps",
    [
        Caps(queues={("t", "q"): Cap(per_minute=100)}),
        Caps(tenants={"t": Cap(per_minute=100)}),
        Caps(hosts={"h": Cap(per_minute=100)}),
        Caps(any_host=Cap(per_minute=100)),
        Caps(total=Cap(per_minute=100)),
    ],
    ids=["queue", "tenant", "host", "any host", "total"],
)
def test_a_rate_takes_ten_minutes_for_ten_times_as_much(caps: Caps) -> None:
    found = played({ONE: [1_000]}, caps)
    assert starts(found) == [100.0] * 10 + [0.0] * 10
    assert [one.backlog for one in found[:10]] == [900, 800, 700, 600, 500, 400, 300, 200, 100, 0]
    assert sum(one.delayed for one in found) == 900


def test_a_host_has_so_many_slots_and_each_call_takes_its_time() -> None:
    quick = played({ONE: [100]}, Caps(any_host=Cap(slots=10), durations_s={"h": 30.0}))
    assert starts(quick)[:6] == [20, 20, 20, 20, 20, 0]
    slow = played({ONE: [25]}, Caps(any_host=Cap(slots=10), durations_s={"h": 120.0}))
    assert starts(slow)[:6] == [10, 0, 10, 0, 5, 0]
    unknown = played({ONE: [10_000]}, Caps(any_host=Cap(slots=10)))
    assert starts(unknown)[0] == 10_000


def test_a_slow_host_holds_nobody_else_up() -> None:
    caps = Caps(any_host=Cap(slots=1), durations_s={"h": 60.0})
    found = played({ONE: [5], ("t", "q", "g"): [5]}, caps)
    assert starts(found)[:6] == [6, 1, 1, 1, 1, 0]


def test_what_is_due_at_once_shares_the_room_by_its_amount() -> None:
    other: Lane = ("u", "q", "g")
    load = {ONE: [300.0] + [0.0] * 19, other: [100.0] + [0.0] * 19}
    caps = Caps(total=Cap(per_minute=100))
    mine = list(play(load, caps, 20, lambda lane: lane == ONE))
    assert starts(mine)[:5] == [75, 75, 75, 75, 0]
    assert [one.due for one in mine[:2]] == [300, 0]
    assert [one.backlog for one in mine[:4]] == [225, 150, 75, 0]


def test_the_oldest_goes_first() -> None:
    late = played({ONE: [150], ("t", "q", "g"): [0, 100]}, Caps(total=Cap(per_minute=100)))
    assert [(one.starts, one.delayed) for one in late[:4]] == [(100, 0), (100, 50), (50, 50), (0, 0)]


def test_a_rate_below_one_a_minute_saves_up() -> None:
    found = played({ONE: [1]}, Caps(total=Cap(per_minute=0.25)))
    assert sum(starts(found)[:3]) == pytest.approx(0.75)
    assert found[3].backlog == 0
