"""Checks of two real nodes on one PostgreSQL: each turn is told once, also when one of them is killed meanwhile."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tasktick.client import checks
from tests import postgres
from tests.cli.program import DEADLINE_S, end, until
from tests.cli.test_ring import VERSIONS, Member, is_shared_by, wait_until
from tests.fakes.api_stub import Told, api_stub
from tests.ports import free_ports

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
COUNT = 24


def ping(member: Member, check: dict[str, Any]) -> None:
    url = member.program.address.read_text().strip() + check["ping_path"]
    with urlopen(url, timeout=DEADLINE_S) as answer:
        assert answer.read() == b"OK"


def states(member: Member) -> set[str]:
    with member.client() as client:
        return {one["status"] for one in client.call(checks.find({"limit": 100}))["data"]}


def told(member: Member) -> dict[str, list[str]]:
    """The events of each check, in order."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in member.program.run("ctl", "events", "--after", "0-0", "--for", "1s").stdout.splitlines():
        words = line.split()
        kind = next((word for word in words if word.startswith("check.")), None)
        if kind is not None:
            found[next(word for word in words if word.startswith("chi_"))].append(kind)
    return found


def test_each_turn_is_told_once_though_a_node_is_killed(tmp_path: Path) -> None:
    ports = free_ports(2)
    with api_stub() as monitor, postgres.own_cluster(VERSIONS[-1]) as server:
        monitor.tell(*[Told()] * 1_000)
        environment = {
            "TASKTICK_DEADMAN__URL": f"{monitor.url}/alive",
            "TASKTICK_DEADMAN__INTERVAL_MS": "1000",
            "TASKTICK_DEADMAN__TIMEOUT_MS": "900",
        }
        first, last = (Member(name, tmp_path / name, ports[i], ports[:i], environment) for i, name in enumerate("ab"))
        store = asyncio.run(server.new_database())
        try:
            first.start(store)
            last.join(first)
            last.start(store)
            wait_until(lambda: is_shared_by(first, "ab"), first.shares)
            with first.client() as client:
                made = [client.call(checks.create({"period": "3s", "grace": "2s"})) for _ in range(COUNT)]
            for place, one in enumerate(made):
                ping((first, last)[place % 2], one)
            assert states(first) <= {"up", "late"}
            last.kill()
            before = len(monitor.asked)
            assert first.process is not None
            wait_until(lambda: states(first) == {"down"}, lambda: states(first))
            until(lambda: len(monitor.asked) >= before + 2, first.process)
            turns = told(first)
            assert set(turns) == {one["id"] for one in made}
            late = [one for one in turns.values() if one == ["check.up", "check.late", "check.down"]]
            rest = [one for one in turns.values() if one not in late]
            assert all(one == ["check.up", "check.down"] for one in rest), rest
            first.stop()
        finally:
            for member in (first, last):
                if member.process is not None:
                    end(member.process)
