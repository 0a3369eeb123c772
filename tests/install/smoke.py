"""What whatever was installed must do, in an empty folder: serve, call a receiver, fire by a zone's clock, stop.

And keep a second one out meanwhile.
"""

import json
import signal
import subprocess
from datetime import datetime
from urllib.request import urlopen
from zoneinfo import ZoneInfo

from tasktick import __version__
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import ApiStub, Told, api_stub

LOOPBACK = ("--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
SERVE = ("serve", *LOOPBACK)
ZONE = "Europe/Berlin"
# More than there can be seconds until the deadline.
FIRES_MAX = 200


def try_out(program: Program, *serve: str) -> None:
    """Start it, use it, stop it."""
    command = serve or SERVE
    versions = json.loads(program.run("version", "-o", "json").stdout)
    assert versions["tasktick"] == __version__
    assert "not installed" not in " ".join(versions.values())
    process = program.start(*command)
    try:
        until(program.address.is_file, process)
        url = program.address.read_text().strip()
        for path in ("healthz", "readyz"):
            with urlopen(f"{url}/{path}", timeout=DEADLINE_S) as answer:
                assert answer.status == 200
        with api_stub() as receiver:
            _call(program, receiver)
        with api_stub() as receiver:  # fires come until the stop
            _fire(program, process, receiver)
            assert "in use by another TaskTick" in program.run(*command, code=1).stderr
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        assert "daemon_hurried" not in err
        assert not program.address.exists()
    finally:
        end(process)
    program.run("store", "check", "--full")


def _call(program: Program, receiver: ApiStub) -> None:
    """One task, to its end."""
    receiver.tell(Told(200, b"thanks"))
    task = program.ctl("task", "add", receiver.url, "--body", '{"n": 1}', "--wait")
    assert (task["state"], task["result"]["body"]) == ("succeeded", "thanks")
    assert receiver.asked[0].document == {"n": 1}
    assert receiver.asked[0].headers["webhook-signature"]


def _fire(program: Program, process: subprocess.Popen[str], receiver: ApiStub) -> None:
    """A schedule, until it has fired twice; it knows the clock of its zone, in winter and in summer."""
    receiver.tell(*[Told(200)] * FIRES_MAX)
    at_nine = ("schedule", "preview", "--cron", "0 9 * * *", "--timezone", ZONE)
    changed = program.ctl(*at_nine, "--from", "2030-03-29T12:00:00Z", "--count", "2")["fires"]
    assert [fire["local"] for fire in changed] == ["2030-03-30T09:00:00+01:00", "2030-03-31T09:00:00+02:00"]

    rule = ("--cron", "* * * * * *", "--timezone", ZONE)
    made = program.ctl("schedule", "add", receiver.url, *rule, "--key", "seconds", "--body", '{"n": 2}')
    (ahead,) = program.ctl("schedule", "upcoming", made["id"], "--count", "1")["fires"]
    assert datetime.fromisoformat(ahead["nominal"]).astimezone(ZoneInfo(ZONE)).isoformat() == ahead["local"]
    until(lambda: len(receiver.asked) >= 2, process)
    first, second = (datetime.fromisoformat(asked.headers["tasktick-scheduled-at"]) for asked in receiver.asked[:2])
    assert (second - first).total_seconds() == 1
    assert receiver.asked[0].document == {"n": 2}
    assert f"Every second, {ZONE} time" in program.run("ctl", "schedule", "show", "key:seconds").stdout
    written = {row["nominal"] for row in program.ctl("schedule", "fires", "key:seconds", "--outcome", "run")["data"]}
    assert receiver.asked[0].headers["tasktick-scheduled-at"] in written
