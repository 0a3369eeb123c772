"""Histories of ledgers in which times were filled in, or run later."""

import msgspec

from tests.chaos.ledger_story import Former
from tests.chaos.nominal import Timing, local_ms
from tests.unit.chaos.ledger_histories import LATE, bad, caught_up, good
from tests.unit.chaos.ledgers import START, STEP_MS, Scribe


@good
def times_are_filled_in(scribe: Scribe) -> None:
    """One from before it was made, one that an outage took, one of a stretch."""
    caught_up(scribe)
    at = LATE + 0.5
    scribe.fill(-3, at)
    stretch = scribe.entries[10]
    scribe.entries[10] = msgspec.structs.replace(stretch, until_at=START + 99 * STEP_MS, times=89)
    former = Former(stretch.outcome, stretch.reason, stretch.decided_at, stretch.version)
    scribe.decide(100, "run", "backfill", decided_at=START + int(at * STEP_MS), was=former)
    rest = {"until_at": stretch.until_at, "times": 299, "task_id": None, "decided_at": stretch.decided_at}
    scribe.decide(101, "missed", "catch_up:latest", **rest)


@good
def a_skipped_time_is_run_later(scribe: Scribe) -> None:
    scribe.decide(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], completed_at=START + int(2.5 * STEP_MS))
    scribe.decide(2, "skipped", "overlap")
    was = scribe.entries[1]
    scribe.run(3)
    scribe.fill(2, 3.3, was, reason="run_later")


@good
def times_that_are_filled_in_end_before_they_begin(scribe: Scribe) -> None:
    """One stays so, one is filled in again."""
    scribe.run(1, 2)
    scribe.filled = {-1, -2, -3}
    scribe.fill(-3, 2.1)
    scribe.decide(-2, "skipped", "expired:backfill", decided_at=START + int(2.2 * STEP_MS))
    was = scribe.decide(-1, "skipped", "cancelled:backfill", decided_at=START + int(2.2 * STEP_MS))
    scribe.fill(-1, 2.5, was)


@good
def a_time_runs_later_by_the_clock_of_another_zone(scribe: Scribe) -> None:
    caught_up(scribe)
    berlin = Timing(cron="*/10 * * * * *", zone="Europe/Berlin")
    scribe.edit(LATE + 0.1, timing=berlin)
    at = START + 50 * STEP_MS
    stretch = scribe.entries[10]
    scribe.entries[10] = msgspec.structs.replace(stretch, until_at=at - STEP_MS, times=39)
    former = Former(stretch.outcome, stretch.reason, stretch.decided_at, stretch.version)
    given = {"decided_at": START + int((LATE + 0.5) * STEP_MS), "version": 2, "local_ms": local_ms(berlin, at)}
    scribe.decide(50, "run", "backfill", was=former, **given)
    rest = {"until_at": stretch.until_at, "times": 349, "task_id": None, "decided_at": stretch.decided_at}
    scribe.decide(51, "missed", "catch_up:latest", **rest)


@good
def one_at_its_end_by_a_fire_that_never_began_goes_on_from_an_edit(scribe: Scribe) -> None:
    _ended_unbegun(scribe)
    scribe.edit(10.5, overlap="allow")
    scribe.decide(11, version=2)


def _ended_unbegun(scribe: Scribe) -> None:
    scribe.editions[0] = msgspec.structs.replace(scribe.editions[0], max_fires=2)
    scribe.run(1)
    scribe.decide(2, "skipped", "expired")
    scribe.fires[-1] = msgspec.structs.replace(scribe.fires[-1], state="expired")


@bad("missing")
def one_at_its_end_that_goes_on_with_times_left_out(scribe: Scribe) -> None:
    _ended_unbegun(scribe)
    scribe.run(4)
    scribe.edit(10.5, overlap="allow")
    scribe.decide(11, version=2)


@bad("missing")
def times_left_out_of_one_that_might_go_on(scribe: Scribe) -> None:
    _ended_unbegun(scribe)
    scribe.editions[0] = msgspec.structs.replace(scribe.editions[0], max_fires=9)
    scribe.edit(10.5, overlap="allow")
    scribe.decide(11, version=2)


@bad("wrong_reading")
def a_time_put_in_by_another_clock(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.fill(-1, 2.2, local_ms=START)


@bad("double")
def a_missed_row_turned_into_two(scribe: Scribe) -> None:
    caught_up(scribe)
    was = scribe.entries[10]
    former = Former(was.outcome, was.reason, was.decided_at, was.version)
    scribe.decide(50, "run", "backfill", decided_at=was.decided_at + 1_000, was=former)


@bad("fired_twice")
def a_time_run_by_a_backfill_and_by_catch_up(scribe: Scribe) -> None:
    caught_up(scribe)
    ran = scribe.entries[-1]
    scribe.task(LATE, "succeeded", ran.decided_at + 500, "again")
    scribe.hit("again", ran.decided_at + 510 - START)


@bad("filled_twice")
def a_time_put_into_a_stretch_that_still_counts_it(scribe: Scribe) -> None:
    caught_up(scribe)
    scribe.fill(50, LATE + 0.5)


@bad("filled_wrong")
def a_time_put_in_that_the_rule_does_not_have(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.fill(-1.5, 2.2)


@bad("unexpected")
def a_time_that_expired_before_there_was_a_schedule(scribe: Scribe) -> None:
    """As it was said of what a backfill had let run."""
    scribe.run(1, 2)
    scribe.filled = {-1}
    scribe.decide(-1, "skipped", "expired", decided_at=START + int(2.2 * STEP_MS))


@bad("filled_untold")
def a_time_of_its_course_is_told_for_one_that_was_put_in(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.filled = {2}


@bad("filled_unasked")
def a_time_put_in_that_nobody_asked_for(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.filled = {-1}
    scribe.fill(-1, 2.2)
    scribe.decide(-2, "skipped", "expired:backfill", decided_at=START + int(2.2 * STEP_MS))


@bad("filled_wrong")
def a_time_put_in_that_the_rule_does_not_have_and_that_expired(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.decide(-1.5, "skipped", "expired:backfill", decided_at=START + int(2.2 * STEP_MS))


@bad("ran_again")
def one_that_ran_is_run_by_a_backfill(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.fill(1, 2.2, scribe.entries[0])


@bad("missing")
def a_lost_time_that_a_backfill_has_put_in(scribe: Scribe) -> None:
    scribe.run(1, 3)
    scribe.fill(2, 3.2)


@bad("overlapping")
def a_line_of_which_two_run_at_once(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.lined = True
    for step in (-2, -1):
        entry = scribe.fill(step, 2.2)
        scribe.arrivals.pop()
        scribe.hit(str(entry.task_id), 2 * STEP_MS + 2_500 + 10 * step, took_ms=1_000)


@bad("failure_uncounted")
def a_run_that_gave_up_and_is_not_counted(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], state="dead")


@bad("counts_wrong")
def a_filled_time_still_counted_as_missed(scribe: Scribe) -> None:
    caught_up(scribe)
    scribe.fill(-1, LATE + 0.5)
    scribe.counts = {"run": 11, "missed": 390}
