"""Suite `powercut`: the disk under a working daemon, cut at random moments, holds all that was acknowledged.

Clients and receivers as in `kill`, but nothing is killed: the disk is copied as it was at one instant, mounted,
and opened with the product's own settings. Every tenth copy must also bring a daemon up. Then torn tails of the
write-ahead log. Then the control: the same with `synchronous=NORMAL`, which must lose, else the cut cuts nothing.
"""

import asyncio
import signal
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

from tasktick.store.connect import raw_connection
from tasktick.store.sqlite import WRITER_PRAGMAS
from tests.chaos import cuts, dump, tears
from tests.chaos.disk import CuttableDisk, cuttable_disk, mounted
from tests.chaos.history import HistoryWriter, Record, Run, SqlDump, now_ms
from tests.chaos.load import Door, Load
from tests.chaos.process import LEASE_MARGIN_MS, START_DELAY_MS, SWEEP_EVERY_MS, Daemons
from tests.chaos.receiver import Receiver
from tests.chaos.story import Story
from tests.chaos.verdict import Verdict, Violation

CUTS_A_DISK = 25
BOOT_EVERY = 10
CONTROL_CUTS_MAX = 5
TAILS_MIN = 5
BETWEEN_S = (0.03, 0.4)
NOTHING = SqlDump(0, [], [], [], {}, [])
LOST = frozenset({"lost", "claim_lost", "cancel_undone"})


class PowercutRun:
    """One run of the suite, or of its control."""

    def __init__(self, count: int, seed: int, folder: Path, plant: str | None = None) -> None:
        self._count = count
        self._seed = seed
        self._random = Random(f"powercut.{seed}.{plant}")
        self._folder = folder
        self._plant = plant
        self.violations: list[Violation] = []
        self.counters: Counter[str] = Counter()

    async def run(self) -> Verdict:
        """Cut, disk after disk; then tear and control, unless this is the control."""
        left = self._count
        while left > 0:
            here = min(left, CUTS_A_DISK)
            with cuttable_disk() as disk:
                await self._one_disk(disk, here)
            left -= here
        void = [] if self.counters["acknowledged"] else ["nothing was ever acknowledged before a cut"]
        if self._plant is None:
            await self._tear(max(TAILS_MIN, self._count // 10))
            void += await self._control()
        return Verdict(self.violations, self.counters, void)

    async def _one_disk(self, disk: CuttableDisk, number: int) -> None:
        self.counters["disks"] += 1
        name = f"{'control' if self._plant else 'disk'}-{self.counters['disks']}"
        history = HistoryWriter(self._folder / f"{name}.jsonl")
        history.add(Run("powercut", self._seed, number, START_DELAY_MS, LEASE_MARGIN_MS, SWEEP_EVERY_MS))
        daemons = Daemons(disk.mount / "data", history, self._folder / f"{name}.log", self._plant)
        process = await daemons.start()
        try:
            assert await process.ready(), f"it is not ready: see {self._folder / name}.log"
            async with Receiver(history) as receiver, daemons.session() as session:
                load = Load([Door(session)], receiver, history, self._seed * 1_000 + self.counters["disks"])
                load.up.set()
                load.start()
                try:
                    for _ in range(number):
                        assert not await process.gone(self._random.uniform(*BETWEEN_S)), "it ended by itself"
                        await self._cut(disk, history)
                    await load.stop()
                finally:
                    await load.close()
        finally:
            if process.alive:
                await process.strike("kill", signal.SIGKILL)
            daemons.close()
            history.close()

    async def _cut(self, disk: CuttableDisk, history: HistoryWriter) -> None:
        """Cut once, and judge what is left."""
        image = disk.folder / "cut.img"
        instant_ms = now_ms()
        await asyncio.to_thread(disk.cut, image)
        asked = list(history.records)
        self.counters["cuts"] += 1
        boot = self._plant is None and self.counters["cuts"] % BOOT_EVERY == 0
        with mounted(image, disk.folder / "after") as after:
            recovered = await asyncio.to_thread(_recover, after / "data" / "tasktick.db")
            if boot:
                await self._boot(after / "data")
        image.unlink()
        self._judge(cuts.before(asked, instant_ms, recovered))

    def _judge(self, records: list[Record]) -> None:
        found = cuts.judge(records)
        story = Story(records)
        self.violations += found
        self.counters["acknowledged"] += sum(len(ids) for ids in story.acknowledged.values())
        self.counters["hits"] += sum(len(sends) for sends in story.sends.values())
        self.counters["recovered_rows"] += len(story.rows)
        self.counters["lost"] += sum(one.kind in LOST for one in found)
        self.counters["cuts_that_lost"] += any(one.kind in LOST for one in found)

    async def _boot(self, data: Path) -> None:
        """A daemon comes up on what is left; it may send nothing, since its twin is still at work."""
        with tempfile.TemporaryDirectory() as folder:
            history = HistoryWriter(Path(folder) / "history.jsonl")
            daemons = Daemons(data, history, Path(folder) / "daemon.log", may_send=False)
            process = await daemons.start()
            self.counters["boots"] += 1
            if not await process.ready():
                text = (Path(folder) / "daemon.log").read_text()[-2_000:]
                self.violations.append(Violation("no_boot", f"no daemon comes up on the disk: {text}"))
            if process.alive:
                await process.strike("kill", signal.SIGKILL)
            daemons.close()
            history.close()

    async def _tear(self, number: int) -> None:
        while number > 0:
            with tempfile.TemporaryDirectory() as folder:
                torn = await tears.make(Path(folder), self._random)
                for _ in range(min(number, tears.TEARS_A_STORE)):
                    self.violations += tears.tear(torn, Path(folder) / "torn", self._random)
                    self.counters["tails"] += 1
                    number -= 1

    async def _control(self) -> list[str]:
        """The same without the sync must lose; why the run shows nothing, if it does not."""
        control = PowercutRun(min(self._count, CONTROL_CUTS_MAX), self._seed, self._folder, "synchronous_normal")
        await control.run()
        self.counters["control_cuts"] = control.counters["cuts"]
        self.counters["control_cuts_that_lost"] = control.counters["cuts_that_lost"]
        self.counters["control_lost"] = control.counters["lost"]
        return [] if control.counters["lost"] else ["synchronous=NORMAL lost nothing: the cut cuts nothing"]


def _recover(file: Path) -> SqlDump:
    """Open the store as the product does, and read it whole; there may be no file, or nothing in it."""
    if not file.exists():
        return NOTHING
    with closing(raw_connection(file, WRITER_PRAGMAS)) as connection:
        is_made = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'dead_letters'").fetchone()
        return dump.by_sql(connection) if is_made else NOTHING
