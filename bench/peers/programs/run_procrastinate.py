"""procrastinate with 100 jobs at once, on uvloop, posting by aiohttp; it looks for work every 100 ms."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from contract import Job, options, poster, run
from procrastinate import App, PsycopgConnector

TASK = "post"
JOBS = 100
CONNECTIONS = 32
LOOK_SECONDS = 0.1


def application(connections: int) -> App:
    """On a pool of so many."""
    return App(connector=PsycopgConnector(conninfo=options["store"], min_size=connections, max_size=connections))


class Client:
    """Its own client."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def add(self, job: Job) -> None:
        await self._app.configure_task(TASK, schedule_at=job.due).defer_async(data=job.data)

    async def add_many(self, jobs: Sequence[Job]) -> None:
        """One call takes one instant."""
        every: list[Any] = [{"data": job.data} for job in jobs]
        await self._app.configure_task(TASK, schedule_at=jobs[0].due).batch_defer_async(*every)


class Peer:
    """What the contract asks."""

    mixed_batches = False

    async def prepare(self) -> None:
        async with application(1).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def open(self, connections: int) -> Client:
        app = application(connections)
        await app.open_async()
        return Client(app)

    async def work(self, ready: Callable[[], None]) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        app, post = application(CONNECTIONS), poster(JOBS)

        @app.task(name=TASK)
        async def send(data: dict[str, Any]) -> None:
            await post(data)

        async with app.open_async():
            ready()
            await app.run_worker_async(concurrency=JOBS, fetch_job_polling_interval=LOOK_SECONDS)


run(Peer())
