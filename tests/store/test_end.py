"""The end of an attempt needs its own fence and claim, from whoever shows them; everything else is stale."""

import msgspec
import pytest

from tasktick.model.attempt import POISON_PUSH
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.store import claims, leases
from tests.store.world import HOUR_MS, World


async def test_a_success_ends_the_task(world: World) -> None:
    claimed = await world.claimed()
    world.now += 40
    assert await world.finish(claimed) is State.SUCCEEDED
    row = await world.state(claimed.id)
    assert (row.state, row.completed_at, row.lease_until, row.sla_met) == (State.SUCCEEDED, world.now, None, True)
    (attempt,) = await world.attempts(claimed.id)
    assert (attempt.attempt, attempt.state, attempt.status, attempt.fence) == (1, "succeeded", 200, claimed.fence)


async def test_successes_of_one_batch_each_keep_what_was_answered(world: World) -> None:
    """Of another claim, at another time, and whatever is in an answer that could end a text or be read as nothing."""
    first = await world.claimed()
    began_at = world.now
    assert await world.finish(first, 503) is State.RETRYING
    world.now += HOUR_MS
    said: list[tuple[dict[str, str], bytes]] = [
        ({"x-one": '{"NULL", \\ }'}, b'{"NULL", \\ \'}'),
        ({}, b""),
        ({}, b"NULL"),
        ({"x-one": "a,b"}, b"\xff\xfe"),
        ({}, "ü, \n\t{}".encode()),
        ({}, b""),
    ]
    (again,) = await world.claim(first.id)
    await world.payload(again)
    claimed = [again, *[await world.claimed() for _ in said[1:]]]
    answers = []
    for one, (headers, body) in zip(claimed, said, strict=True):
        world.now += 1
        fields = {"headers": tuple(headers.items()), "body": body, "truncated": body == b"NULL"}
        answers.append(await world.answered(one, 200 if body else 204, **fields))
    ended = await world.end(*answers)

    assert [one.state for one in ended] == [State.SUCCEEDED] * len(said)
    for one, end in zip(claimed, answers, strict=True):
        *_, kept = await world.attempts(one.id)
        written = end.attempt
        assert written is not None
        assert (kept.status, kept.response_headers, kept.response_body, kept.response_encoding, kept.truncated) == (
            *(written.status, written.response_headers, written.response_body, written.response_encoding),
            written.truncated,
        )
        assert (kept.fence, kept.started_at, kept.completed_at) == (one.fence, written.started_at, end.now)
        row = await world.state(one.id)
        assert (row.completed_at, row.started_at) == (end.now, began_at if one is again else written.started_at)
    assert {end.attempt.response_encoding for end in answers if end.attempt} >= {"text", "base64"}


async def test_a_failure_is_tried_again_by_its_policy(world: World) -> None:
    claimed = await world.claimed()
    assert await world.finish(claimed, 500) is State.RETRYING
    row = await world.state(claimed.id)
    assert (row.due_at, row.wake_at, row.attempt) == (world.now + 10_000, world.now + 10_000, 1)
    assert await world.claim(claimed.id) == []
    world.now = row.due_at
    (again,) = await world.claim(claimed.id)
    assert (again.attempt, again.claimed_from) == (2, State.RETRYING)


@pytest.mark.parametrize("fields", [{"fence": 1}, {"claim_id": 999_999}], ids=["fence", "claim"])
async def test_a_stale_end_changes_nothing(world: World, fields: dict[str, int]) -> None:
    claimed = await world.claimed()
    before = await world.state(claimed.id)
    assert await world.finish(msgspec.structs.replace(claimed, **fields)) is None
    assert await world.state(claimed.id) == before
    assert await world.attempts(claimed.id) == []
    assert await world.finish(claimed) is State.SUCCEEDED


async def test_an_attempt_ends_once(world: World) -> None:
    claimed = await world.claimed()
    assert await world.finish(claimed) is State.SUCCEEDED
    assert await world.finish(claimed, 500) is None
    assert (await world.state(claimed.id)).state is State.SUCCEEDED
    assert len(await world.attempts(claimed.id)) == 1


async def test_an_attempt_that_ends_twice_in_one_batch_ends_once(world: World) -> None:
    claimed = await world.claimed()
    ended = await world.end(await world.answered(claimed), await world.answered(claimed, 500))
    # The plain success is a batch of its own: first where one writes, and either where several do.
    possible = [[State.SUCCEEDED, None], [None, State.RETRYING]]
    assert [one.state for one in ended] in possible[: 2 if world.database.shared else 1]
    assert len(await world.attempts(claimed.id)) == 1


@pytest.mark.parametrize("stale_first", [True, False])
async def test_a_stale_end_does_not_take_the_live_one_with_it(world: World, stale_first: bool) -> None:
    old = await world.claimed()
    world.now = old.lease_until
    assert await world.rescue(old) is State.RETRYING
    (live,) = await world.claim(old.id)
    ends = [await world.answered(old, 500), await world.answered(live)]
    results = await world.end(*(ends if stale_first else reversed(ends)))
    assert [one.state for one in results] == ([None, State.SUCCEEDED] if stale_first else [State.SUCCEEDED, None])


async def test_a_rescue_that_is_too_early_does_not_take_the_answer_with_it(world: World) -> None:
    claimed = await world.claimed()
    early, answer = await world.end(await world.interrupted(claimed), await world.answered(claimed))
    assert (early.state, answer.state) == (None, State.SUCCEEDED)


async def test_a_rescue_waits_for_the_lease(world: World) -> None:
    claimed = await world.claimed()
    world.now = claimed.lease_until - 1
    assert await world.rescue(claimed) is None
    world.now += 1
    assert await world.rescue(claimed) is State.RETRYING
    row = await world.state(claimed.id)
    assert (row.due_at, row.interruptions, row.uncounted) == (world.now, 1, 1)
    assert row.fence == max(claimed.fence + 1, world.now)


async def test_proof_of_death_needs_no_lease_to_pass(world: World) -> None:
    claimed = await world.claimed()
    await world.start("incarnation-2")
    assert await world.rescue(claimed) is State.RETRYING


async def test_an_end_needs_no_lease_on_the_partition(world: World) -> None:
    claimed = await world.claimed()
    await world.start("incarnation-2")
    assert await world.finish(claimed) is State.SUCCEEDED


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("rescue_first", [True, False])
async def test_rescue_and_completion_exclude_each_other(world: World, rescue_first: bool, together: bool) -> None:
    claimed = await world.claimed()
    world.now = claimed.lease_until
    ends = [await world.answered(claimed), await world.interrupted(claimed)]
    if rescue_first:
        ends.reverse()
    results = await world.end(*ends) if together else [*await world.end(ends[0]), *await world.end(ends[1])]
    first, second = (State.RETRYING, State.SUCCEEDED) if rescue_first else (State.SUCCEEDED, State.RETRYING)
    # Written together, the plain success is a batch of its own: first where one writes, and either where several do.
    won = {first} if not together else {first, second} if world.database.shared else {State.SUCCEEDED}
    assert sorted(one.state is None for one in results) == [False, True]
    assert {one.state for one in results} - {None} <= won
    assert len(await world.attempts(claimed.id)) == 1


async def test_a_success_outlives_a_request_to_cancel(world: World) -> None:
    claimed = await world.claimed()
    row = await world.act("cancel", claimed.id)
    assert (row.state, row.cancel_requested) == (State.RUNNING, True)
    assert await world.finish(claimed) is State.SUCCEEDED


@pytest.mark.parametrize("how", ["failed", "dead", "rescued", "given back", "released"])
async def test_without_a_success_a_request_to_cancel_is_the_end(world: World, how: str) -> None:
    claimed = await world.claimed()
    await world.act("cancel", claimed.id)
    world.now = claimed.lease_until
    match how:
        case "failed":
            state = await world.finish(claimed, 500)
        case "dead":
            state = await world.finish(claimed, 404)
        case "rescued":
            state = await world.rescue(claimed)
        case _:
            state = await world.give_back(claimed, sent=how == "released")
    assert state is State.CANCELLED
    row = await world.state(claimed.id)
    assert (row.reason, row.completed_at, row.cancel_requested) == ("cancelled", world.now, False)
    assert await world.dead_letters() == []


@pytest.mark.parametrize("retrying", [True, False])
async def test_an_unclaim_restores_what_was(world: World, retrying: bool) -> None:
    claimed = await world.claimed()
    if retrying:
        await world.finish(claimed, 500)
        world.now = (await world.state(claimed.id)).due_at
    else:
        await world.give_back(claimed, sent=False)
    before = await world.state(claimed.id)
    (claimed,) = await world.claim(claimed.id)
    state = await world.give_back(claimed, sent=False)
    assert state is (State.RETRYING if retrying else State.SCHEDULED)
    row = await world.state(claimed.id)
    changed = {"version", "updated_at", "fence", "claim_id", "claimed_from", "picked_at"}
    assert {name for name in row.__struct_fields__ if getattr(row, name) != getattr(before, name)} <= changed
    assert len(await world.attempts(claimed.id)) == int(retrying)


async def test_what_we_cut_ourselves_counts_for_nothing(world: World) -> None:
    claimed = await world.claimed()
    assert await world.give_back(claimed, sent=True) is State.SCHEDULED
    row = await world.state(claimed.id)
    assert (row.attempt, row.uncounted, row.interruptions) == (1, 1, 0)
    (attempt,) = await world.attempts(claimed.id)
    assert attempt.state == "released"


@pytest.mark.parametrize("end", ["rescue", "cut", "reset"])
async def test_what_must_not_be_doubled_is_dead_when_nobody_knows(world: World, end: str) -> None:
    claimed = await world.claimed(at_most_once=True)
    world.now = claimed.lease_until
    if end == "rescue":
        state = await world.rescue(claimed)
    elif end == "cut":
        state = await world.give_back(claimed, sent=True)
    else:
        state = await world.finish(claimed, None)
    assert state is State.DEAD
    assert (await world.state(claimed.id)).reason == "outcome_unknown"
    (letter,) = await world.dead_letters()
    assert (letter.reason, letter.task_id) == ("outcome_unknown", claimed.id)


async def test_what_must_not_be_doubled_is_tried_again_if_nothing_left_or_an_answer_came(world: World) -> None:
    claimed = await world.claimed(at_most_once=True)
    assert (await world.end(await world.answered(claimed, None, byte_left=False)))[0].state is State.RETRYING
    world.now += HOUR_MS
    (claimed,) = await world.claim(claimed.id)
    assert await world.finish(claimed, 503) is State.RETRYING


async def test_ten_interruptions_in_a_row_are_poison(world: World) -> None:
    task_id = await world.create(retry=RetryPolicy(max_attempts=2, jitter=0.0))
    for nth in range(1, POISON_PUSH + 1):
        world.now += HOUR_MS
        (claimed,) = await world.claim(task_id)
        world.now = claimed.lease_until
        state = await world.rescue(claimed)
        assert state is (State.DEAD if nth == POISON_PUSH else State.RETRYING)
    row = await world.state(task_id)
    assert (row.reason, row.interruptions, row.attempt, row.uncounted) == ("poison", 10, 10, 10)


async def test_an_answer_resets_the_interruptions(world: World) -> None:
    task_id = await world.create(retry=RetryPolicy(max_attempts=50, jitter=0.0))
    for _ in range(3):
        for _ in range(POISON_PUSH - 1):
            world.now += HOUR_MS
            (claimed,) = await world.claim(task_id)
            world.now = claimed.lease_until
            assert await world.rescue(claimed) is State.RETRYING
        world.now += HOUR_MS
        (claimed,) = await world.claim(task_id)
        assert await world.finish(claimed, 500) is State.RETRYING
        assert (await world.state(task_id)).interruptions == 0


async def test_an_unanswered_failure_does_not_reset_the_interruptions(world: World) -> None:
    claimed = await world.claimed()
    world.now = claimed.lease_until
    await world.rescue(claimed)
    (claimed,) = await world.claim(claimed.id)
    assert await world.finish(claimed, None) is State.RETRYING
    assert (await world.state(claimed.id)).interruptions == 1


async def test_only_attempts_that_count_use_up_the_limit(world: World) -> None:
    task_id = await world.create(retry=RetryPolicy(max_attempts=3, jitter=0.0))
    ends = ["fail", "interrupt", "release", "unclaim", "fail", "interrupt", "unclaim", "release", "fail"]
    for how in ends:
        world.now += HOUR_MS
        (claimed,) = await world.claim(task_id)
        world.now = claimed.lease_until
        match how:
            case "fail":
                state = await world.finish(claimed, 500)
            case "interrupt":
                state = await world.rescue(claimed)
            case _:
                state = await world.give_back(claimed, sent=how == "release")
    assert state is State.DEAD
    row = await world.state(task_id)
    assert (row.reason, row.attempt, row.uncounted) == ("attempts_exhausted", 7, 4)
    (letter,) = await world.dead_letters()
    assert (letter.attempts, letter.class_, letter.error_code) == (7, "receiver", "http_500")


async def test_a_dead_task_that_is_tried_again_starts_a_new_series(world: World) -> None:
    task_id = await world.create(retry=RetryPolicy(max_attempts=2, jitter=0.0))
    for series in (1, 2, 3):
        for nth in (1, 2):
            world.now += HOUR_MS
            (claimed,) = await world.claim(task_id)
            assert (claimed.series, claimed.attempt) == (series, 2 * (series - 1) + nth)
            assert await world.finish(claimed, 500) is (State.DEAD if nth == 2 else State.RETRYING)
        row = await world.act("retry", task_id)
        assert (row.state, row.series, row.series_base, row.due_at) == (
            State.SCHEDULED,
            series + 1,
            row.attempt,
            world.now,
        )
        assert (row.completed_at, row.reason, row.uncounted) == (None, None, 0)
    assert [one.series for one in await world.attempts(task_id)] == [1, 1, 2, 2, 3, 3]
    assert len(await world.dead_letters()) == 3


async def test_an_interruption_keeps_what_is_known_of_the_first_start(world: World) -> None:
    claimed = await world.claimed()
    await world.finish(claimed, 500)
    world.now += HOUR_MS
    (claimed,) = await world.claim(claimed.id)
    world.now = claimed.lease_until
    await world.rescue(claimed)
    assert (await world.state(claimed.id)).sla_met is True
    (claimed,) = await world.claim(claimed.id)
    await world.give_back(claimed, sent=True)
    assert (await world.state(claimed.id)).sla_met is True


async def test_attempts_past_their_lease_are_found_but_for_ones_own(world: World) -> None:
    ids = [await world.create() for _ in range(5)]
    claimed = await world.claim(*ids)
    own = [claimed[0].id, claimed[1].id]
    until = claimed[0].lease_until

    async def found(now: int, limit: int) -> list[str]:
        rows = await world.database.read(lambda tx: claims.expired_leases(tx, now, own, limit))
        return [row.id for row in rows]

    assert await found(until - 1, 10) == []
    assert await found(until, 10) == [one.id for one in claimed[2:]]
    assert await found(until, 1) == [claimed[2].id], "what is in hand does not use up the room"
    since = await world.database.read(lambda tx: claims.expired_leases(tx, until, own, 10, since=until - 1))
    assert [row.id for row in since] == [one.id for one in claimed[2:]]
    assert await world.database.read(lambda tx: claims.expired_leases(tx, until, own, 10, since=until)) == []


async def test_attempts_of_the_dead_are_found_whatever_their_lease(world: World) -> None:
    claimed = await world.claimed()

    assert await world.database.read(lambda tx: claims.orphans(tx, 10)) == []
    await world.start("incarnation-2")
    assert [row.id for row in await world.database.read(lambda tx: claims.orphans(tx, 10))] == [claimed.id]
    await world.database.write(lambda tx: leases.forget_nodes(tx, world.now + HOUR_MS))
    assert len(await world.database.read(lambda tx: claims.orphans(tx, 10))) == 1, "it still has an attempt to end"
