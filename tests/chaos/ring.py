"""Suite `ring`: nodes of a ring killed, one, two or all at once, at random and on labelled crash points; restarted in
order one after the other; joined and left by a fourth. Now and then one starts that gossips with nobody."""

import asyncio

from tests.chaos.process import Process
from tests.chaos.ring_run import Plan, Stage

FAULTS = {"kill": 5, "kill_two": 3, "kill_all": 1, "armed": 6, "rolling": 1, "join": 2, "mute": 2}
# Sure to be made once in every run, as far as it is long enough.
FIRST = ("kill", "armed", "mute", "kill_two", "join", "rolling", "kill_all")
FOURTH = "n4"
PASSES_MAX = {
    "before_commit": 60,
    "after_commit_before_ack": 8,
    "after_claim_before_send": 6,
    "after_first_byte": 12,
    "after_answer_before_end": 12,
    "before_end_commit": 6,
    "after_end_commit": 6,
    "before_ledger_commit": 3,
    "after_ledger_commit": 3,
    "before_lease_commit": 2,
    "after_lease_commit": 1,
    "after_renewal": 8,
    "in_commit": 60,
}
ARMED_WITHIN_S = 6.0
UP_S = (0.2, 2.0)
DOWN_S = (0.0, 3.0)
MUTE_S = 2.0
SHARE_OF_GENTLE_LEAVES = 0.5


async def break_ring(stage: Stage, count: int) -> None:
    """Fault after fault; a rolling restart is one."""
    made = 0
    deck: list[str] = []
    while made < count:
        await asyncio.sleep(stage.random.uniform(*UP_S))
        kind = FIRST[made] if made < len(FIRST) else stage.random.choices(list(FAULTS), list(FAULTS.values()))[0]
        match kind:
            case "kill" | "kill_two" | "kill_all":
                await _kill(stage, {"kill": 1, "kill_two": 2, "kill_all": 3}[kind])
            case "armed":
                if not deck:
                    deck = stage.random.sample(list(PASSES_MAX), len(PASSES_MAX))
                label = deck.pop()
                if not await _die_armed(stage, label):
                    deck.insert(0, label)  # it has its turn again, after the others
            case "rolling":
                await roll(stage)
            case "join":
                await _join_and_leave(stage)
            case _:
                await _go_mute(stage)
        made += 1


async def _kill(stage: Stage, number: int) -> None:
    """SIGKILL so many at once; they are back after a while, each after its own."""
    names = stage.random.sample([member.name for member in stage.ring.up], min(number, len(stage.ring.up)))
    await stage.ring.kill(*names)
    await asyncio.gather(*(_back(stage, name, stage.random.uniform(*DOWN_S)) for name in names))


async def _back(stage: Stage, name: str, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await stage.ring.healthy(name)


async def _die_armed(stage: Stage, label: str) -> bool:
    """One dies on a crash point: it is stopped in order, and starts again armed. Whether it came there in time."""
    ring = stage.ring
    name = stage.random.choice([member.name for member in ring.up])
    await ring.stop(name)
    process = await ring.start(name, label, stage.random.randint(1, PASSES_MAX[label]))
    await ring.ready(name)
    struck = await _until_struck(stage, name, process, label)
    await _back(stage, name, stage.random.uniform(*DOWN_S))
    return struck


async def _until_struck(stage: Stage, name: str, process: Process, label: str) -> bool:
    struck = await process.gone(ARMED_WITHIN_S)
    if struck:
        stage.ring.write_off(name, label)
    else:
        await stage.ring.kill(name)
    return struck


async def roll(stage: Stage) -> None:
    """Each is stopped in order and started again, one after the other."""
    for name in [member.name for member in stage.ring.up]:
        await stage.ring.stop(name)
        await stage.ring.healthy(name)


async def _join_and_leave(stage: Stage) -> None:
    """A fourth takes its share, and leaves: in order, or not."""
    await stage.ring.healthy(FOURTH)
    await asyncio.sleep(stage.random.uniform(*UP_S))
    if stage.random.random() < SHARE_OF_GENTLE_LEAVES:
        await stage.ring.stop(FOURTH)
    else:
        await stage.ring.kill(FOURTH)


async def _go_mute(stage: Stage) -> None:
    """One is killed and starts again without gossip: it hints to nobody, and nobody to it; then again with it."""
    ring = stage.ring
    name = stage.random.choice([member.name for member in ring.up])
    await ring.kill(name)
    await ring.healthy(name, gossips=False)
    await asyncio.sleep(MUTE_S)
    await ring.stop(name)
    await ring.healthy(name)


RING = Plan(
    "ring",
    break_ring,
    demanded=("kills", "acknowledged", "create_ok", "cancel_ok", "replayed", "retried", "hits", "rescued"),
    demanded_long=(
        *(f"at_{label}" for label in PASSES_MAX),
        "attempt_released",
        "cancelled_while_running",
        "duplicates",
        "ended_after_move",
        "fault_armed",
        "fault_term",
        "found_without_hint",
        "handed_over",
        "stolen_after_expiry",
        "taken_after_proof",
        "unknown_create_there",
    ),
    # Of a hundred faults some twenty are armed: enough for each of the crash points.
    long=100,
    names=("n1", "n2", "n3", FOURTH),
)
