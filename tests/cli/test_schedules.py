"""The real program with schedules: each second once, with the process killed among them."""

import json
import signal
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import Told, api_stub

pytestmark = [pytest.mark.process, pytest.mark.slow]

SERVE = ("serve", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
ANSWERS = 1_000


class Running:
    """The program, which may be killed and started again on its data."""

    def __init__(self, folder: Path) -> None:
        self.program = Program(folder)
        self.process = self._start()

    def _start(self) -> Popen[str]:
        with (self.program.folder / "log").open("a") as log:
            process = self.program.start(*SERVE, stderr=log)
        until(self.program.address.is_file, process)
        return process

    def kill_and_start(self) -> None:
        self.process.kill()
        end(self.process)
        self.process.wait(DEADLINE_S)
        self.program.address.unlink()
        self.process = self._start()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request by the operator."""
        key = (self.program.data / "operator.key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.program.address.read_text().strip() + path, data, headers, method=method)
        with urlopen(request, timeout=DEADLINE_S) as response:
            return json.loads(response.read())

    def ledger(self, schedule: str) -> list[dict[str, Any]]:
        """What became of its times, the earliest first."""
        return list(reversed(self.ask("GET", f"/v1/schedules/{schedule}/fires?limit=1000")["data"]))

    def until(self, seen: Callable[[], Any]) -> None:
        until(seen, self.process)


def _seconds(rows: list[dict[str, Any]]) -> list[float]:
    return [datetime.fromisoformat(row["nominal"].replace("Z", "+00:00")).timestamp() for row in rows]


def test_each_second_once_though_the_process_is_killed(tmp_path: Path) -> None:
    with api_stub() as well, api_stub() as ill:
        well.tell(*[Told()] * ANSWERS)
        ill.tell(*[Told(500)] * ANSWERS)
        running = Running(tmp_path)
        try:
            allow, skip = [
                running.ask("POST", "/v1/schedules", {"every": "1s", "overlap": overlap, "task": {"target": target}})
                for overlap, target in (("allow", {"url": well.url, "body": {"n": 1}}), ("skip", {"url": ill.url}))
            ]
            running.until(lambda: len(running.ledger(allow["id"])) >= 2)
            running.kill_and_start()
            running.until(lambda: len(running.ledger(allow["id"])) >= 6)
            running.until(lambda: len({one.headers["webhook-id"] for one in well.asked}) >= 6)
            rows, others = running.ledger(allow["id"]), running.ledger(skip["id"])
            for ledger in (rows, others):
                seconds = _seconds(ledger)
                assert seconds == [seconds[0] + number for number in range(len(seconds))]
            assert {row["outcome"] for row in rows} == {"run"}
            assert rows[0]["nominal"] == allow["next_fire_at"]
            # Its first fire waits for its next attempt: those that come meanwhile do not run beside it.
            assert [row["outcome"] for row in others[:4]] == ["run", "skipped", "skipped", "skipped"]
            assert {row["reason"] for row in others[1:]} == {"overlap"}
            assert {one.headers["tasktick-schedule"] for one in well.asked} == {allow["id"]}
            times = {one.headers["webhook-id"]: one.headers["tasktick-scheduled-at"] for one in well.asked}
            assert times.items() >= {row["task_id"]: row["nominal"] for row in rows[:5]}.items()
            held = running.ask("POST", f"/v1/schedules/{allow['id']}/pause")
            assert (held["paused"], held["next_fire_at"]) == (True, None)
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(DEADLINE_S) == 0
        finally:
            end(running.process)
        running.program.run("store", "check", "--full")
