"""The table of states: whole, and nothing but it."""

import pytest

from tasktick.errors import IllegalTransition
from tasktick.model.state import BIRTHS, DONE, STORED, TERMINAL, TRANSITIONS, Event, State, after, stored_before

# As the design draws it, by hand.
ARROWS = """
blocked > scheduled skipped cancelled expired
scheduled > running paused cancelled expired scheduled blocked skipped missed
ready > running paused cancelled expired scheduled
running > succeeded awaiting retrying dead scheduled cancelled
awaiting > succeeded retrying dead cancelled
retrying > running paused cancelled expired scheduled
paused > scheduled cancelled
succeeded > scheduled
dead > scheduled
cancelled > scheduled
expired > scheduled
skipped > scheduled
missed > scheduled
"""


def test_the_table_is_the_one_that_was_drawn() -> None:
    drawn = {
        (source, target)
        for line in ARROWS.split("\n")
        if line
        for source, _, targets in [line.partition(" > ")]
        for target in targets.split()
    }
    held = {
        (source.word, target.word)
        for event, (sources, target) in TRANSITIONS.items()
        if event is not Event.CHANGE
        for source in sources
    }
    assert held == drawn


@pytest.mark.parametrize("state", State, ids=lambda state: state.word)
@pytest.mark.parametrize("event", Event, ids=lambda event: event.value)
def test_every_event_in_every_state(event: Event, state: State) -> None:
    sources, result = TRANSITIONS[event]
    if state not in sources:
        with pytest.raises(IllegalTransition, match=f"A task that is {state.word} cannot"):
            after(event, state)
    elif event is Event.CHANGE:
        assert after(event, state) is (State.SCHEDULED if state is State.READY else state)
    else:
        assert after(event, state) is result


@pytest.mark.parametrize(
    ("event", "state", "said"),
    [
        (
            Event.CANCEL,
            State.SUCCEEDED,
            "A task that is succeeded cannot be cancelled. "
            "Only one that is blocked, paused, ready, retrying, running or scheduled can.",
        ),
        (Event.RESUME, State.DEAD, "A task that is dead cannot be resumed. Only one that is paused can."),
        (Event.UNBLOCK, State.DEAD, "A task that is dead cannot be released. Only one that is blocked can."),
    ],
)
def test_a_refusal_is_a_sentence_that_says_when_it_can_be_done(event: Event, state: State, said: str) -> None:
    with pytest.raises(IllegalTransition) as refused:
        after(event, state)
    assert str(refused.value) == said


def test_every_event_has_its_line_and_every_state_its_way_in_and_out() -> None:
    assert set(TRANSITIONS) == set(Event) == set(DONE)
    reached = BIRTHS | {result for _, result in TRANSITIONS.values()} | {State.READY}
    assert reached == set(State)
    left = {state for sources, _ in TRANSITIONS.values() for state in sources}
    assert left == set(State)


def test_only_a_new_series_leads_out_of_the_end() -> None:
    out = {event for event, (sources, _) in TRANSITIONS.items() if sources & TERMINAL}
    assert out == {Event.REOPEN}


def test_the_numbers_on_disk_never_change() -> None:
    assert {state.word: int(state) for state in State} == {
        "blocked": 1,
        "scheduled": 2,
        "ready": 3,
        "running": 4,
        "retrying": 5,
        "paused": 6,
        "awaiting": 7,
        "succeeded": 10,
        "dead": 11,
        "cancelled": 12,
        "expired": 13,
        "skipped": 14,
        "missed": 15,
    }
    assert all((state >= State.SUCCEEDED) == (state in TERMINAL) for state in State)


def test_ready_is_never_stored() -> None:
    assert State.READY not in STORED
    assert stored_before(Event.CLAIM) == (2, 5)
