"""Suite `rolling`: three nodes restarted one after the other, again and again, under load and with slow receivers.
Nothing may be lost, nothing sent twice, and nothing claimed more than two seconds late."""

import asyncio

from tests.chaos.ring import roll
from tests.chaos.ring_run import Plan, Stage

DELAY_MAX_MS = 2_000
CALM_S = 1.0


async def break_nothing(stage: Stage, count: int) -> None:
    """Round after round."""
    for _ in range(count):
        await roll(stage)
        await asyncio.sleep(CALM_S)


ROLLING = Plan(
    "rolling",
    break_nothing,
    demanded=("fault_term", "acknowledged", "handed_over", "hits", "ended_after_move"),
    behaviours={"ok": 40, "slow": 30, "lazy": 30},
    settings={"TASKTICK_DISPATCH__GRACE_MAX_MS": "5000"},
    delay_max_ms=DELAY_MAX_MS,
)
