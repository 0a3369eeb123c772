"""What the state machine wants done, and what it has noticed."""

from enum import StrEnum

import msgspec

from tasktick.cluster.messages import Address, Node


class Send(msgspec.Struct, frozen=True):
    """Send these encoded messages in one datagram."""

    to: Address
    incarnation: str
    messages: tuple[bytes, ...]


class Exchange(msgspec.Struct, frozen=True):
    """Exchange whole states with whoever answers there."""

    address: Address


class Happening(StrEnum):
    """What may happen to a member. Also the name of the log event."""

    JOINED = "member_joined"
    UPDATED = "member_updated"
    SUSPECTED = "member_suspected"
    RECOVERED = "member_recovered"
    DIED = "member_died"
    LEFT = "member_left"
    REPLACED = "member_replaced"
    ACCUSED = "member_accused_us"
    CONFLICT = "node_name_conflict"


class Change(msgspec.Struct, frozen=True):
    """Something has happened to this member; `other` is whom it replaces, conflicts with or was accused by."""

    happening: Happening
    node: Node
    other: str = ""


Effect = Send | Exchange | Change
