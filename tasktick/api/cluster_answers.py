"""The models of answers about nodes and partitions."""

from typing import Annotated, Literal

from msgspec import Meta

from tasktick.api.answers import Answered, Seconds, Time

NodeId = Annotated[str, Meta(description="One start of a node: another with each.")]


class ClusterNode(Answered):
    """One start of a node, as the database has it."""

    id: NodeId
    name: str
    address: Annotated[str | None, Meta(description="Where its API listens.")]
    state: Literal["live", "draining", "drained", "leaving", "expired"]
    partitions: Annotated[int, Meta(description="How many it owns.")]
    version: str | None
    tzdata: str | None
    started_at: Time
    expires_at: Annotated[
        Time | None, Meta(description="When its term ends unless renewed; null where the store is its alone.")
    ]
    clock_offset: Annotated[
        Seconds | None,
        Meta(description="How far its clock was ahead of the store's at its last renewal; null where they are one."),
    ]
    history_regressed: Annotated[
        int,
        Meta(
            description="How often this process has found the store without something that had been there: what was "
            "acknowledged last before may be missing."
        ),
    ]
    gossip: Annotated[
        Literal["alive", "suspect", "dead", "left"] | None,
        Meta(description="What gossip holds of it; null without gossip, or if gossip does not know it."),
    ]


class ClusterPartition(Answered):
    """A share of all tasks and schedules, and who owns it."""

    partition: int
    owner: NodeId | None
    node: Annotated[str | None, Meta(description="The owner's name.")]
    epoch: Annotated[int, Meta(description="Grows each time it changes hands.")]
    expires_at: Time | None
    wanted_by: Annotated[NodeId | None, Meta(description="Who has asked its owner for it.")]
    state: Literal["owned", "moving", "free"]


class Cluster(Answered):
    """All nodes and all partitions at one instant of the database."""

    shared: Annotated[bool, Meta(description="Whether other nodes may use the store too.")]
    lease_ttl: Seconds | None
    tzdata_agrees: Annotated[bool, Meta(description="Whether all nodes have the same time zones.")]
    nodes: list[ClusterNode]
    partitions: list[ClusterPartition]
