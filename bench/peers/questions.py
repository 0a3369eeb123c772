"""What each contender is asked, once a round: fires, lateness, creates, memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench import processes
from bench.figures import Better, per_second, percentile
from bench.lateness import late_ms
from bench.peers.contenders import Contender, Site
from bench.peers.load import Load, ahead_ms
from bench.peers.servers import Watch
from bench.receiver import ask_receiver
from bench.tasks import NEXT_YEAR_MS, now_ms

FIRE_JOBS, QUICK_FIRE_JOBS = 20_000, 5_000
FIRE_SECONDS_MAX = 300
STEADY_SECONDS, QUICK_STEADY_SECONDS = 10, 3
# Who does not keep up ends late; how late is the answer.
STEADY_SECONDS_MAX = 120
PENDING_JOBS, QUICK_PENDING_JOBS = 100_000, 10_000
CREATE_SECONDS, QUICK_CREATE_SECONDS = 4.0, 1.0
LEAST_AHEAD_MS = 5_000
# Before the first is due, a worker is to have no more to do than wait, and to read ahead, which counts too.
REST_MS = 2_500
SOON_MS = 50
LOOK_SECONDS, NEAR_LOOK_SECONDS = 0.02, 0.005
SETTLE_SECONDS, SETTLE_SECONDS_MAX = 2.0, 120.0
SETTLED_MB = 0.5
# Later than anything here lasts, and not so late that a broker delivers it twice.
LATER_MS, LATER_SPAN_MS = 3_600_000, 3_600_000
NOWHERE = "http://127.0.0.1:9/never"

# On a busy machine making jobs takes longer than it should: then it is tried once more, with so many times the time.
PATIENCE = 4

Found = dict[str, float]
"""Figures by name; one that a contender cannot have is not among them."""


class TooSoonError(Exception):
    """The jobs were due before all were made."""


@dataclass(frozen=True)
class Setting:
    """What a measurement is given beside its contender."""

    folder: Path
    port: int
    watch: Watch
    quick: bool


@dataclass(frozen=True)
class Measure:
    """A figure of a question."""

    name: str
    unit: str
    better: Better


@dataclass(frozen=True)
class Question:
    """What is asked, and what comes of it."""

    title: str
    measures: tuple[Measure, ...]
    ask: Callable[[Contender, Setting], Found]


def _due(contender: Contender, setting: Setting, count: int, step_us: int) -> Load:
    fill_us = contender.fill_apart_us if step_us > 0 else contender.fill_us
    first_ms = now_ms() + ahead_ms(count, fill_us, LEAST_AHEAD_MS)
    return Load(f"http://127.0.0.1:{setting.port}/late", count, first_ms, step_us)


def patiently(ask: Callable[[Contender, Setting], Found]) -> Callable[[Contender, Setting], Found]:
    """Ask, and ask again if there was too little time to make the jobs."""

    def asked(contender: Contender, setting: Setting) -> Found:
        try:
            return ask(contender, setting)
        except TooSoonError:
            slower = replace(
                contender,
                fill_us=contender.fill_us * PATIENCE,
                fill_apart_us=contender.fill_apart_us * PATIENCE,
            )
            return ask(slower, replace(setting, folder=setting.folder.with_name("again")))

    return asked


def _wait_for(due_ms: int, before_ms: int) -> None:
    """Wait until so long before."""
    left_ms = due_ms - now_ms()
    if left_ms < REST_MS:
        raise TooSoonError(f"making the jobs took so long that {left_ms} ms were left until they were due")
    time.sleep((left_ms - before_ms) / 1_000)


def fire(contender: Contender, setting: Setting) -> Found:
    """Jobs that are all due at once, until the last is recorded as done."""
    count = QUICK_FIRE_JOBS if setting.quick else FIRE_JOBS
    ask_receiver(setting.port, "/reset")
    with contender.site(setting.folder, setting.watch) as site:
        worker = site.start()
        load = _due(contender, setting, count, 0)
        site.fill(load)
        _wait_for(load.first_ms, REST_MS)
        before, database_before = processes.cpu_seconds(worker), site.database_cpu_seconds()
        _wait_until_recorded(site, setting.port, load)
        seconds = (now_ms() - load.first_ms) / 1_000
        after, database_after = processes.cpu_seconds(worker), site.database_cpu_seconds()
        said = ask_receiver(setting.port, "/hits")
    if (said["hits"], said["distinct"]) != (count, count):
        raise RuntimeError(f"of {count} jobs {said['distinct']} arrived, in {said['hits']} requests")
    found = {"rate": per_second(count, seconds), "worker": (after - before) / count * 1e6}
    if database_before is not None and database_after is not None:
        found["database"] = (database_after - database_before) / count * 1e6
    return found


def _wait_until_recorded(site: Site, port: int, load: Load) -> None:
    """The store is asked only when all have arrived, so that asking costs it nothing meanwhile."""
    until_ms = load.first_ms + FIRE_SECONDS_MAX * 1_000
    time.sleep(max(0.0, (load.first_ms - now_ms()) / 1_000))
    while (hits := ask_receiver(port, "/count")) < load.count and now_ms() < until_ms:
        time.sleep(LOOK_SECONDS if hits < load.count * 0.9 else NEAR_LOOK_SECONDS)
    while (waiting := site.waiting()) > 0 and now_ms() < until_ms:
        time.sleep(NEAR_LOOK_SECONDS)
    if waiting > 0:
        raise RuntimeError(f"{waiting} of {load.count} jobs were not done {FIRE_SECONDS_MAX} s after they were due")


def steady(per_second: int) -> Callable[[Contender, Setting], Found]:
    """Lateness of jobs that are due evenly, in a worker that does nothing else."""

    def ask(contender: Contender, setting: Setting) -> Found:
        count = per_second * (QUICK_STEADY_SECONDS if setting.quick else STEADY_SECONDS)
        ask_receiver(setting.port, "/reset")
        with contender.site(setting.folder, setting.watch) as site:
            site.start()
            load = _due(contender, setting, count, 1_000_000 // per_second)
            site.fill(load)
            _wait_for(load.first_ms, SOON_MS)
            time.sleep((load.last_ms - now_ms()) / 1_000)
            until_ms = load.last_ms + STEADY_SECONDS_MAX * 1_000
            while ask_receiver(setting.port, "/count") < count and now_ms() < until_ms:
                time.sleep(LOOK_SECONDS)
            late = late_ms(setting.port, count)
        return {"p50": percentile(late, 0.5), "p99": percentile(late, 0.99), "early": sum(one < 0 for one in late)}

    return ask


def creates(contender: Contender, setting: Setting) -> Found:
    """Jobs that are made a second, by one call each and by calls that make many."""
    found = {}
    for name in ("single", "bulk"):
        with contender.site(setting.folder.with_name(name), setting.watch) as site:
            load = Load(NOWHERE, 1, now_ms() + NEXT_YEAR_MS, 1_000)
            seconds = QUICK_CREATE_SECONDS if setting.quick else CREATE_SECONDS
            rate = site.create(load, seconds, bulk=name == "bulk")
        if rate is not None:
            found[name] = rate
    return found


def memory(contender: Contender, setting: Setting) -> Found:
    """What a worker holds that was started with nothing, and with many jobs that are due in an hour and later."""
    count = QUICK_PENDING_JOBS if setting.quick else PENDING_JOBS
    with contender.site(setting.folder, setting.watch) as site:
        empty = _settled_mb(site.start())
        site.stop()
        site.stock(Load(NOWHERE, count, now_ms() + LATER_MS, LATER_SPAN_MS * 1_000 // count))
        full = _settled_mb(site.start())
        if (there := site.waiting()) != count:
            raise RuntimeError(f"of {count} jobs {there} are there")
    return {"empty": empty, "pending": full}


def _settled_mb(pid: int) -> float:
    """Its memory, once that does not grow any more."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    before = -SETTLED_MB * 2
    while (now := processes.resident_mb(pid)) - before > SETTLED_MB and time.monotonic() < until:
        before = now
        time.sleep(SETTLE_SECONDS)
    return now


LATENESS = (Measure("p50", "ms", "less"), Measure("p99", "ms", "less"), Measure("early", "jobs", "less"))
QUESTIONS = {
    "fire": Question(
        "jobs due at once",
        (Measure("rate", "/s", "more"), Measure("worker", "µs a job", "less"), Measure("database", "µs a job", "less")),
        patiently(fire),
    ),
    "late-100": Question("late, 100 a second", LATENESS, patiently(steady(100))),
    "late-1000": Question("late, 1,000 a second", LATENESS, patiently(steady(1_000))),
    "create": Question("jobs made", (Measure("single", "/s", "more"), Measure("bulk", "/s", "more")), creates),
    "memory": Question(
        "memory of the worker", (Measure("empty", "MB", "less"), Measure("pending", "MB", "less")), memory
    ),
}
