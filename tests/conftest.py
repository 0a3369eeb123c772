"""What holds for every test: the event loop, Hypothesis, and the 0.25 s that an unmarked test may take.

An async test runs on uvloop, as the daemon does; `TASKTICK_TEST_LOOPS=asyncio,uvloop` runs it on
both, except where it is slow by its mark, or of a suite that asks little of a loop and much of a
store. `TASKTICK_SPEED=1` turns a test that is too slow for an unmarked one into a failure; without
it nothing is said, since a busy machine makes any test slow. Temporary folders lie in memory, if
there is room for them and TMPDIR does not say otherwise.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Mapping

import hypothesis
import pytest
import uvloop

from tasktick.timetable import zones
from tests import postgres, scratch

UNMARKED_LIMIT_S = 0.25
# Marks under which one loop is enough, and 0.25 s is not asked for.
LONG_MARKS = ("slow", "chaos", "hostile", "process", "postgres")
# These are many, and what they are about is in rows. The API's suite runs on the other loop on PostgreSQL.
ONE_LOOP = ("tests/api", "tests/store")
LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}

# No deadline by example: one slow moment of the machine is not a failure. The speed of the whole
# test is judged below.
hypothesis.settings.register_profile("tasktick", deadline=None, print_blob=True)
hypothesis.settings.load_profile("tasktick")


# From then on zoneinfo reads the package's data. What a test reckons for itself must, whichever test comes first.
zones.names()

# A shell that starts us in the background lets us ignore Ctrl-C, and whom we start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anybody has asked where: pytest's folders for tests lie there too.
if "TMPDIR" not in os.environ:
    tempfile.tempdir = str(scratch.quick())


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops that an async test runs on."""
    del config
    names = os.environ.get("TASKTICK_TEST_LOOPS", "uvloop").split(",")
    unknown = sorted(set(names) - set(LOOPS))
    if unknown:
        raise pytest.UsageError(f"TASKTICK_TEST_LOOPS names {unknown}; there are {sorted(LOOPS)}")
    if any(item.get_closest_marker(mark) for mark in LONG_MARKS) or item.nodeid.startswith(ONE_LOOP):
        names = names[-1:]
    return {name: LOOPS[name] for name in names}


def _too_slow(report: pytest.TestReport) -> bool:
    return (
        report.when == "call"
        and report.passed
        and report.duration > UNMARKED_LIMIT_S
        and not any(mark in report.keywords for mark in LONG_MARKS)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail an unmarked test over its time, where the machine is quiet enough to ask that."""
    report = yield
    if os.environ.get("TASKTICK_SPEED") == "1" and _too_slow(report):
        report.outcome = "failed"
        report.longrepr = (
            f"It took {report.duration:.2f} s; a test over {UNMARKED_LIMIT_S} s is marked `slow`, "
            "or does less, or runs in virtual time."
        )
    return report


def pytest_report_header() -> str:
    """Which PostgreSQL there is to test on."""
    found = ", ".join(f"{version} ({folder})" for version, folder in sorted(postgres.installed().items()))
    return f"PostgreSQL: {found or 'none; install the test group of pyproject.toml, or postgresql-15'}"


@pytest.fixture(scope="session", autouse=True)
def _clusters_end() -> Generator[None]:
    """Servers that a test has started end with the session."""
    yield
    postgres.remove_clusters()
