"""The states of a task, and the one table of what may follow what.

`ready` is where the owner's memory has a due task; the store keeps it as `scheduled` or `retrying`.
The numbers are on disk: never change one, never use one again.
"""

from enum import IntEnum, StrEnum

from tasktick.errors import IllegalTransition


class State(IntEnum):
    """Where a task is in its life."""

    BLOCKED = 1
    SCHEDULED = 2
    READY = 3
    RUNNING = 4
    RETRYING = 5
    PAUSED = 6
    AWAITING = 7
    SUCCEEDED = 10
    DEAD = 11
    CANCELLED = 12
    EXPIRED = 13
    SKIPPED = 14
    MISSED = 15

    @property
    def word(self) -> str:
        """The state as the API says it."""
        return self.name.lower()


class Event(StrEnum):
    """What may happen to a task."""

    UNBLOCK = "unblock"
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY_LATER = "retry_later"
    DIE = "die"
    RELEASE = "release"
    AWAIT = "await"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    CANCEL_RUNNING = "cancel_running"
    EXPIRE = "expire"
    SKIP = "skip"
    MISS = "miss"
    BUFFER = "buffer"
    CHANGE = "change"
    RUN_NOW = "run_now"
    REOPEN = "reopen"


S = State
WAITING = frozenset({S.SCHEDULED, S.READY, S.RETRYING})
UNSTARTED = WAITING | {S.PAUSED, S.BLOCKED}
TERMINAL = frozenset({S.SUCCEEDED, S.DEAD, S.CANCELLED, S.EXPIRED, S.SKIPPED, S.MISSED})
STORED = frozenset(S) - {S.READY}
BIRTHS = frozenset({S.BLOCKED, S.SCHEDULED, S.PAUSED, S.SKIPPED, S.MISSED})

TRANSITIONS: dict[Event, tuple[frozenset[State], State]] = {
    Event.UNBLOCK: (frozenset({S.BLOCKED}), S.SCHEDULED),
    Event.CLAIM: (WAITING, S.RUNNING),
    Event.SUCCEED: (frozenset({S.RUNNING, S.AWAITING}), S.SUCCEEDED),
    Event.RETRY_LATER: (frozenset({S.RUNNING, S.AWAITING}), S.RETRYING),
    Event.DIE: (frozenset({S.RUNNING, S.AWAITING}), S.DEAD),
    Event.RELEASE: (frozenset({S.RUNNING}), S.SCHEDULED),
    Event.AWAIT: (frozenset({S.RUNNING}), S.AWAITING),
    Event.PAUSE: (WAITING, S.PAUSED),
    Event.RESUME: (frozenset({S.PAUSED}), S.SCHEDULED),
    Event.CANCEL: (UNSTARTED | {S.AWAITING}, S.CANCELLED),
    Event.CANCEL_RUNNING: (frozenset({S.RUNNING}), S.CANCELLED),
    Event.EXPIRE: (WAITING | {S.BLOCKED}, S.EXPIRED),
    Event.SKIP: (frozenset({S.BLOCKED, S.SCHEDULED}), S.SKIPPED),
    Event.MISS: (frozenset({S.SCHEDULED}), S.MISSED),
    Event.BUFFER: (frozenset({S.SCHEDULED}), S.BLOCKED),
    Event.CHANGE: (WAITING | {S.PAUSED, S.BLOCKED}, S.SCHEDULED),
    Event.RUN_NOW: (WAITING | {S.PAUSED}, S.SCHEDULED),
    Event.REOPEN: (TERMINAL, S.SCHEDULED),
}

# What this version brings no task into: they stand in the table for what is to come, and are advised to nobody.
NOT_YET = frozenset({S.AWAITING})
DONE: dict[Event, str] = {
    Event.UNBLOCK: "be released",
    Event.CLAIM: "be started",
    Event.SUCCEED: "succeed",
    Event.RETRY_LATER: "be tried again",
    Event.DIE: "give up",
    Event.RELEASE: "be put back",
    Event.AWAIT: "wait for its completion",
    Event.PAUSE: "be paused",
    Event.RESUME: "be resumed",
    Event.CANCEL: "be cancelled",
    Event.CANCEL_RUNNING: "be stopped",
    Event.EXPIRE: "expire",
    Event.SKIP: "be skipped",
    Event.MISS: "be missed",
    Event.BUFFER: "wait for another",
    Event.CHANGE: "be changed",
    Event.RUN_NOW: "be run now",
    Event.REOPEN: "be started anew",
}


def after(event: Event, state: State) -> State:
    """The state that follows, or `IllegalTransition`. A change leaves a task in the state it was in."""
    before, result = TRANSITIONS[event]
    if state not in before:
        # A running one is asked to stop, which is an event of its own.
        possible = before | {S.RUNNING} if event is Event.CANCEL else before
        raise IllegalTransition(f"A task that is {state.word} cannot {DONE[event]}.{advice(possible)}")
    if event is Event.CHANGE:
        return S.SCHEDULED if state is S.READY else state
    return result


def advice(states: frozenset[State]) -> str:
    """In which states something would be possible, of those that a task can come into."""
    words = sorted(one.word for one in states - NOT_YET)
    if not words:
        return ""
    return f" Only one that is {' or '.join(filter(None, [', '.join(words[:-1]), words[-1]]))} can."


def stored_before(event: Event) -> tuple[int, ...]:
    """The states, as the store has them, in which this may happen."""
    return tuple(sorted(int(state) for state in TRANSITIONS[event][0] if state in STORED))


def diagram() -> str:
    """The table as a Mermaid state diagram; the documentation holds this text and a test compares them."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.word}" for state in sorted(BIRTHS)]
    for event, (before, result) in TRANSITIONS.items():
        if event is Event.CHANGE:
            continue
        lines += [f"    {state.word} --> {result.word}: {event.value}" for state in sorted(before)]
    return "\n".join([*lines, ""])
