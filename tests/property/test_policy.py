"""What becomes of a backlog, against the list of all its times."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tasktick.model.schedule import CatchUp, CatchUpMode, Rule
from tasktick.timetable.fires import Fire, fires, next_fire
from tasktick.timetable.policy import Backlog, Late, all_run, catch_up, due_at, none_runs

NOW = 1_790_000_000_000
MISSED_AFTER_MS = 60_000
RULES = st.one_of(
    st.sampled_from([700, 1_000, 60_000, 90_500]).map(lambda every_ms: Rule(every_ms=every_ms)),
    st.builds(
        Rule,
        cron=st.sampled_from(["*/5 * * * *", "0 3 * * *", "30 2 * * *", "0 * * * *", "15 */10 * * * *"]),
        timezone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    ),
)
POLICIES = st.builds(
    CatchUp,
    mode=st.sampled_from(get_args(CatchUpMode)),
    window_ms=st.sampled_from([None, 60_000, 3_600_000]),
    max=st.sampled_from([1, 3, 100]),
)
# Up to some 40 hours, and across two changes of the clocks.
ENDS = st.integers(NOW - 200 * 86_400_000, NOW + 200 * 86_400_000)


def _backlog(rule: Rule, now: int, gap_ms: int) -> tuple[Backlog, list[Fire]] | None:
    first = next_fire(rule, now - min(gap_ms, 2_000 * (rule.every_ms or 60_000)))
    if first is None or first.nominal_at > now:
        return None
    return Backlog(rule, first, now), [first, *fires(rule, first.nominal_at, now)]


def _times(found: list[Late], every: list[Fire]) -> list[int]:
    """All times that the verdicts are about, stretches spelled out."""
    times: list[int] = []
    for late in found:
        until_at = late.fire.nominal_at if late.until_at is None else late.until_at
        inside = [fire.nominal_at for fire in every if late.fire.nominal_at <= fire.nominal_at <= until_at]
        assert len(inside) == late.times
        times += inside
    return times


@given(rule=RULES, policy=POLICIES, now=ENDS, gap_ms=st.integers(1, 150_000_000), rows_max=st.sampled_from([1, 7, 50]))
def test_every_time_is_decided_once_and_the_policy_says_which_run(
    rule: Rule, policy: CatchUp, now: int, gap_ms: int, rows_max: int
) -> None:
    made = _backlog(rule, now, gap_ms)
    if made is None:
        return
    backlog, every = made
    found = catch_up(policy, backlog, now - MISSED_AFTER_MS, now, rows_max)

    assert _times(found, every) == [fire.nominal_at for fire in every]
    runs = [late.fire.nominal_at for late in found if late.runs]
    inside = [
        fire.nominal_at for fire in every if policy.window_ms is None or fire.nominal_at >= now - policy.window_ms
    ]
    young = [at for at in inside if at >= now - MISSED_AFTER_MS]
    wanted = {
        "latest": inside[-1:],
        "earliest": inside[:1],
        "all": inside[-policy.max :],
        "none": young[-policy.max :],
    }
    assert runs == wanted[policy.mode]
    assert sum(late.missed for late in found) in {0, len(every) - len(runs)}


@given(rule=RULES, now=ENDS, gap_ms=st.integers(1, 50_000_000), rows_max=st.sampled_from([1, 7, 5_000]))
def test_a_pause_leaves_out_all_of_it_and_lag_nothing(rule: Rule, now: int, gap_ms: int, rows_max: int) -> None:
    made = _backlog(rule, now, gap_ms)
    if made is None:
        return
    backlog, every = made

    assert _times(none_runs(backlog, rows_max), every) == [fire.nominal_at for fire in every]
    running = all_run(backlog, rows_max)
    assert [late.fire for late in running] == every[:rows_max]
    assert backlog.times == len(every)


@given(rule=RULES, now=ENDS, jitter_ms=st.integers(0, 7_200_000))
def test_a_spread_keeps_the_order_of_the_fires(rule: Rule, now: int, jitter_ms: int) -> None:
    first = next_fire(rule, now)
    assert first is not None
    second = next_fire(rule, first.nominal_at)
    assert second is not None

    due = due_at(rule, "0" * 32, first.nominal_at, jitter_ms)

    assert first.nominal_at <= due < second.nominal_at
    assert due - first.nominal_at <= jitter_ms
    assert due == due_at(rule, "0" * 32, first.nominal_at, jitter_ms)
