"""Two real processes on one PostgreSQL; an operator asks one of them whatever its description allows and forbids."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests import postgres
from tests.cli.program import DEADLINE_S
from tests.cli.test_described import TENANT, answers_as_described
from tests.cli.test_ring import Member, wait_until
from tests.ports import free_ports

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
# More of what is drawn for each operation, beside what its description names: `make test-chaos`.
EXAMPLES = "12" if "TASKTICK_AT_LENGTH" in os.environ else "3"
CLUSTER_EXAMPLES = "60"
CLUSTER = "/v1/cluster"


def _document(url: str, *, of_cluster: bool) -> Any:
    """What it says of its nodes, or of the rest; without what ends its own key, or never ends."""
    with urlopen(f"{url}/openapi.json", timeout=DEADLINE_S) as response:
        document = json.load(response)
    paths = {path: one for path, one in document["paths"].items() if path.startswith(CLUSTER) == of_cluster}
    for path in ("/v1/keys/{id}", "/v1/events", "/v1/tenants/{id}"):
        paths.pop(path, None)
    for methods in paths.values():
        for operation in methods.values():
            operation["parameters"] = [one for one in operation["parameters"] if TENANT not in one.get("$ref", "")]
    return {**document, "paths": paths}


def _statuses(seen: str) -> Counter[int]:
    return Counter(entry["response"]["status"] for entry in json.loads(seen)["log"]["entries"])


@pytest.mark.parametrize("of_cluster", [True, False], ids=["its nodes", "the rest"])
def test_a_ring_answers_an_operator_as_described(tmp_path: Path, of_cluster: bool) -> None:
    with postgres.own_cluster(max(postgres.installed())) as server:
        store = asyncio.run(server.new_database())
        gossip = free_ports(2)
        first = Member("a", tmp_path / "a", gossip[0], gossip[1:])
        second = Member("b", tmp_path / "b", gossip[1], gossip[:1])
        try:
            first.start(store)
            second.join(first)
            second.start(store)
            wait_until(lambda: len(first.shares()) == 2, first.shares)
            url = first.program.address.read_text().strip()
            key = (first.program.data / "operator.key").read_text().strip()
            document = _document(url, of_cluster=of_cluster)
            if of_cluster:
                # A node that is there, beside all that are not.
                _name_nodes(document)
            examples = CLUSTER_EXAMPLES if of_cluster else EXAMPLES
            statuses = _statuses(answers_as_described(url, key, document, tmp_path, examples))
            assert not any(status >= 500 for status in statuses), statuses
            assert statuses[200] + statuses[201] + statuses[202] > 20, statuses
            for one in (first, second):
                one.stop()
                assert b"request_failed" not in (one.program.folder / "log").read_bytes()
        finally:
            for one in (first, second):
                if one.process is not None:
                    one.kill()


def _name_nodes(document: Any) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter.get("in") == "path":
                    parameter["examples"] = {name: {"value": name} for name in ("a", "b", "nobody")}
