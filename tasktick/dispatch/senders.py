"""The ways of sending that there are, by their names in the settings. Each passes the same suites."""

from collections.abc import Callable
from typing import TypeAlias

from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.sender import SenderLimits
from tasktick.dispatch.webhook import WebhookSender
from tasktick.dispatch.wire_sender import WireSender
from tasktick.service import Spawner
from tasktick.settings import DispatchConfig

AnySender: TypeAlias = WebhookSender | WireSender

SENDERS: dict[str, type[WebhookSender] | type[WireSender]] = {"session": WebhookSender, "wire": WireSender}


def make_sender(
    config: DispatchConfig, policy: AddressPolicy, monotonic: Callable[[], float], spawn: Spawner
) -> AnySender:
    """The one that the settings ask for."""
    limits = SenderLimits(connections_max=config.in_flight_max, connect_timeout_ms=config.connect_timeout_ms)
    return SENDERS[config.sender](policy, monotonic, limits, spawn=spawn)
