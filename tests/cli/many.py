"""`serve --processes N` on a real PostgreSQL: its log, its processes, and receivers that take their time."""

import asyncio
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tasktick.client.sync import Client
from tests import postgres
from tests.cli.program import DEADLINE_S, Program, end, until

FLAGS = ("--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8", "--node", "big")


class Many:
    """The supervisor and its processes."""

    def __init__(self, program: Program, store: str, *flags: str, count: int = 3) -> None:
        self.program = program
        self._log = program.folder / "log"
        with self._log.open("a") as log:
            self.process = program.start(
                "serve", "--store", store, *FLAGS, "--processes", str(count), *flags, stderr=log
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def said(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines of this event, with these fields."""
        lines = (line for line in self.log.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n"))
        found = [one for one in map(json.loads, lines) if one["event"] == event]
        return [one for one in found if fields.items() <= one.items()]

    def until(self, seen: Callable[[], Any]) -> None:
        until(seen, self.process)

    def until_up(self) -> None:
        self.until(self.program.address.is_file)

    @property
    def url(self) -> str:
        return self.program.address.read_text().strip()

    @property
    def key(self) -> str:
        return (self.program.data / "operator.key").read_text().strip()

    def client(self) -> Client:
        return Client(self.url, self.key)

    def pid(self, node: str) -> int:
        """Of the process that is this node now."""
        return int(self.said("process_started", node=node)[-1]["pid"])

    def pids(self) -> list[int]:
        """Of every process that was ever started."""
        return [int(line["pid"]) for line in self.said("process_started")]

    def stop(self, code: int = 0) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == code, self.log
        assert not [pid for pid in self.pids() if is_alive(pid)]

    def end(self) -> None:
        """Leave nothing behind, however the test went."""
        end(self.process)
        for pid in self.pids():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether this process runs; one that is dead and not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_true(seen: Callable[[], Any], deadline_s: float = DEADLINE_S) -> None:
    """Wait until it is so."""
    until_s = time.monotonic() + deadline_s
    while not seen():
        assert time.monotonic() < until_s, "it did not come to that in time"
        time.sleep(0.02)


def new_store() -> str:
    """A database of its own on the newest PostgreSQL that is here."""
    return asyncio.run(postgres.cluster(max(postgres.installed(), key=int)).new_database())


@contextmanager
def many(program: Program, *flags: str, count: int = 3, store: str | None = None) -> Iterator[Many]:
    """It serves, and has ended in order when the block has."""
    running = Many(program, store or new_store(), *flags, count=count)
    try:
        running.until_up()
        yield running
        if running.process.poll() is None:
            running.stop()
    finally:
        running.end()


class SlowReceiver:
    """Takes every call, and answers none before it is told to."""

    def __init__(self) -> None:
        self._door = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}/"
        self.may_answer = Event()
        self.calls: list[tuple[str, int]] = []
        """Task and attempt, in the order in which they came."""
        self._threads: list[Thread] = []
        self._accepting = Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                call, _ = self._door.accept()
            except OSError:
                return
            serving = Thread(target=self._serve, args=(call,), daemon=True)
            self._threads.append(serving)
            serving.start()

    def _serve(self, call: socket.socket) -> None:
        with call, call.makefile("rb") as stream:
            try:
                while stream.readline():
                    headers = {}
                    while line := stream.readline().strip():
                        name, _, text = line.decode().partition(":")
                        headers[name.lower()] = text.strip()
                    stream.read(int(headers.get("content-length", 0)))
                    self.calls.append((headers["webhook-id"], int(headers["tasktick-attempt"])))
                    self.may_answer.wait()
                    call.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                return  # the caller has died

    def count(self) -> Counter[str]:
        """How many calls of each task came."""
        return Counter(task for task, _ in list(self.calls))

    def close(self) -> None:
        self.may_answer.set()
        self._door.close()


@contextmanager
def slow_receiver() -> Iterator[SlowReceiver]:
    receiver = SlowReceiver()
    try:
        yield receiver
    finally:
        receiver.close()
