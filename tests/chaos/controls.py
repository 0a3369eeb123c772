"""Suite `controls`: bugs planted on purpose. One that is not caught makes every green run worthless."""

from collections import Counter
from pathlib import Path

import msgspec

from tests.chaos.disk import available
from tests.chaos.kill import KillRun
from tests.chaos.powercut import PowercutRun
from tests.chaos.verdict import Verdict, Violation


class Control(msgspec.Struct, frozen=True):
    """A bug, the suite that must catch it, how many faults that takes, and as what it may be caught."""

    plant: str
    suite: str
    count: int
    caught_as: frozenset[str]
    hold_share: float | None = None


CONTROLS = (
    Control("ack_before_commit", "kill", 10, frozenset({"lost", "attempt_unrecorded", "cancel_undone"})),
    Control("rescue_by_id", "kill", 2, frozenset({"overlap", "unexplained_duplicate", "unexplained_interruption"})),
    Control("resend", "kill", 2, frozenset({"sent_twice"})),
    Control("no_look_at_the_clock", "kill", 5, frozenset({"late_byte"}), hold_share=1.0),
    Control("synchronous_normal", "powercut", 3, frozenset({"lost", "claim_lost"})),
)


async def run(seed: int, folder: Path, count: int = 1) -> Verdict:
    """Plant each bug, `count` times its number of faults; a violation for each that was not caught."""
    missed: list[Violation] = []
    counters: Counter[str] = Counter()
    void: list[str] = []
    for control in CONTROLS:
        if control.suite == "powercut" and not available():
            void.append(f"{control.plant}: no disk can be cut on this machine (root and loop devices)")
            continue
        caught = (await _verdict(control, seed, folder, count)).kinds()
        counters.update({f"{control.plant}:{kind}": n for kind, n in caught.items()})
        if not control.caught_as & caught.keys():
            detail = f"{control.plant} was planted and not caught; what was found: {dict(caught)}"
            missed.append(Violation("not_caught", detail))
    return Verdict(missed, counters, void)


async def _verdict(control: Control, seed: int, folder: Path, count: int) -> Verdict:
    where = folder / control.plant
    where.mkdir()
    number = control.count * max(1, count)
    if control.suite == "powercut":
        return await PowercutRun(number, seed, where, control.plant).run()
    return (await KillRun(number, seed, where, control.plant, hold_share=control.hold_share).run()).verdict
