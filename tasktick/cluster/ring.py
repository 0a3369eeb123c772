"""Which node should own which partition: rendezvous hashing over the rows of the `nodes` table.

Each partition goes to the node whose hash with it is highest, so a node that comes takes its share from each of
the others and moves nothing else, and one that goes leaves its own to the others and moves nothing else.
The hash is over the name, not the incarnation: a node that is started again gets back what it had.

Placement depends on what the database holds and on nothing else. A node that gossip suspects keeps what it has
for as long as its row has not expired; one that is drained, or has expired, gets nothing.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from tasktick.model.ids import PARTITIONS
from tasktick.model.partition import ALL_PARTITIONS, NodeRow

_SCORE_BYTES = 8


def live(nodes: Iterable[NodeRow], now: int) -> dict[str, NodeRow]:
    """By incarnation, those whose term has not expired at this instant of the database."""
    return {node.incarnation: node for node in nodes if node.dead_at is None and node.expires_at > now}


def namesake(nodes: Iterable[NodeRow], me: str, now: int) -> NodeRow | None:
    """Who has started later under the name of this one, and lives: it gets all that goes by that name."""
    living = live(nodes, now)
    mine = living.get(me)
    others = [] if mine is None else [node for node in living.values() if node.name == mine.name and node is not mine]
    return next((node for node in others if mine is not None and _began(node) > _began(mine)), None)


def lingering(nodes: Iterable[NodeRow], me: str, now: int) -> list[NodeRow]:
    """Who has started earlier under the name of this one, and has neither ended nor begun to: dead yet, or not."""
    living = live(nodes, now)
    mine = living.get(me)
    return [
        node
        for node in living.values()
        if mine is not None and node.name == mine.name and not node.leaving and _began(node) < _began(mine)
    ]


def _began(node: NodeRow) -> tuple[int, str]:
    return node.started_at, node.incarnation


def eligible(nodes: Iterable[NodeRow], now: int) -> dict[str, NodeRow]:
    """By name, those that may own something: live, not drained, and the last start of their name."""
    latest: dict[str, NodeRow] = {}
    for node in live(nodes, now).values():
        other = latest.get(node.name)
        if other is None or _began(node) > _began(other):
            latest[node.name] = node
    return {name: node for name, node in latest.items() if not node.drained}


def placement(nodes: Iterable[NodeRow], now: int) -> dict[int, str]:
    """Incarnation by partition, of all; empty if nobody is eligible."""
    owners = eligible(nodes, now)
    if not owners:
        return {}
    scores = {name: _scores(name) for name in sorted(owners)}
    return {
        partition: owners[max(scores, key=lambda name: scores[name][partition])].incarnation
        for partition in ALL_PARTITIONS
    }


def wanted(nodes: Iterable[NodeRow], me: str, now: int) -> frozenset[int]:
    """The partitions that this incarnation should own."""
    return frozenset(partition for partition, owner in placement(nodes, now).items() if owner == me)


@lru_cache(maxsize=1_024)
def _scores(name: str) -> tuple[bytes, ...]:
    """The hash of a name with each partition, equal on every node and in every version."""
    key = name.encode()
    return tuple(
        hashlib.blake2b(key + bytes((0, partition)), digest_size=_SCORE_BYTES).digest()
        for partition in range(PARTITIONS)
    )
