"""`ctl cluster`, `drain`, `undrain`, `rebalance`: the nodes, what each owns, and what an operator does about it."""

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import click
import msgspec

from tasktick.client import cluster as requests
from tasktick.client.core import Answer, Request
from tasktick.ctl import render
from tasktick.ctl.connect import Session, new_key, server_options, session
from tasktick.ctl.ring_picture import letters, picture

COLUMNS = ("", "name", "state", "partitions", "gossip", "address", "version", "tzdata", "started_at", "id")
NODE = click.argument("node", metavar="NODE")
NO_WAIT = click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
OK = 200
GOING_ON = 202
LOOK_EVERY_S = 0.5
INTERRUPTED = 130
CLOCK_OFFSET_MOST_S = 1.0


@click.command("cluster")
@server_options
def show() -> None:
    """Show the nodes, and a picture of who owns what.

    In the picture each node is a letter, its arc as long as its share; partitions on their way are in small letters,
    those that nobody owns are dots.

    \b
    Examples:
      tasktick ctl cluster
      tasktick ctl cluster -o json
    """
    connected = session()
    answer = connected.send(requests.show())
    if connected.as_json:
        render.document(answer)
        return
    _print(answer.json() or {})


def _print(cluster: Mapping[str, Any]) -> None:
    names = letters(cluster["nodes"])
    nodes = _with_silent(cluster)
    rows = [[names[node["id"]], *(node.get(column) for column in COLUMNS[1:])] for node in nodes]
    render.table(COLUMNS, rows, whole=("", "name", "state", "partitions"))
    click.echo()
    render.cells(picture(cluster))
    for line in _moves(cluster):
        click.echo(line)
    for node in cluster["nodes"]:
        if node.get("history_regressed"):
            render.say(
                f"Mind: {render.clean(node['name'])} found the store without what it had said, "
                f"{node['history_regressed']} times; tasks that were acknowledged last before may be missing."
            )
        if abs(node.get("clock_offset") or 0) > CLOCK_OFFSET_MOST_S:
            render.say(f"Mind: the clock of {render.clean(node['name'])} is {node['clock_offset']} s off the store's.")
    if not cluster.get("tzdata_agrees", True):
        render.say(
            "Mind: the nodes have different time zones (tzdata), and may compute different times for a schedule."
        )


def _with_silent(cluster: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The nodes; one that renews its term no more, while others do, is called silent until the term has passed.

    The ends of the terms are compared with each other: no clock of this machine, nor of the one that answers.
    """
    ends = {node["id"]: _seconds(node["expires_at"]) for node in cluster["nodes"] if node["expires_at"]}
    newest = max(ends.values(), default=0.0)
    patience = (cluster.get("lease_ttl") or math.inf) / 2
    return [
        {**node, "state": "silent"}
        if node["state"] == "live" and newest - ends.get(node["id"], newest) > patience
        else dict(node)
        for node in cluster["nodes"]
    ]


def _seconds(time: str) -> float:
    """Seconds since the Unix epoch."""
    return datetime.fromisoformat(time).timestamp()


def _moves(cluster: Mapping[str, Any]) -> list[str]:
    """Who is moving what."""
    names = {node["id"]: node["name"] for node in cluster["nodes"]}
    moving = [one for one in cluster["partitions"] if one["state"] == "moving"]
    counted = Counter((names.get(one["owner"]), names.get(one["wanted_by"])) for one in moving)
    return [
        f"{count} on their way from {render.word(owner)} to {render.word(heir or 'another, who has not asked yet')}"
        for (owner, heir), count in sorted(counted.items(), key=str)
    ]


@click.command("drain")
@NODE
@NO_WAIT
@server_options
def drain(node: str, no_wait: bool) -> None:
    """Let a NODE, by its name or id, hand over everything, and take nothing until it is undrained.

    Calls that it has begun end there. It goes on answering the API. Waits until it owns nothing; Ctrl-C ends the
    waiting only.

    \b
    Examples:
      tasktick ctl drain a
      tasktick ctl drain a --no-wait
    """
    _move(requests.drain(node, new_key()), "drain", lambda owned: owned == 0, no_wait=no_wait)


@click.command("undrain")
@NODE
@server_options
def undrain(node: str) -> None:
    """Let a NODE take its share again.

    \b
    Example:
      tasktick ctl undrain a
    """
    _move(requests.undrain(node, new_key()), "undrain", lambda owned: True, no_wait=True)


@click.command("rebalance")
@server_options
def rebalance() -> None:
    """Let every node look now at what it should own.

    Partitions go where they belong by themselves, within a third of a term; this does not change where that is.

    \b
    Example:
      tasktick ctl rebalance
    """
    connected = session()
    answer = connected.send(requests.rebalance(new_key()))
    if connected.as_json:
        render.document(answer)
    else:
        _print(answer.json() or {})


def _move(request: Request, what: str, is_done: Callable[[int], bool], *, no_wait: bool) -> None:
    connected = session()
    answer = connected.send(request)
    node: dict[str, Any] = answer.json() or {}
    if answer.status == GOING_ON and not no_wait:
        node = _wait(connected, node, is_done)
    if connected.as_json:
        render.document(answer if answer.status != GOING_ON or no_wait else Answer(OK, msgspec.json.encode(node)))
    else:
        render.record(node.items())
    if what == "undrain":
        name = render.clean(str(node.get("name")))
        if answer.status == GOING_ON:
            render.say(f"{name} is undrained, and takes its share within a third of a term: tasktick ctl cluster")
        else:
            render.say(f"{name} is undrained, and has what it should.")
    elif answer.status == GOING_ON and no_wait:
        render.say(f"The {what} goes on: tasktick ctl cluster")


def _wait(connected: Session, node: dict[str, Any], is_done: Callable[[int], bool]) -> dict[str, Any]:
    """Look again and again, and say how far it is."""
    pause, said = threading.Event(), None
    try:
        while not is_done(node["partitions"]):
            if node["partitions"] != said:
                said = node["partitions"]
                render.say(f"{render.clean(node['name'])} still owns {said} partitions")
            pause.wait(LOOK_EVERY_S)
            found = connected.send(requests.show()).json() or {}
            # One that owns nothing and has ended is not shown any more.
            gone = {**node, "state": "expired", "partitions": 0}
            node = next((one for one in found["nodes"] if one["id"] == node["id"]), gone)
    except KeyboardInterrupt:
        render.say("It goes on without being watched: tasktick ctl cluster")
        click.get_current_context().exit(INTERRUPTED)
    return node
