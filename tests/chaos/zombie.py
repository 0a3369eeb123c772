"""Suite `zombie`: nodes held (SIGSTOP) for half to four times the TTL, and let go on. Half of them hold themselves
between the claim and the look at the clock, or between that look and the first byte."""

import asyncio

from tests.chaos.ring_run import Plan, Stage

TTLS = (0.5, 4.0)
HOLDING_LABELS = {"after_claim_before_send": 6, "after_look_before_byte": 8, "before_end_commit": 6}
HOLDS_ITSELF_WITHIN_S = 5.0
UP_S = (0.5, 2.0)
# So that something is under way whenever a node is held, and its answer comes while it is.
BEHAVIOURS = {"ok": 30, "slow": 30, "lazy": 30, "flaky": 10, "broken": 4, "reject": 4, "cut": 4, "drop": 4, "hang": 8}


async def break_time(stage: Stage, count: int) -> None:
    """Hold after hold; two of them may overlap."""
    for number in range(count):
        await asyncio.sleep(stage.random.uniform(*UP_S))
        for_s = stage.random.uniform(*TTLS) * stage.ttl_s
        if number % 2:
            await _hold_armed(stage, for_s)
        else:
            await _hold_at_random(stage, for_s)


async def _hold_at_random(stage: Stage, for_s: float) -> None:
    names = [member.name for member in stage.ring.up]
    chosen = stage.random.sample(names, 2 if stage.random.random() < 0.25 else 1)
    await asyncio.gather(*(stage.ring.hold(name, for_s) for name in chosen))


async def _hold_armed(stage: Stage, for_s: float) -> None:
    ring = stage.ring
    name = stage.random.choice([member.name for member in ring.up])
    label = stage.random.choice(list(HOLDING_LABELS))
    await ring.stop(name)
    process = await ring.start(name, label, stage.random.randint(1, HOLDING_LABELS[label]), hold=True)
    await ring.ready(name)
    if await process.holds_itself(HOLDS_ITSELF_WITHIN_S):
        await ring.hold(name, for_s, label)
    if process.ready_at is None:
        assert await ring.ready(name), f"{name} did not become ready after it was held"


ZOMBIE = Plan(
    "zombie",
    break_time,
    demanded=("fault_stop", "acknowledged", "stale_rejected", "stolen_after_expiry", "attempt_lease_lost"),
    demanded_long=(
        *(f"at_{label}" for label in HOLDING_LABELS),
        "ended_after_move",
        "unclaimed",
        "duplicates",
    ),
    behaviours=BEHAVIOURS,
)
