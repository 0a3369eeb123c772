"""The ready queue by example."""

from tasktick.ready.deadline import Entry
from tasktick.ready.limits import Limits, Reason
from tasktick.ready.queue import LOOKS_MAX, Pushed, ReadyQueue

NOW = 1_763_000_000_000


def entry(
    task_id: str,
    tenant: str = "ada",
    queue: str = "mail",
    host: str = "one",
    priority: int = 5,
    due_at: int = NOW,
    wake_at: int = NOW,
) -> Entry:
    return Entry(task_id, tenant, queue, host, priority, due_at, wake_at)


def ready(limits: Limits | None = None, ready_max: int = 20_000, lane_max: int = 10_000) -> ReadyQueue:
    return ReadyQueue(limits or Limits(), ready_max, lane_max)


def push(queue: ReadyQueue, *entries: Entry) -> None:
    for one in entries:
        assert queue.push(one) is Pushed.QUEUED


def ids(entries: list[Entry]) -> list[str]:
    return [one.id for one in entries]


def test_nothing_waits_in_an_empty_queue() -> None:
    queue = ready()
    assert queue.pop(10, NOW) == []
    assert (len(queue), queue.oldest_due_at(), queue.next_wake_at()) == (0, None, None)
    assert queue.missing(["a"]) == ["a"]
    assert not queue.remove("a")
    assert queue.held_by("a") is None


def test_within_a_tenant_the_virtual_deadline_decides_across_lanes() -> None:
    queue = ready()
    push(
        queue,
        entry("late", due_at=NOW + 5),
        entry("early", host="two", due_at=NOW - 5),
        entry("urgent", queue="bill", priority=0, due_at=NOW + 49_000),
        entry("patient", priority=9, due_at=NOW - 50_000),
        entry("same", due_at=NOW + 5),
    )
    assert queue.oldest_due_at() == NOW - 50_000
    assert ids(queue.pop(9, NOW)) == ["patient", "urgent", "early", "late", "same"]


def test_an_entry_waits_once_and_may_come_again() -> None:
    queue = ready()
    push(queue, entry("a"))
    assert queue.push(entry("a", host="two")) is Pushed.DUPLICATE
    [popped] = queue.pop(9, NOW)
    push(queue, entry("a"))
    queue.release(popped)
    assert ids(queue.pop(9, NOW)) == ["a"]


def test_what_was_removed_and_pushed_again_comes_once() -> None:
    queue = ready()
    same = entry("a")
    push(queue, same, entry("b"))
    assert queue.remove("a")
    push(queue, same)
    assert ids(queue.pop(9, NOW)) == ["b", "a"]
    assert len(queue) == 0


def test_a_lane_has_a_bound_of_its_own() -> None:
    queue = ready(ready_max=5, lane_max=2)
    push(queue, entry("a"), entry("b"))
    assert queue.push(entry("c")) is Pushed.LANE_FULL
    push(queue, entry("d", host="two"), entry("e", tenant="bob"), entry("f", queue="bill"))
    # A full lane says so even when all is full: its tasks are parked, the others wait to be fed.
    assert queue.push(entry("g")) is Pushed.LANE_FULL
    assert queue.push(entry("h", host="three")) is Pushed.FULL
    assert queue.missing(["h"]) == ["h"]
    assert queue.remove("a")
    assert queue.remove("d")
    push(queue, entry("g"))


def test_lanes_that_do_not_move_leave_room_for_others() -> None:
    """Two dead hosts with as much as a lane may hold each must not fill the queue of all."""
    queue = ready(ready_max=100, lane_max=50)
    for host in ("dead one", "dead two", "dead three"):
        while queue.push(entry(f"{host} {len(queue)}", host=host)) is not Pushed.LANE_FULL:
            pass
    assert len(queue) < 100
    assert queue.push(entry("honest", host="honest")) is Pushed.QUEUED


def test_a_full_lane_steps_aside_and_comes_back() -> None:
    limits = Limits(host_min=1, host_max=1)
    queue = ready(limits)
    push(queue, entry("a"), entry("b"), entry("c", due_at=NOW + 9, host="two"), entry("d", tenant="bob", host="three"))
    popped = queue.pop(9, NOW)
    assert sorted(ids(popped)) == ["a", "c", "d"]
    assert queue.pop(9, NOW) == []
    assert queue.held_by("b") is Reason.HOST
    assert queue.held()[Reason.HOST] == 1
    queue.release(next(one for one in popped if one.id == "a"))
    assert queue.held_by("b") is None
    assert ids(queue.pop(9, NOW)) == ["b"]


def test_who_is_held_by_what() -> None:
    limits = Limits(in_flight_max=3)
    limits.set_tenant_cap("ada", 0)
    limits.set_queue_cap("bob", "mail", 0)
    limits.set_host_cap("bad", 0)
    queue = ready(limits)
    push(queue, entry("a1"), entry("a2", host="two"), entry("b", tenant="bob"), entry("c", tenant="cleo", host="bad"))
    push(queue, *(entry(f"d{n}", tenant="dan") for n in range(5)))
    assert len(queue.pop(9, NOW)) == 3
    assert [queue.held_by(task_id) for task_id in ("a1", "b", "c", "d4")] == [Reason.GLOBAL] * 4
    assert queue.held() == {Reason.GLOBAL: 2, Reason.TENANT: 2, Reason.QUEUE: 1, Reason.HOST: 1}
    limits.in_flight_max = 100
    assert [queue.held_by(task_id) for task_id in ("a1", "b", "c", "d4")] == ["tenant", "queue", "host", None]


def test_a_raised_cap_lets_the_lane_go_on() -> None:
    limits = Limits()
    limits.set_host_cap("one", 0)
    queue = ready(limits)
    push(queue, *(entry(f"a{n}") for n in range(5)))
    assert queue.pop(9, NOW) == []
    limits.set_host_cap("one", 2)
    assert len(queue.pop(9, NOW)) == 2
    limits.set_host_cap("one", None)
    assert len(queue.pop(9, NOW)) == 3


def test_a_woken_lane_that_cannot_go_hands_its_slot_on() -> None:
    limits = Limits(host_min=1, host_max=1)
    queue = ready(limits)
    push(queue, entry("first"))
    [first] = queue.pop(9, NOW)
    push(queue, entry("stuck", queue="stuck"), entry("next", queue="next", due_at=NOW + 1), entry("gone", queue="gone"))
    assert queue.pop(9, NOW) == []
    limits.set_queue_cap("ada", "stuck", 0)
    queue.release(first)
    queue.remove("gone")
    assert ids(queue.pop(9, NOW)) == ["next"]
    assert queue.held_by("stuck") is Reason.QUEUE


def test_removing_what_was_woken_hands_its_slot_on() -> None:
    limits = Limits(host_min=1, host_max=1)
    queue = ready(limits)
    push(queue, entry("first"), entry("other", tenant="bob", host="two"))
    first = next(one for one in queue.pop(9, NOW) if one.id == "first")
    push(queue, entry("b", queue="b"), entry("c", queue="c"))
    push(queue, *(entry(f"x{n}", tenant="bob", host=f"x{n}") for n in range(3)))
    queue.release(first)
    # Bob's turn: the lane of "b" is woken and stays so, unseen.
    assert ids(queue.pop(1, NOW))[0].startswith("x")
    assert queue.remove("b")
    assert "c" in ids(queue.pop(9, NOW))


def test_something_more_urgent_moves_a_waiting_lane_up() -> None:
    limits = Limits(host_min=1, host_max=1)
    queue = ready(limits)
    push(queue, entry("first"))
    [first] = queue.pop(9, NOW)
    push(queue, entry("b", queue="b", due_at=NOW + 1), entry("c", queue="c", due_at=NOW + 2))
    assert queue.pop(9, NOW) == []
    push(queue, entry("urgent", queue="c", priority=0))
    queue.release(first)
    [second] = queue.pop(9, NOW)
    assert second.id == "urgent"
    queue.release(second)
    assert ids(queue.pop(9, NOW)) == ["b"]


def test_something_more_urgent_overtakes_a_lane_that_was_woken() -> None:
    limits = Limits(host_min=1, host_max=1)
    queue = ready(limits)
    push(queue, entry("first"), entry("other", tenant="bob", host="two"))
    first = next(one for one in queue.pop(9, NOW) if one.id == "first")
    push(queue, entry("b", queue="b"), entry("c", queue="c", due_at=NOW + 1))
    push(queue, *(entry(f"x{n}", tenant="bob", host=f"x{n}") for n in range(3)))
    queue.release(first)
    # The lane of "b" is woken, and Bob goes first.
    assert ids(queue.pop(1, NOW)) == ["x0"]
    push(queue, entry("urgent", queue="c", priority=0))
    assert [task_id for task_id in ids(queue.pop(9, NOW)) if not task_id.startswith("x")] == ["urgent"]


def test_a_lane_whose_first_was_removed_goes_by_its_next() -> None:
    queue = ready()
    push(queue, entry("a1", host="a"), entry("a9", host="a", due_at=NOW + 9), entry("b5", host="b", due_at=NOW + 5))
    assert queue.remove("a1")
    assert ids(queue.pop(9, NOW)) == ["b5", "a9"]


def test_a_lane_in_line_whose_first_was_removed_goes_by_its_next() -> None:
    queue = ready(Limits(host_min=1, host_max=1))
    push(queue, entry("first"))
    [first] = queue.pop(9, NOW)
    push(queue, entry("a1", queue="a"), entry("a9", queue="a", due_at=NOW + 9))
    push(queue, entry("b5", queue="b", due_at=NOW + 5))
    assert queue.remove("a1")
    queue.release(first)
    assert ids(queue.pop(9, NOW)) == ["b5"]


def test_nothing_goes_before_its_time() -> None:
    queue = ready()
    push(queue, entry("later", wake_at=NOW + 50, due_at=NOW - 9), entry("now"))
    assert ids(queue.pop(9, NOW)) == ["now"]
    assert queue.next_wake_at() == NOW + 50
    assert not queue.missing(["later"])
    assert queue.pop(9, NOW + 49) == []
    assert ids(queue.pop(9, NOW + 50)) == ["later"]
    assert queue.next_wake_at() is None
    push(queue, entry("gone", wake_at=NOW + 90))
    assert queue.pop(9, NOW) == []
    assert queue.remove("gone")
    assert queue.next_wake_at() is None
    assert queue.pop(9, NOW + 90) == []


def test_one_dead_host_stops_nobody_else() -> None:
    queue = ready(Limits(host_min=4, host_max=4), ready_max=10_000)
    push(queue, *(entry(f"dead{n}", host="dead", due_at=NOW - 1000) for n in range(5000)))
    push(queue, *(entry(f"fine{n}", host=f"fine{n % 50}") for n in range(150)))
    push(queue, *(entry(f"bob{n}", tenant="bob", host="bob") for n in range(4)))
    out = ids(queue.pop(500, NOW))
    assert sum(task_id.startswith("dead") for task_id in out) == 4
    assert len(out) == 158
    assert queue.held()[Reason.HOST] == 4996


def test_a_pop_puts_only_so_many_lanes_aside_and_the_next_goes_on() -> None:
    queue = ready(Limits(host_min=2, host_max=2))
    lanes = 2 * LOOKS_MAX + 500
    push(queue, *(entry(f"a{n}", queue=f"queue{n}", due_at=NOW + n) for n in range(lanes)))
    push(queue, entry("other", host="two", due_at=NOW + lanes))
    assert ids(queue.pop(9, NOW)) == ["a0", "a1"]
    assert queue.held()[Reason.HOST] == LOOKS_MAX
    # With nothing to return, it looks until it finds something or knows that there is nothing.
    assert ids(queue.pop(9, NOW)) == ["other"]
    assert queue.pop(9, NOW) == []
    assert queue.held()[Reason.HOST] == lanes - 2


def test_lanes_for_a_full_gate_wait_from_the_start() -> None:
    limits = Limits()
    limits.set_host_cap("one", 0)
    queue = ready(limits)
    push(queue, *(entry(f"a{n}", queue=f"queue{n}") for n in range(50)))
    assert queue.held()[Reason.HOST] == 50


def test_coming_and_going_leaves_nothing_behind() -> None:
    limits = Limits(host_min=1, host_max=1, hosts_kept=5)
    queue = ready(limits)
    push(queue, entry("holder"))
    [holder] = queue.pop(1, NOW)
    push(queue, entry("stays", due_at=NOW + 10_000))
    for n in range(2000):
        # Each is more urgent than the last, so the waiting lane moves up; some come too early.
        push(queue, entry(f"a{n}", due_at=NOW - n), entry(f"b{n}", tenant=f"tenant{n}", wake_at=NOW + 9))
        if n % 10 == 0:
            assert queue.pop(1, NOW) == []
        assert queue.remove(f"a{n}")
        assert queue.remove(f"b{n}")
    assert len(queue) == 1
    [lane] = queue._lanes.values()
    assert max(len(lane.items), len(queue._early)) < 40
    [line] = queue._lines.values()
    places = line._tenants["ada"].heap
    assert max(len(places), len(line._order)) < 40
    queue.release(holder)
    assert ids(queue.pop(9, NOW)) == ["stays"]
    assert (queue._lanes, queue._tenants, queue._lines) == ({}, {}, {})


def test_weights_are_shares() -> None:
    queue = ReadyQueue(Limits(), 1000, 1000, {"ada": 3})
    for tenant in ("ada", "bob"):
        push(queue, *(entry(f"{tenant}{n}", tenant) for n in range(100)))
    popped = queue.pop(40, NOW)
    assert sum(one.tenant == "ada" for one in popped) == 30
    for one in popped:
        queue.release(one)
    queue.set_weight("ada", None)
    assert 19 <= sum(one.tenant == "ada" for one in queue.pop(40, NOW)) <= 21


def test_a_slot_that_came_up_is_for_the_most_urgent_though_a_push_came_between() -> None:
    limits = Limits(tenant_max=1)
    queue = ready(limits)
    push(queue, entry("a", due_at=NOW - 9), entry("b", due_at=NOW - 8), entry("c", host="two"))
    [first] = queue.pop(9, NOW)
    queue.release(first)
    push(queue, entry("d", due_at=NOW - 7, host="two"))
    assert ids(queue.pop(9, NOW)) == ["b"]


def test_a_lane_that_was_woken_lets_a_more_urgent_one_of_its_tenant_go_first() -> None:
    limits = Limits()
    limits.set_tenant_cap("ada", 1)
    queue = ready(limits)
    push(queue, entry("a", due_at=NOW - 9), entry("b", due_at=NOW - 5), entry("c", host="two"))
    [first] = queue.pop(9, NOW)
    queue.release(first)
    push(queue, entry("d", due_at=NOW - 4, host="two"))
    limits.set_tenant_cap("ada", 0)
    push(queue, entry("e", due_at=NOW - 7, host="three"))
    limits.set_tenant_cap("ada", 4)
    assert ids(queue.pop(9, NOW)) == ["e", "b", "d", "c"]
