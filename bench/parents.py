"""How a child of a bench learns that its parent is gone: the pipe that is its standard input closes."""

import asyncio
import contextlib
import sys


async def until_parent_is_gone(seconds_max: float) -> None:
    """Return when standard input ends, or after so long in any case."""
    ended = asyncio.Event()

    class Input(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    await asyncio.get_running_loop().connect_read_pipe(Input, sys.stdin)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds_max):
            await ended.wait()
