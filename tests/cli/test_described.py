"""A real process, asked whatever its description allows and forbids, by one tenant beside another.

Answers are held to the description by schemathesis; what the other tenant has stays unseen and as it was.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import HTTPErrorProcessor, Request, build_opener

import msgspec
import pytest

from tasktick.access import keys
from tasktick.access.roles import Role
from tasktick.api.routes import table
from tasktick.api.schedule_schemas import BackfillRequest, Occurrence
from tasktick.store import secrets as stored
from tasktick.store.connect import raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.rows import KeyRow
from tasktick.store.sqlite import WRITER_PRAGMAS
from tests.cli.program import DEADLINE_S
from tests.cli.stores import NOW, write

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

RUN_S = 280
# More of what is drawn for each operation, beside what its description names: `make test-chaos`.
EXAMPLES = "25" if "TASKTICK_AT_LENGTH" in os.environ else "12"
# A request without a key, or with a wrong one, is 401 twenty times and then 429; a task that fits its schema may
# still have a target that may not be called. Both have tests of their own.
LEFT_OUT = (*("ignored_auth", "missing_required_header", "positive_data_acceptance", "object_level_authorization"),)
# A version that has changed is found before what else is wrong; in a batch each task is refused by itself.
SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 415, 422, 429]

[[operations]]
include-operation-id = "post_tasks_batch"
checks.negative_data_rejection.enabled = false
"""
TENANT = "/parameters/Tenant"
LISTS = (
    "/v1/tasks?fields=full",
    "/v1/dlq",
    "/v1/secrets",
    "/v1/keys",
    "/v1/keys?revoked=true",
    "/v1/schedules?fields=full",
    "/v1/checks",
)
PREFIXES = {"dlq": "dlq_", "keys": "key_", "secrets": "sec_", "schedules": "sch_", "checks": "chi_"}
# What is in every text of the other tenant, and in no example.
MARK = "globex-alone-knows"

FAR = 4_000_000_000
# What a body must say; any other may say nothing.
LEAST: dict[Any, dict[str, Any]] = {Occurrence: {"at": FAR}, BackfillRequest: {"from": 0}}


class _Kept(HTTPErrorProcessor):
    """A 404 is an answer like others."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response


class Daemon(msgspec.Struct):
    """A process that serves two tenants."""

    url: str
    acme: str
    globex: str

    def ask(self, key: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = Request(self.url + path, data, headers, method=method)
        with build_opener(_Kept).open(request, timeout=DEADLINE_S) as response:
            raw = response.read()
        return response.status, json.loads(raw) if raw else None


def _make_store(path: Path) -> tuple[str, str]:
    """A store with a key for each tenant."""
    path.parent.mkdir(parents=True, mode=0o700)
    random = Random(11)
    made = [keys.make(random.randbytes(keys.RANDOM_BYTES)) for _ in range(2)]
    raw = raw_connection(path, WRITER_PRAGMAS)
    try:
        migrate(raw)
        for number, (tenant, key) in enumerate(zip(("acme", "globex"), made, strict=True)):
            prefix = keys.prefix_of(key)
            assert prefix is not None
            row = KeyRow(f"{number:032x}", prefix, keys.digest(key), tenant, Role.MANAGER, None, NOW)
            write(raw, partial(stored.add_key, key=row))
    finally:
        raw.close()
    return made[0], made[1]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    data = tmp_path / "data"
    acme, globex = _make_store(data / "tasktick.db")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("TASKTICK_", "PYTEST_"))}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tasktick", "serve", "--data", str(data), "--listen", "127.0.0.1:0"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    address = data / "address"
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not address.is_file():
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, "it did not come up in time"
            time.sleep(0.02)
        yield Daemon(address.read_text().strip(), acme, globex)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
        assert b"request_failed" not in (tmp_path / "log").read_bytes()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _globex(daemon: Daemon) -> list[str]:
    """What the other tenant has: a signing secret, and tasks in several states, with names that tell."""
    assert daemon.ask(daemon.globex, "POST", "/v1/secrets")[0] == 201
    ids = []
    for number, fields in enumerate(({"delay": "1d"}, {"delay": "2d", "key": MARK}, {"delay": "1d"})):
        body = {"target": {"url": f"https://{MARK}.example/"}, "name": f"{MARK} {number}", "queue": MARK, **fields}
        status, task = daemon.ask(daemon.globex, "POST", "/v1/tasks", body)
        assert status == 201
        ids.append(task["id"])
    assert daemon.ask(daemon.globex, "POST", f"/v1/tasks/{ids[2]}/cancel")[0] == 200
    yearly = {"cron": "0 0 1 1 *", "key": MARK, "name": MARK, "task": {"target": {"url": f"https://{MARK}.example/"}}}
    assert daemon.ask(daemon.globex, "POST", "/v1/schedules", yearly)[0] == 201
    check = {"period": "1d", "key": MARK, "name": MARK}
    assert daemon.ask(daemon.globex, "POST", "/v1/checks", check)[0] == 201
    return ids


def _all_of_globex(daemon: Daemon) -> Any:
    found = [daemon.ask(daemon.globex, "GET", path) for path in LISTS]
    for _, page in found:
        for one in page["data"]:
            one.pop("last_used_at", None)  # which looking at it here moves
    return found


def _named(daemon: Daemon, path: str) -> list[str]:
    """The ids of the other tenant's keys, signing secrets, schedules or checks."""
    kind = path.split("/")[2]
    if kind not in ("keys", "secrets", "schedules", "checks"):
        return []
    found = daemon.ask(daemon.globex, "GET", f"/v1/{kind}")[1]["data"]
    assert found
    return [one["id"] for one in found]


def _ask_for_foreign_ids(daemon: Daemon, ids: list[str]) -> None:
    """Every route that takes an id is asked for one of the other tenant's."""
    for route in table():
        if "{id}" not in route.path or route.path.startswith("/v1/cluster/"):  # nodes are no tenant's: 403
            continue
        names = [*ids, f"key:{MARK}", *_named(daemon, route.path)]
        for name in [one for one in names if route.method != "PUT"]:
            name = name.replace("tsk_", PREFIXES.get(route.path.split("/")[2], "tsk_"))
            body = None if route.model is None else LEAST.get(route.model, {})
            status, answer = daemon.ask(daemon.acme, route.method, route.path.replace("{id}", name), body)
            assert (status, answer["code"]) == (404, "not_found"), f"{route.method} {route.path}"


def _document(daemon: Daemon) -> Any:
    """What the daemon says of itself, without the header by which a key asks for another tenant than its own.

    Nor are keys revoked: whatever asks would revoke its own, and hear nothing more. The stream of events does not
    end, so whoever waits for the end of an answer is not sent there: it has tests of its own.
    """
    status, document = daemon.ask("", "GET", "/openapi.json")
    assert status == 200
    del document["paths"]["/v1/keys/{id}"]
    del document["paths"]["/v1/events"]
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["parameters"] = [one for one in operation["parameters"] if TENANT not in one.get("$ref", "")]
    return document


def answers_as_described(url: str, key: str, document: Any, tmp_path: Path, examples: str = EXAMPLES) -> str:
    """Ask whatever this document allows and forbids; everything that was said, if it was as described."""
    program = shutil.which("schemathesis", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("schemathesis is not installed")
    file, report = tmp_path / "openapi.json", tmp_path / "report.har"
    # What it says of an operation must be one that is asked for.
    named = '"post_tasks_batch"' in json.dumps(document)
    (tmp_path / "settings.toml").write_text(SETTINGS if named else SETTINGS.partition("[[")[0])
    file.write_text(json.dumps(document))
    arguments = [
        *("--config-file", str(tmp_path / "settings.toml"), "run", str(file), "--url", url),
        *("--header", f"Authorization: Bearer {key}"),
        *("--exclude-checks", ",".join(LEFT_OUT), "--phases", "examples,coverage,fuzzing,stateful"),
        *("--max-examples", examples, "--seed", "1", "--continue-on-failure", "--no-color", "--no-shrink"),
        *("--warnings", "off", "--request-timeout", "10", "--report-har-path", str(report)),
        *("--output-sanitize", "false"),
    ]
    done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    return report.read_text()


def test_it_answers_as_described_and_keeps_tenants_apart(daemon: Daemon, tmp_path: Path) -> None:
    ids = _globex(daemon)
    before = _all_of_globex(daemon)
    _ask_for_foreign_ids(daemon, ids)
    everything = {"filter": {"created_after": 0}}
    for word in ("cancel", "retry", "run", "delete"):
        assert daemon.ask(daemon.acme, "POST", f"/v1/tasks/{word}", everything)[1] == {
            "matched": 0,
            "changed": 0,
            "left": 0,
        }
    seen = answers_as_described(daemon.url, daemon.acme, _document(daemon), tmp_path)
    statuses = Counter(entry["response"]["status"] for entry in json.loads(seen)["log"]["entries"])
    assert statuses[200] + statuses[201] > len(table()) * int(EXAMPLES) // 3, statuses
    assert MARK not in seen
    assert not any(one in seen for one in ids)
    assert _all_of_globex(daemon) == before
