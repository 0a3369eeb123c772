"""Limit of `create`: a bare aiohttp.web handler that reads the body and answers as much as a created task."""

import sys

import uvloop
from aiohttp import web

from bench.parents import until_parent_is_gone

LIFE_SECONDS_MAX = 3_600
# An answered task is about so long.
ANSWER = b'{"id":"tsk_' + b"0" * 32 + b'","text":"' + b"x" * 1_000 + b'"}'


async def _created(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, status=201, content_type="application/json")


async def serve() -> None:
    """Listen, say where, and serve until the parent is gone."""
    app = web.Application()
    app.router.add_post("/v1/tasks", _created)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f'{{"port": {runner.addresses[0][1]}}}\n')
    sys.stdout.flush()
    await until_parent_is_gone(LIFE_SECONDS_MAX)
    await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(serve())
