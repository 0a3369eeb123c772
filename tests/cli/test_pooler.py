"""The real program behind a real pgbouncer, whose connections come and go under it."""

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests import pooler, postgres
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.cli.test_postgres import Callers, until_settled
from tests.fakes.api_stub import Told, api_stub

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
    pytest.mark.skipif(pooler.program() is None, reason="there is no pgbouncer here: apt install pgbouncer"),
]
KILL_BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
    "AND pid <> pg_backend_pid()"
)


def test_everything_that_was_acknowledged_is_delivered_through_it(tmp_path: Path) -> None:
    version = max(postgres.installed())
    program = Program(tmp_path, environment={"TASKTICK_STORE__PREPARED_STATEMENTS": "false"})
    with (
        postgres.own_cluster(version) as server,
        pooler.pooled(server) as port,
        api_stub() as receiver,
        (tmp_path / "log").open("ab") as log,
    ):
        receiver.tell(*[Told()] * 20_000)
        store = pooler.through(asyncio.run(server.new_database()), port)
        flags = ("--store", store, "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
        daemon = program.start("serve", *flags, stderr=log)
        try:
            until(program.address.is_file, daemon)
            callers = Callers(program, f"{receiver.url}/hook")
            try:
                callers.until_more(50)
                for _ in range(3):
                    asyncio.run(server.run(KILL_BACKENDS))
                    callers.until_more(30)
            finally:
                callers.stop()
            until_settled(program, receiver, callers)
            hits = Counter(asked.headers["webhook-id"] for asked in receiver.asked)
            assert not set(callers.ids) - set(hits)
            report = json.loads(program.run("store", "check", "--store", store, "-o", "json").stdout)
            assert report["ok"], report
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(DEADLINE_S) == 0
        finally:
            end(daemon)
