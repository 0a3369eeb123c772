"""A real import into a real daemon, both of them killed in the middle: in the end every line is there once."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tasktick.client import core
from tasktick.client.sync import Client
from tasktick.ctl.import_lines import BATCH_LINES
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.ports import free_port

pytestmark = [pytest.mark.process, pytest.mark.slow]

COUNT = 20_000
BAD_EVERY = 1_000


def _write(path: Path) -> int:
    """A file of tasks, some of them bad; how many are good."""
    good = 0
    with path.open("w") as file:
        for n in range(COUNT):
            if n % BAD_EVERY == 500:
                file.write("{bad\n" if n % (2 * BAD_EVERY) == 500 else '{"target": {}}\n')
                continue
            good += 1
            task = {"target": {"url": "https://app.example/hook"}, "delay": "20h", "name": f"n-{n}"}
            file.write(json.dumps(task) + "\n")
    return good


def _count(client: Client) -> int:
    try:
        counted = client.call(core.stats())
    except (core.Unreachable, core.Problem):
        return 0
    return sum(counted["tasks"].values())


def _names(client: Client) -> Counter[str]:
    pages = client.pages(core.list_tasks({"limit": core.LIMIT_MAX}))
    return Counter(task["name"] for page in pages for task in page.json()["data"])


def test_killed_in_the_middle_and_run_again(tmp_path: Path) -> None:
    program = Program(tmp_path)
    good = _write(tmp_path / "tasks.ndjson")
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        running.append(program.start(*arguments, stderr=subprocess.DEVNULL))
        return running[-1]

    try:
        listen = f"127.0.0.1:{free_port()}"
        daemon = start("serve", "--listen", listen)
        until(program.address.is_file, daemon)
        url = program.address.read_text().strip()
        with Client(url, (program.data / "operator.key").read_text().strip()) as client:
            first = start("ctl", "task", "import", "tasks.ndjson")
            until(lambda: _count(client) > 0, first)
            first.kill()
            first.wait(DEADLINE_S)
            made = _count(client)
            assert 0 < made < good

            second = start("ctl", "task", "import", "tasks.ndjson", "-o", "json", "--url", url)
            # The daemon may still be making what the first one sent last; more than that is the second one's.
            until(lambda: _count(client) > made + BATCH_LINES, second)
            daemon.kill()
            daemon.wait(DEADLINE_S)
            start("serve", "--listen", listen)
            out, _ = second.communicate(timeout=DEADLINE_S)
            assert second.returncode == 1

            report = json.loads(out)
            assert report["created"] + report["already"] == good
            assert report["refused_by"] == {"malformed": 10, "validation_failed": 10}
            refused = (tmp_path / "tasks.ndjson.refused.ndjson").read_text().splitlines()
            assert [json.loads(line)["line"] for line in refused] == list(range(501, COUNT, BAD_EVERY))
            names = _names(client)
            assert len(names) == good
            assert set(names.values()) == {1}

            third = json.loads(program.run("ctl", "task", "import", "tasks.ndjson", "-o", "json", code=1).stdout)
            assert (third["created"], third["already"]) == (0, good)
    finally:
        for process in reversed(running):
            end(process)
