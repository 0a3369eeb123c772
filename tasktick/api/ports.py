"""What the API needs of the process that it runs in; `daemon.py` fills it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from tasktick.access.vault import Vault
from tasktick.api.event_feed import EventFeed
from tasktick.clock import Clock
from tasktick.dispatch.guard import AddressPolicy
from tasktick.model.ids import IdMaker
from tasktick.model.schedule import Plan
from tasktick.model.task import Due, TaskState
from tasktick.ready.standing import Standing
from tasktick.scheduler.book import Moment
from tasktick.settings import Config
from tasktick.store.protocol import ServingDatabase


def _nothing(_: Sequence[TaskState]) -> None:
    return


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """The world as the API sees it. Callables are hints and questions: none fails, and none waits but where it says."""

    database: ServingDatabase
    clock: Clock
    ids: IdMaker
    config: Config
    vault: Vault
    feed: EventFeed
    policy: Callable[[], AddressPolicy]
    """Which targets a task may have."""
    deciding: Callable[[str], Moment]
    """Now, as a decision about the schedule with this id sees it; asked in the transaction that writes it."""
    planned: Callable[[Sequence[Plan]], None] = lambda plans: None
    """These plans of schedules are committed."""
    due: Callable[[Sequence[Due]], None] = lambda rows: None
    """These tasks may go now, and that is committed."""
    created: Callable[[Sequence[TaskState]], None] = _nothing
    """These tasks are committed."""
    created_far: Callable[[int], None] = lambda count: None
    """So many are that are due after `near_until`."""
    near_until: Callable[[], int | None] = lambda: None
    """Until when those are due of which `created` is to tell; None is for ever."""
    pressed: Callable[[], bool] = lambda: False
    """Whether something is about to start: then nobody is to keep the store for long."""
    changed: Callable[[Sequence[TaskState]], None] = _nothing
    """These tasks have changed, and the change is committed; a removed one is shown as cancelled."""
    signing_changed: Callable[[str], None] = lambda tenant: None
    """The signing secrets of this tenant have changed."""
    key_used: Callable[[str, int], None] = lambda key_id, now: None
    """The API key with this id was used at this time."""
    reasons_not_ready: Callable[[], list[str]] = list
    """Codes of what stands in the way of being ready."""
    draining: Callable[[], bool] = lambda: False
    """Whether the process is on its way out: reads go on, writes are refused."""
    overloaded: Callable[[], bool] = lambda: False
    """Whether more work should be refused for now."""
    told: Callable[[Counter[str]], None] = lambda told: None
    """So many events of these types were told."""
    metrics_text: Callable[[], Awaitable[bytes]]
    """The metrics in Prometheus' text format. They may wait for other processes."""
    standings: Callable[[], Mapping[str, str] | None] = lambda: None
    """What gossip holds of each incarnation of a node; None without gossip."""
    rebalance: Callable[[], None] = lambda: None
    """Let every node look at the leases now."""
    standing: Callable[[str], Standing] = lambda task_id: Standing("unknown")
    """Where the task with this id is in this process's memory."""
    latencies: Callable[[], Mapping[str, float]] = dict
    """How long calls last of late, in milliseconds, by host, as far as this process has seen."""
    live_stats: Callable[[], dict[str, Any]] = dict
    """Rates, lateness and what is in flight, for /v1/stats."""
