"""What clients say of overlap and of failures, and what they are shown of them."""

import pytest

from tasktick.model import change as change_of
from tasktick.model.state import State
from tests.api.calendar import ALL, MINUTE_MS, act, change, fire, ledger, made, outcomes, pass_ms, read
from tests.api.served import Served


@pytest.mark.parametrize("overlap", ["skip", "allow", "buffer_one", "buffer_all", "cancel_other"])
async def test_every_mode_is_taken_and_shown(served: Served, overlap: str) -> None:
    schedule = await made(served, overlap=overlap, overlap_key="k" * 128, pause_on_failures=3)

    shown = await read(served, schedule)
    assert (shown["overlap"], shown["overlap_key"], shown["pause_on_failures"]) == (overlap, "k" * 128, 3)
    assert (shown["consecutive_failures"], shown["pause_reason"]) == (0, None)


async def test_null_takes_them_away(served: Served) -> None:
    schedule = await made(served, overlap="buffer_all", overlap_key="warehouse", pause_on_failures=3)

    after = await change(served, schedule, overlap=None, overlap_key=None, pause_on_failures=None)

    assert (after["overlap"], after["overlap_key"], after["pause_on_failures"]) == ("skip", None, None)


async def test_failures_pause_it_and_a_resume_counts_anew(served: Served) -> None:
    schedule = await made(served, pause_on_failures=2)
    for _ in range(2):
        await fire(served, schedule, 400)

    shown = await read(served, schedule)
    assert (shown["paused"], shown["pause_reason"], shown["note"]) == (True, "failures", "paused after 2 failures")
    assert (shown["consecutive_failures"], shown["next_fire_at"]) == (2, None)

    after = (await act(served, schedule, "resume")).json
    assert (after["paused"], after["pause_reason"], after["consecutive_failures"]) == (False, None, 0)
    assert after["note"] is None, "it would say of one that runs that it is paused"


@pytest.mark.parametrize("status", [400, 410])
async def test_a_note_of_somebody_outlives_a_pause_that_nobody_asked_for(served: Served, status: int) -> None:
    schedule = await made(served, pause_on_failures=1, note="of the billing team")
    await fire(served, schedule, status)

    held = await read(served, schedule)
    assert (held["paused"], held["note"]) == (True, "of the billing team")
    after = await change(served, schedule, paused=False)
    assert (after["paused"], after["note"]) == (False, "of the billing team")


@pytest.mark.parametrize("status", [400, 410])
async def test_its_own_note_goes_with_the_pause_however_that_ends(served: Served, status: int) -> None:
    schedule = await made(served, pause_on_failures=1)
    await fire(served, schedule, status)
    assert "aused" in (await read(served, schedule))["note"]

    after = await change(served, schedule, paused=False)

    assert (after["paused"], after["note"], after["version"]) == (False, None, 3)


async def test_a_trigger_that_gives_up_does_not_count(served: Served) -> None:
    schedule = await made(served, pause_on_failures=1)
    for body in (None, {"target": {"method": "PUT"}}):
        task = (await act(served, schedule, "trigger", body)).json
        (claimed,) = await served.world.claim(task["id"].removeprefix("tsk_"))
        assert await served.world.finish(claimed, 400) is State.DEAD

    shown = await read(served, schedule)
    assert (shown["consecutive_failures"], shown["paused"], shown["counts"]["failed"]) == (0, False, 0)


async def test_a_second_pause_takes_the_place_of_the_first(served: Served) -> None:
    schedule = await made(served)
    first = (served.world.now + 2 * MINUTE_MS) / 1_000
    held = (await act(served, schedule, "pause", {"until": first, "note": "moving"})).json
    later = (await act(served, schedule, "pause", {"until": first + 120})).json

    assert later["paused_until"] > held["paused_until"]
    assert (later["note"], later["pause_reason"]) == ("moving", "requested")
    await pass_ms(served, 3 * MINUTE_MS)
    assert (await read(served, schedule))["paused"]
    await pass_ms(served, 2 * MINUTE_MS)
    assert not (await read(served, schedule))["paused"]
    assert set(await outcomes(served, schedule)) == {"skipped(paused)", "run"}
    for_good = (await act(served, schedule, "pause", {"until": (served.world.now + MINUTE_MS) / 1_000})).json
    assert for_good["paused_until"] is not None
    assert (await act(served, schedule, "pause")).json["paused_until"] is None


async def test_a_pause_that_is_over_already_is_refused(served: Served) -> None:
    schedule = await made(served)
    for until in (served.world.now / 1_000, served.world.now / 1_000 - 1, "2020-01-01T00:00:00Z"):
        answer = await served.ask("POST", f"{ALL}/{schedule['id']}/pause", {"until": until})
        assert (answer.status, answer.pointers) == (422, {"/until"})


async def test_what_did_not_start_in_time_is_expired_in_the_ledger(served: Served) -> None:
    schedule = await made(served, task={"target": {"url": "https://receiver.example/hook"}, "expires_in": "30s"})
    await pass_ms(served, MINUTE_MS)
    ((row),) = await ledger(served, schedule)
    await served.world.write(*(await _late(served, row["task_id"])))

    ((after),) = await ledger(served, schedule)
    assert (after["outcome"], after["reason"], after["state"]) == ("skipped", "expired", "expired")
    counts = (await read(served, schedule))["counts"]
    assert (counts["fired"], counts["skipped"]) == (0, 1)


async def _late(served: Served, task_id: str) -> list[change_of.Change]:
    served.world.now += 30_000
    return [change_of.expire(await served.world.state(task_id.removeprefix("tsk_")), served.world.now)]
