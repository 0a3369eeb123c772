"""pgbouncer in front of a PostgreSQL of the tests, handing out its connections by the transaction.

It is not installed with TaskTick's own tools: where there is none, what needs it is skipped.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port
from tests.postgres import Cluster, runner

START_DEADLINE_S = 10
# Fewer than a daemon opens, so that hardly two transactions of a connection are on the same one of the server.
SERVER_CONNECTIONS = 6
SETTINGS = """
[databases]
* = host={host} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 300
server_round_robin = 1
logfile = {folder}/log
"""


def program() -> str | None:
    """Where it is, if it is anywhere."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


@contextmanager
def pooled(cluster: Cluster) -> Iterator[int]:
    """The port of a pooler in front of this cluster."""
    found = program()
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="tasktick-pooler-", dir="/tmp"))
    user = runner()
    port = free_port()
    settings = folder / "pgbouncer.ini"
    host = cluster.url("").rpartition("host=")[2]
    settings.write_text(SETTINGS.format(host=host, port=port, connections=SERVER_CONNECTIONS, folder=folder))
    if user is not None:
        shutil.chown(folder, user)
        shutil.chown(settings, user)
    process = subprocess.Popen([found, "-q", settings], user=user, cwd=folder, stdin=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(START_DEADLINE_S)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "pgbouncer ended"
            assert time.monotonic() < deadline, "pgbouncer did not start in time"
            time.sleep(0.02)
        else:
            return


def through(url: str, port: int) -> str:
    """The same database, through the pooler."""
    return f"postgresql://postgres@127.0.0.1:{port}{url.partition('@')[2].partition('?')[0]}"
