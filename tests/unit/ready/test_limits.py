"""Counts against caps, and how the cap of a host follows what is seen of it."""

from collections.abc import Callable

import pytest

from tasktick.ready.deadline import Entry
from tasktick.ready.limits import AHEAD_MAX, CALLS_QUICK, Limits, Reason


def entry(tenant: str = "ada", queue: str = "mail", host: str = "one") -> Entry:
    return Entry("task", tenant, queue, host, 5, 0, 0)


def test_each_limit_holds_what_it_is_for() -> None:
    limits = Limits(in_flight_max=5, tenant_max=4, queue_max=3, host_min=2, host_max=2)
    for host, blocked in (("one", Reason.HOST), ("two", Reason.QUEUE)):
        while limits.may_send(entry(host=host)):
            limits.take(entry(host=host))
        assert limits.blocked_by(entry(host=host)) is blocked
    limits.take(entry(queue="bill", host="three"))
    assert limits.blocked_by(entry(queue="post", host="four")) is Reason.TENANT
    limits.take(entry("bob", host="three"))
    assert limits.blocked_by(entry("cleo", host="four")) is Reason.GLOBAL
    limits.release(entry("bob", host="three"))
    assert limits.may_send(entry("cleo", host="four"))


def test_a_queue_is_its_tenants_own() -> None:
    limits = Limits(queue_max=1)
    limits.take(entry("ada"))
    assert not limits.may_send(entry("ada"))
    assert limits.may_send(entry("bob"))


def test_caps_can_be_set_and_unset_while_in_use() -> None:
    limits = Limits(tenant_max=2)
    limits.take(entry())
    setters: list[tuple[Callable[[int | None], None], Reason]] = [
        (lambda cap: limits.set_tenant_cap("ada", cap), Reason.TENANT),
        (lambda cap: limits.set_queue_cap("ada", "mail", cap), Reason.QUEUE),
        (lambda cap: limits.set_host_cap("one", cap), Reason.HOST),
    ]
    for set_cap, reason in setters:
        set_cap(1)
        assert limits.blocked_by(entry()) is reason
        set_cap(2)
        assert limits.may_send(entry())
        set_cap(0)
        assert limits.blocked_by(entry()) is reason
        set_cap(None)
        assert limits.may_send(entry())


def test_a_cap_outlives_the_use_of_what_it_is_for() -> None:
    limits = Limits(hosts_kept=1)
    limits.set_host_cap("one", 0)
    for host in ("two", "three"):
        limits.take(entry(host=host))
        limits.release(entry(host=host))
    assert limits.blocked_by(entry()) is Reason.HOST
    limits.set_host_cap("one", None)
    assert limits.may_send(entry())


def test_a_slot_is_released_once() -> None:
    limits = Limits()
    limits.take(entry())
    limits.take(entry(host="two"))
    limits.release(entry())
    with pytest.raises(ValueError, match="not taken"):
        limits.release(entry())
    assert limits.in_flight == 1
    limits.release(entry(host="two"))
    assert limits.in_flight == 0


def test_what_is_unused_is_forgotten_and_idle_hosts_after_a_while() -> None:
    limits = Limits(hosts_kept=10)
    for n in range(100):
        limits.take(entry(f"tenant{n}", host=f"host{n}"))
        limits.release(entry(f"tenant{n}", host=f"host{n}"))
        limits.observe(f"seen{n}", 5, True)
        limits.host_cap(f"asked{n}")
    assert limits.counts() == {"tenants": 0, "queues": 0, "hosts": 10}


def observe(limits: Limits, count: int, latency_ms: float, ok: bool = True) -> None:
    for _ in range(count):
        limits.observe("one", latency_ms, ok)


def fill(limits: Limits) -> None:
    while limits.may_send(entry()):
        limits.take(entry())


def test_a_receiver_that_answers_at_once_is_called_no_more_at_once_and_claimed_ahead_for() -> None:
    limits = Limits()
    fill(limits)
    assert limits.in_flight == 64
    for _ in range(1_000):
        fill(limits)
        observe(limits, 1, 2.0)
    assert limits.host_cap("one") == 64 + AHEAD_MAX
    assert limits.calls_at_once("one") == CALLS_QUICK


def test_nothing_is_claimed_ahead_without_demand() -> None:
    limits = Limits()
    limits.take(entry())
    observe(limits, 1_000, 2.0)
    assert limits.host_cap("one") == 64


def test_nothing_more_is_claimed_ahead_for_a_receiver_that_is_quick_no_more() -> None:
    limits = Limits()
    for _ in range(1_000):
        fill(limits)
        observe(limits, 1, 2.0)
    for _ in range(40):
        limits.release(entry())
        observe(limits, 1, 30.0)
    assert limits.host_cap("one") == 64
    assert limits.calls_at_once("one") == 64


def test_a_setting_bounds_the_calls_of_a_quick_receiver_too() -> None:
    limits = Limits(host_min=10, host_max=10)
    for _ in range(1_000):
        fill(limits)
        observe(limits, 1, 2.0)
    assert limits.calls_at_once("one") == 10
    assert limits.host_cap("one") == 10 + AHEAD_MAX


def test_a_stranger_is_called_as_far_as_may_be_claimed() -> None:
    assert Limits(host_min=100).calls_at_once("new") == 100


def test_who_is_held_is_called_one_at_a_time_at_the_most() -> None:
    """What was claimed before must come to its end: it is given back when its time to start has passed."""
    limits = Limits()
    fill(limits)
    limits.set_host_cap("one", 0)
    assert limits.calls_at_once("one") == 1


def test_a_slow_receiver_with_more_to_do_doubles_each_round_up_to_the_most() -> None:
    limits = Limits()
    for expected in (128, 256, 256):
        round_of = limits.host_cap("one")
        fill(limits)
        for _ in range(round_of):
            limits.observe("one", 5000.0, True)
            fill(limits)
        assert limits.host_cap("one") == expected


def test_a_slow_receiver_without_demand_stays() -> None:
    limits = Limits()
    limits.take(entry())
    observe(limits, 1000, 5000.0)
    assert limits.host_cap("one") == 64


def test_it_comes_down_when_answers_are_quick_again() -> None:
    limits = Limits()
    for _ in range(500):
        fill(limits)
        observe(limits, 1, 5000.0)
    assert limits.host_cap("one") == 256
    while limits.in_flight:
        limits.release(entry())
    observe(limits, 1000, 1.0)
    assert limits.host_cap("one") == 64


def test_failures_take_a_quarter_once_a_round() -> None:
    limits = Limits()
    for _ in range(500):
        fill(limits)
        observe(limits, 1, 5000.0)
    observe(limits, 192, 0.0, ok=False)
    assert limits.host_cap("one") == 192
    observe(limits, 1, 0.0, ok=False)
    assert limits.host_cap("one") == 144
    observe(limits, 10_000, 0.0, ok=False)
    assert limits.host_cap("one") == 64


def test_a_fixed_cap_stands_above_what_is_learned() -> None:
    limits = Limits()
    limits.set_host_cap("one", 3)
    for _ in range(500):
        fill(limits)
        observe(limits, 1, 5000.0)
    assert (limits.host_cap("one"), limits.in_flight) == (3, 3)
    limits.set_host_cap("one", None)
    assert limits.host_cap("one") == 64


def test_caps_of_hosts_are_in_order() -> None:
    with pytest.raises(ValueError, match="host_min"):
        Limits(host_min=10, host_max=5)


def test_the_range_of_hosts_can_be_changed_while_in_use() -> None:
    limits = Limits(host_min=8, host_max=16)
    for _ in range(8):
        limits.take(entry())
    limits.set_host_cap("fixed", 3)
    limits.take(entry(host="fixed"))

    limits.set_host_range(2, 4)
    assert limits.host_cap("one") == 4
    assert limits.host_cap("new") == 2
    assert limits.host_cap("fixed") == 3
    assert limits.blocked_by(entry()) is Reason.HOST

    limits.set_host_range(32, 64)
    assert limits.host_cap("one") == 32
    assert limits.may_send(entry())
    with pytest.raises(ValueError, match="host_min"):
        limits.set_host_range(5, 4)


def test_a_quick_receiver_that_answers_no_more_has_nothing_claimed_ahead() -> None:
    """No answer says so: its calls hang, and what waits for them comes back."""
    limits = Limits()
    for _ in range(1_000):
        fill(limits)
        observe(limits, 1, 2.0)
    assert limits.host_cap("one") == 64 + AHEAD_MAX
    limits.stalled("one")
    assert limits.host_cap("one") == 64
    assert limits.calls_at_once("one") == 64
    limits.set_host_cap("one", 7)
    limits.stalled("one")
    assert limits.host_cap("one") == 7, "what an operator has said stays"
