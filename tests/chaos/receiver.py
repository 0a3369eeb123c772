"""The receiver that remembers: every complete request is in the history before it is answered.

How it answers is in the path (`/hook/<behaviour>/<mark>`) and the attempt's number, so that a run repeats.
"""

import asyncio
import contextlib
import socket
from types import TracebackType

import msgspec

from tests.chaos.history import Answered, HistoryWriter, Hit, now_ms
from tests.chaos.network import Host

HEAD_END = b"\r\n\r\n"
LINGER_NOT = b"\x01\x00\x00\x00\x00\x00\x00\x00"
SLOW_S = 0.15
LAZY_S = 1.1


class Plan(msgspec.Struct, frozen=True):
    """What a receiver does with one request."""

    status: int | None = 200
    wait_s: float = 0.0
    # None: the connection is kept; else how it ends: `cut` in the middle of the answer, `drop`, `reset`, `hang`.
    end: str | None = None


# By behaviour: what is done with the first attempts, then with all others.
PLANS: dict[str, tuple[Plan, ...]] = {
    "ok": (Plan(),),
    "slow": (Plan(wait_s=SLOW_S),),
    "lazy": (Plan(wait_s=LAZY_S),),
    "flaky": (Plan(status=500), Plan(status=503), Plan()),
    "broken": (Plan(status=500),),
    "reject": (Plan(status=404),),
    "cut": (Plan(end="cut"),),
    "reset": (Plan(status=None, end="reset"), Plan()),
    "drop": (Plan(status=None, end="drop"), Plan()),
    "hang": (Plan(status=None, end="hang"), Plan()),
}


def plan_of(behaviour: str, attempt: int) -> Plan:
    """What happens to this attempt."""
    plans = PLANS[behaviour]
    return plans[min(max(attempt, 1), len(plans)) - 1]


class Receiver:
    """A listening socket that writes down what comes."""

    def __init__(self, history: HistoryWriter, host: Host | None = None) -> None:
        self._history = history
        self._host = host
        self._address = "127.0.0.1" if host is None else host.address
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self.arrived = asyncio.Event()

    def url(self, behaviour: str, mark: str) -> str:
        return f"http://{self._address}:{self.port}/hook/{behaviour}/{mark}"

    async def __aenter__(self) -> "Receiver":
        listening = socket.create_server((self._address, 0)) if self._host is None else self._host.listening()
        self._server = await asyncio.start_server(self._serve, sock=listening, backlog=1_024)
        self.port = listening.getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        number = self._history.number("connection")
        try:
            while await self._answer_one(reader, writer, number):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the sender died or is done, or the run is over
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        """Take a request and answer it; whether the connection is kept."""
        head = await reader.readuntil(HEAD_END)
        line, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines if one)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        hit = self._history.number("hit")
        peer = (writer.get_extra_info("peername") or (None,))[0]
        self._history.add(Hit(hit, now_ms(), connection, method, path, headers, body, peer))
        self.arrived.set()
        attempt = headers.get("tasktick-attempt", "1")
        return await self._carry_out(plan_of(path.split("/")[2], int(attempt)), hit, reader, writer)

    async def _carry_out(
        self, plan: Plan, hit: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if plan.end == "hang":
            with contextlib.suppress(OSError):
                await reader.read()
            self._history.add(Answered(hit, now_ms(), "gone"))
            return False
        if plan.end == "drop":
            self._history.add(Answered(hit, now_ms(), "reset"))
            return False
        if plan.end == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            writer.transport.abort()
            self._history.add(Answered(hit, now_ms(), "reset"))
            return False
        if plan.wait_s:
            await asyncio.sleep(plan.wait_s)
        if writer.is_closing():  # uvloop refuses what is written to a connection that is gone
            self._history.add(Answered(hit, now_ms(), "gone"))
            return False
        length = 100 if plan.end == "cut" else 2
        writer.write(f"HTTP/1.1 {plan.status} x\r\nContent-Length: {length}\r\n\r\nok".encode())
        # Written down as it is written: the sender cannot have read it any sooner.
        self._history.add(Answered(hit, now_ms(), "answer", plan.status))
        await writer.drain()
        return plan.end is None
