"""The peers: what is installed of each, how it is set up, and how its store says what is still to be done. Pure."""

from dataclasses import dataclass
from typing import Literal

Runtime = Literal["node", "python"]
Database = Literal["PostgreSQL", "Redis"]


@dataclass(frozen=True)
class Peer:
    """One scheduler beside us."""

    name: str
    runtime: Runtime
    program: str
    """Its file in `programs/`."""
    packages: tuple[str, ...]
    """Exact, so that two runs measure the same."""
    database: Database
    setup: str
    """Its configuration in words, as the table's foot says it."""
    waiting: tuple[str, ...]
    """Questions to its store whose sum is the number of jobs not done yet; a job moves from each to the next ones."""
    bulk: bool = True
    """Whether one call makes many jobs."""
    fill_us: int = 100
    """What making a job may take at most; the jobs of a load are due when all are there."""
    fill_apart_us: int | None = None
    """The same where they are due at different instants, if one call cannot make such."""

    @property
    def folder(self) -> str:
        """Where it is installed, below build/peers."""
        return self.name


NODE_CLIENT = ("undici@7.30.2",)
PYTHON_CLIENT = ("aiohttp==3.14.5", "uvloop==0.23.0")

PEERS = (
    Peer(
        name="graphile-worker",
        runtime="node",
        program="graphile_worker.mjs",
        packages=("graphile-worker@0.17.3", *NODE_CLIENT),
        database="PostgreSQL",
        setup="local queue 500, 100 jobs at once, completions in batches, poll 100 ms, undici",
        waiting=("SELECT count(*) FROM graphile_worker._private_jobs",),
    ),
    Peer(
        name="pgqueuer",
        runtime="python",
        program="run_pgqueuer.py",
        packages=("pgqueuer[asyncpg]==1.6.0", *PYTHON_CLIENT),
        database="PostgreSQL",
        setup="batches of 100, poll 100 ms, uvloop, aiohttp",
        waiting=("SELECT count(*) FROM pgqueuer",),
    ),
    Peer(
        name="pg-boss",
        runtime="node",
        program="pg_boss.mjs",
        packages=("pg-boss@10.4.2", *NODE_CLIENT),
        database="PostgreSQL",
        setup="4 pollers × 1,000 jobs, poll 500 ms (the least it takes), undici",
        waiting=("SELECT count(*) FROM pgboss.job WHERE name = 'post' AND state < 'completed'",),
    ),
    Peer(
        name="procrastinate",
        runtime="python",
        program="run_procrastinate.py",
        packages=("procrastinate==3.10.0", *PYTHON_CLIENT),
        database="PostgreSQL",
        setup="100 jobs at once, poll 100 ms, uvloop, aiohttp",
        waiting=("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",),
        fill_apart_us=2_500,
    ),
    Peer(
        name="BullMQ",
        runtime="node",
        program="bullmq.mjs",
        packages=("bullmq@6.7.0", "ioredis@6.0.0", *NODE_CLIENT),
        database="Redis",
        setup="200 jobs at once, Redis append-only everysec, undici",
        waiting=("ZCARD bull:post:delayed", "LLEN bull:post:wait", "LLEN bull:post:active"),
    ),
    Peer(
        name="Celery",
        runtime="python",
        program="run_celery.py",
        packages=("celery[redis,gevent]==5.7.0", "geventhttpclient==2.6.1"),
        database="Redis",
        setup="gevent 200, acks_late, no results, Redis append-only everysec, geventhttpclient",
        waiting=("LLEN celery", "HLEN unacked"),
        bulk=False,
        fill_us=2_000,
    ),
)
