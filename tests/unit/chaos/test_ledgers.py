"""The checker of ledgers, against histories made by hand: one bad one, at least, for each kind of violation."""

import inspect
import re
from pathlib import Path

import msgspec
import pytest

from tests.chaos import ledger, ledger_lines, ledger_policy
from tests.chaos.ledger import judge
from tests.chaos.ledger_story import Absence
from tests.chaos.nominal import Timing
from tests.unit.chaos import bad_lines, filled_ledgers
from tests.unit.chaos.ledger_histories import BAD, GOOD, LATE, Told, bad, caught_up, changed, good
from tests.unit.chaos.ledgers import HOUR_MS, START, STEP_MS, Scribe

KIND = re.compile(r"Violation\(\s*\"([a-z_]+)\"")


@good
def each_ran_in_its_time(scribe: Scribe) -> None:
    scribe.run(1, 2, 3)


@good
def an_outage_is_caught_up_with(scribe: Scribe) -> None:
    caught_up(scribe)


@good
def an_edit_changes_the_rule_from_then_on(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.edit(2.5, timing=Timing(every_ms=2 * STEP_MS))
    scribe.decide(4, version=2)


@good
def a_pause_skips_its_times(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.edit(1.5, paused=True)
    scribe.edit(3.5, paused=False)
    for step in (2, 3):
        scribe.decide(step, "skipped", "paused", version=2, decided_at=START + int(3.5 * STEP_MS))
    scribe.decide(4, version=3)


@good
def one_that_still_runs_is_not_run_over(scribe: Scribe) -> None:
    scribe.decide(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], completed_at=START + int(2.5 * STEP_MS))
    scribe.decide(2, "skipped", "overlap")


@good
def a_clock_set_back_waits_for_the_cursor(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.clock = [(0, 0), (START + 2 * STEP_MS + 5_000, -HOUR_MS)]


@bad("missing")
def a_time_without_a_row(scribe: Scribe) -> None:
    scribe.run(1, 3)


@bad("missing")
def times_lost_at_an_edit(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.edit(4.5, timing=Timing(every_ms=2 * STEP_MS))
    scribe.decide(6, version=2)


@bad("undecided")
def a_schedule_that_nobody_looks_at(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.now = 9


@bad("unexpected")
def a_time_that_the_rule_does_not_have(scribe: Scribe) -> None:
    scribe.run(1, 1.5, 2)


@bad("double")
def a_time_within_a_stretch(scribe: Scribe) -> None:
    caught_up(scribe)
    scribe.decide(200, decided_at=scribe.entries[-1].decided_at)


@bad("went_back")
def an_old_version_that_decides_after_a_new_one(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.edit(1.5, mode="none")
    scribe.decide(2, version=2)
    scribe.decide(3)


@bad("stretch_miscounted")
def a_stretch_that_stands_for_too_few(scribe: Scribe) -> None:
    caught_up(scribe, times=380)


@bad("wrong_reading")
def another_reading_of_the_clock(scribe: Scribe) -> None:
    scribe.run(1, 2)
    changed(scribe, 1, local_ms=START)


@bad("wrong_reading")
def local_times_collapsed_that_are_not(scribe: Scribe) -> None:
    scribe.run(1, 2)
    changed(scribe, 1, collapsed=2)


@bad("task_gone")
def a_row_whose_task_is_nowhere(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.fires.pop()


@bad("task_wrong")
def a_run_whose_task_was_skipped(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.fires[1] = msgspec.structs.replace(scribe.fires[1], state="skipped")


@bad("task_unfinished")
def a_run_that_never_ends(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.fires[1] = msgspec.structs.replace(scribe.fires[1], state="running", completed_at=None)


@bad("fire_without_row")
def a_task_that_no_row_names(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.task(1, "succeeded", START, "stray")


@bad("counts_wrong")
def a_schedule_that_counts_otherwise(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.counts = {"run": 3}


@bad("hit_without_row")
def a_missed_fire_that_was_sent(scribe: Scribe) -> None:
    caught_up(scribe)
    scribe.task(200, "missed", START + LATE * STEP_MS, "t200")
    scribe.hit("t200", LATE * STEP_MS)


@bad("run_without_hit")
def a_success_that_nobody_saw(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.arrivals.pop()


@bad("fired_early")
def a_request_before_its_time(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.hit("t2", 2 * STEP_MS - 500)


@bad("fired_twice")
def a_time_that_a_clock_set_back_brought_again(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.clock = [(0, 0), (START + 2 * STEP_MS + 1_000, -5_000)]
    scribe.task(2, "succeeded", START + 2 * STEP_MS, "again")
    scribe.hit("again", 2 * STEP_MS + 5_010)


@bad("overlapping")
def a_fire_that_begins_in_another(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.arrivals[0] = msgspec.structs.replace(scribe.arrivals[0], until=START + 3 * STEP_MS)


@bad("overlapping")
def a_fire_between_two_attempts_of_another(scribe: Scribe) -> None:
    scribe.run(1, 2)
    scribe.hit("t1", 2 * STEP_MS + 500)


@bad("overlap_unjustified")
def skipped_for_one_that_had_ended(scribe: Scribe) -> None:
    scribe.decide(1)
    scribe.decide(2, "skipped", "overlap")


@bad("wrong_outcome")
def run_in_a_pause(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.edit(1.5, paused=True)
    scribe.decide(2, version=2)


@bad("wrong_outcome")
def dropped_by_another_policy(scribe: Scribe) -> None:
    caught_up(scribe)
    scribe.editions[0] = msgspec.structs.replace(scribe.editions[0], mode="earliest")
    scribe.absences[-1] = msgspec.structs.replace(scribe.absences[-1], sure=False)


@bad("catch_up_ignored")
def an_outage_of_which_all_runs(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.outage(1.5, 20.1)
    for step in range(2, 21):
        scribe.decide(step, decided_at=START + int(20.1 * STEP_MS))


@bad("catch_up_ignored")
def a_run_that_stands_for_too_few(scribe: Scribe) -> None:
    caught_up(scribe, missed=3)


@bad("catch_up_ignored")
def a_step_of_the_clock_of_which_all_runs(scribe: Scribe) -> None:
    scribe.run(1)
    stepped = START + int(1.5 * STEP_MS)
    ahead_ms = 20 * STEP_MS
    scribe.clock = [(0, 0), (stepped, ahead_ms)]
    scribe.absences.append(Absence(stepped, stepped + ahead_ms, stepped))
    for step in range(2, 22):
        scribe.decide(step, decided_at=stepped + ahead_ms + 100)


@bad("missed_unjustified")
def late_though_somebody_was_there(scribe: Scribe) -> None:
    scribe.run(1)
    for step in range(2, 20):
        scribe.decide(step, "missed", "catch_up:latest", decided_at=START + 20 * STEP_MS)
    scribe.decide(20, decided_at=START + 20 * STEP_MS, missed=18)


@bad("claimed_late")
def claimed_before_anybody_had_decided(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.outage(1.5, 20)
    scribe.decide(2, decided_at=START + 21 * STEP_MS)
    scribe.fires[1] = msgspec.structs.replace(scribe.fires[1], picked_at=START + 20 * STEP_MS)


@bad("decided_early")
def let_run_before_its_time(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.decide(2, decided_at=START + STEP_MS)


@bad("unknown_version")
def a_version_that_nobody_made(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.decide(2, version=7)


@pytest.mark.parametrize("told", GOOD, ids=lambda told: str(told.__name__))
def test_nothing_is_found_where_nothing_is_wrong(told: Told) -> None:
    scribe = Scribe()
    told(scribe)
    assert judge(scribe.story()) == []


@pytest.mark.parametrize(("kind", "told"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_it_is_found(kind: str, told: Told) -> None:
    scribe = Scribe()
    told(scribe)
    assert kind in {one.kind for one in judge(scribe.story())}


TOLD_ELSEWHERE = (bad_lines, filled_ledgers)  # their histories are among these


def test_every_kind_that_the_checker_knows_is_shown_here() -> None:
    texts = [Path(inspect.getfile(module)).read_text() for module in (ledger, ledger_lines, ledger_policy)]
    known = {kind for text in texts for kind in KIND.findall(text)}
    known |= {kind for text in texts for kind in re.findall(r"return \"([a-z_]+)\"$", text, re.MULTILINE)}
    known |= {"wrong_outcome"}
    assert known == {kind for kind, _ in BAD}
