"""What whatever was installed must do, in an empty folder: serve, call one receiver, keep a second one out, stop."""

import json
import signal
from urllib.request import urlopen

from tasktick import __version__
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import Told, api_stub

LOOPBACK = ("--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
SERVE = ("serve", *LOOPBACK)


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
            receiver.tell(Told(200, b"thanks"))
            task = program.ctl("task", "add", receiver.url, "--body", '{"n": 1}', "--wait")
            assert (task["state"], task["result"]["body"]) == ("succeeded", "thanks")
            assert receiver.asked[0].document == {"n": 1}
            assert receiver.asked[0].headers["webhook-signature"]
        assert "in use by another TaskTick" in program.run(*command, code=1).stderr
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        assert "daemon_hurried" not in err
        assert not program.address.exists()
    finally:
        end(process)
    program.run("store", "check", "--full")
