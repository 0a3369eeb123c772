"""Histories of lines, replacements and failures made by hand: good ones, and a bad one for each kind of violation."""

import msgspec

from tests.unit.chaos.ledger_histories import bad, changed, good
from tests.unit.chaos.ledgers import START, STEP_MS, Scribe


def _shares(scribe: Scribe, overlap: str, key: str = "k") -> Scribe:
    """Two schedules of one line."""
    scribe.editions = [msgspec.structs.replace(one, overlap=overlap, overlap_key=key) for one in scribe.editions]
    return scribe.beside(overlap=overlap, overlap_key="k")


def _replaced(scribe: Scribe, successor: str) -> None:
    """The second time took the place of the first, which was at work for three steps."""
    scribe.editions[0] = msgspec.structs.replace(scribe.editions[0], overlap="cancel_other")
    scribe.decide(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], completed_at=START + int(3.5 * STEP_MS))
    scribe.arrivals[0] = msgspec.structs.replace(scribe.arrivals[0], until=START + int(3.5 * STEP_MS))
    scribe.decide(2, "skipped", f"cancel_other:tsk_{successor}", task_id="t2")
    scribe.fires[1] = msgspec.structs.replace(
        scribe.fires[1], state="cancelled", completed_at=START + 3 * STEP_MS, picked_at=None
    )
    scribe.decide(3, "run", "buffered", task_id="t3")
    scribe.arrivals[-1] = msgspec.structs.replace(
        scribe.arrivals[-1], true=START + int(3.6 * STEP_MS), until=START + int(3.7 * STEP_MS)
    )
    scribe.now = 4.0
    scribe.decide(4)


def _line(scribe: Scribe, most: int) -> None:
    """One is at work for four steps, two wait, and the next finds the line full."""
    scribe.editions[0] = msgspec.structs.replace(scribe.editions[0], overlap="buffer_all", max_runs=most)
    for step in (1, 2, 3):
        scribe.decide(step, "run", None if step == 1 else "buffered")
        at = START + int((3.5 + step) * STEP_MS)
        scribe.fires[-1] = msgspec.structs.replace(scribe.fires[-1], completed_at=at)
        begun = START + 1 * STEP_MS + 10 if step == 1 else at - STEP_MS
        scribe.arrivals[-1] = msgspec.structs.replace(scribe.arrivals[-1], true=begun, until=at)
    scribe.decide(4, "skipped", "buffer_full")


@good
def one_takes_the_place_of_another(scribe: Scribe) -> None:
    _replaced(scribe, "t3")


@good
def a_line_is_full(scribe: Scribe) -> None:
    _line(scribe, 2)


@good
def one_of_two_that_share_a_key_runs(scribe: Scribe) -> None:
    other = _shares(scribe, "skip")
    scribe.decide(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], completed_at=START + STEP_MS + 500)
    other.decide(1, "skipped", "overlap", task_id="o1")


@good
def what_was_let_run_and_expired_was_skipped(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.decide(2, "skipped", "expired")
    scribe.fires[1] = msgspec.structs.replace(scribe.fires[1], state="expired", picked_at=None)
    scribe.run(3)


@good
def failures_have_paused_it(scribe: Scribe) -> None:
    scribe.editions[0] = msgspec.structs.replace(scribe.editions[0], pause_on_failures=1)
    scribe.run(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], state="dead")
    changed(scribe, 0, failed=True)
    scribe.failures = 1, True


@bad("overlapping")
def two_that_share_a_key_run_at_once(scribe: Scribe) -> None:
    other = _shares(scribe, "skip")
    scribe.decide(1)
    scribe.arrivals[0] = msgspec.structs.replace(scribe.arrivals[0], until=START + STEP_MS + 5_000)
    other.decide(1, task_id="o1")
    other.arrivals[0] = msgspec.structs.replace(other.arrivals[0], true=START + STEP_MS + 1_000)


@bad("overlap_unjustified")
def held_up_by_one_that_does_not_share_its_key(scribe: Scribe) -> None:
    other = _shares(scribe, "skip", key="another")
    scribe.decide(1)
    scribe.fires[0] = msgspec.structs.replace(scribe.fires[0], completed_at=START + STEP_MS + 500)
    other.decide(1, "skipped", "overlap", task_id="o1")


@bad("out_of_order")
def a_line_that_does_not_go_in_its_order(scribe: Scribe) -> None:
    _line(scribe, 2)
    first, second = scribe.arrivals[1], scribe.arrivals[2]
    scribe.arrivals[1] = msgspec.structs.replace(first, task_id=second.task_id)
    scribe.arrivals[2] = msgspec.structs.replace(second, task_id=first.task_id)


@bad("full_unjustified")
def a_line_that_has_room(scribe: Scribe) -> None:
    _line(scribe, 3)


@bad("replaced_by_nobody")
def one_that_was_replaced_by_a_fire_of_nobody(scribe: Scribe) -> None:
    _replaced(scribe, "elsewhere")


@bad("failures_wrong")
def more_failures_in_a_row_than_there_are(scribe: Scribe) -> None:
    scribe.run(1)
    scribe.failures = 1, False


@bad("pause_left_out")
def failures_that_paused_nothing(scribe: Scribe) -> None:
    failures_have_paused_it(scribe)
    scribe.failures = 1, False
