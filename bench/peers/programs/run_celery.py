"""Celery with a pool of 200 greenlets and late acknowledgements, posting by a client made for gevent.

It holds what is due later in the worker's memory; a job is done when its message is acknowledged, so no results
are stored. It has no call that makes many jobs.
"""

from gevent import monkey

monkey.patch_all()

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import gevent
import gevent.os
from celery import Celery
from celery.signals import worker_ready
from geventhttpclient import HTTPClient

JOBS = 200
CALLERS = 32
LIFE_SECONDS = 3_600
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Over it, a message that waits for its time is delivered once more.
VISIBLE_SECONDS = 43_200

options: dict[str, Any] = json.loads(sys.argv[2])
app = Celery("peer", broker=f"redis+socket://{options['store']}")
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    broker_pool_limit=CALLERS,
    broker_connection_retry_on_startup=True,
    # Each job that ends acknowledges on a connection: with the default of ten, the eleventh would never be done.
    broker_transport_options={"visibility_timeout": VISIBLE_SECONDS, "max_connections": 2 * JOBS},
)
clients: dict[str, HTTPClient] = {}
# A worker greets on standard output, which is where we are listened to.
told = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


@app.task(name="post")
def post(data: dict[str, Any]) -> None:
    """One job."""
    url = urlsplit(data["url"])
    if url.netloc not in clients:
        clients[url.netloc] = HTTPClient(url.hostname, url.port, concurrency=JOBS)
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": str(data["number"]),
        "Tasktick-Scheduled-At": data["due"],
    }
    answer = clients[url.netloc].post(url.path, data["body"], headers)
    answer.read()
    if answer.status_code != 200:
        raise RuntimeError(f"answered with {answer.status_code}")


def say(value: dict[str, Any]) -> None:
    """Tell who asked."""
    told.write(json.dumps(value) + "\n")
    told.flush()


def add(number: int) -> None:
    """Job number n of a load: due at first_ms, and one more each step_us."""
    due = EPOCH + timedelta(milliseconds=options["first_ms"] + number * options["step_us"] // 1_000)
    text = due.isoformat(timespec="milliseconds")
    data = {"url": options["url"], "due": text, "number": number, "body": options["body"]}
    post.apply_async((data,), eta=due)


def fill() -> None:
    """So many jobs, by callers side by side."""
    numbers = iter(range(options["count"]))

    def caller() -> None:
        for number in numbers:
            add(number)

    gevent.joinall([gevent.spawn(caller) for _ in range(CALLERS)], raise_error=True)
    say({"created": options["count"]})


def create() -> None:
    """So many callers, each with one call under way, for so long; each calls once before that."""
    created = 0

    def call() -> None:
        nonlocal created
        add(created)
        created += 1

    def caller(until: float) -> None:
        while time.perf_counter() < until:
            call()

    gevent.joinall([gevent.spawn(call) for _ in range(options["callers"])], raise_error=True)
    before, began = created, time.perf_counter()
    callers = [gevent.spawn(caller, began + options["seconds"]) for _ in range(options["callers"])]
    gevent.joinall(callers, raise_error=True)
    say({"created": created, "timed": created - before, "seconds": time.perf_counter() - began})


def work() -> None:
    """The worker."""
    worker_ready.connect(lambda **_: say({"ready": True}), weak=False)
    flags = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")
    app.worker_main(["worker", "--pool=gevent", f"--concurrency={JOBS}", *flags])


def end_with_parent() -> None:
    """The pipe that is our standard input closes when who started us is gone."""
    gevent.os.tp_read(0, 1)
    os._exit(0)


signal.alarm(LIFE_SECONDS)
gevent.spawn(end_with_parent)
{"prepare": lambda: say({}), "fill": fill, "create": create, "work": work}[sys.argv[1]]()
# Its threads are greenlets, and one of them waits for our parent: nothing is left to be waited for.
os._exit(0)
