"""Figures of the process: plain numbers that cost nothing to count, and a collector that shows them to Prometheus.

Labels are few and fixed: never a tenant's name, an id or a URL. Histograms have buckets that grow by a
fixed factor, so a percentile read from them is right within that factor.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import sub

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

_FACTOR = 1.15
_BOUNDS_MS = tuple(0.25 * _FACTOR**power for power in range(130))
_SHOWN_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
RECENT_SECONDS = 300
# Attempts whose figures are put together at once: some hundred are as cheap each as thousands, which hold up the loop.
FOLDED_AT_ONCE = 250


class Distribution:
    """Durations in milliseconds, counted by bucket."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_MS) + 1)
        self.total = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def add(self, value_ms: float) -> None:
        """Count one."""
        self.add_all((value_ms,))

    def add_all(self, values_ms: Sequence[float]) -> None:
        """Count some, that are hardly ever the same."""
        counts = self.counts
        for at, count in Counter(map(partial(bisect_left, _BOUNDS_MS), values_ms)).items():
            counts[at] += count
        self.total += len(values_ms)
        self.sum_ms += sum(values_ms)
        self.max_ms = max(self.max_ms, *values_ms)

    def add_whole(self, values_ms: Iterable[int]) -> None:
        """Count some whole milliseconds, of which many are the same; what is before its time was on time."""
        counts = self.counts
        for value_ms, count in Counter(values_ms).items():
            self.total += count
            if value_ms > 0:
                counts[bisect_left(_BOUNDS_MS, value_ms)] += count
                self.sum_ms += value_ms * count
                self.max_ms = max(self.max_ms, value_ms)
            else:
                counts[0] += count

    def percentile(self, part: float) -> float | None:
        """The value that this part of all does not exceed, within a bucket; None if there is none."""
        if not self.total:
            return None
        wanted = part * self.total
        seen = 0
        for at, count in enumerate(self.counts):
            seen += count
            if seen >= wanted and count:
                return min(_BOUNDS_MS[at] if at < len(_BOUNDS_MS) else self.max_ms, self.max_ms)
        return self.max_ms

    def cumulative(self) -> list[tuple[str, float]]:
        """Buckets as Prometheus shows them, in seconds."""
        found: list[tuple[str, float]] = []
        for bound in _SHOWN_MS:
            found.append((str(bound / 1_000), sum(self.counts[: bisect_left(_BOUNDS_MS, bound * 1.0001)])))
        found.append(("+Inf", self.total))
        return found


class Rate:
    """How often something happened of late, by the second."""

    def __init__(self) -> None:
        # By second, a turn of RECENT_SECONDS long: which second it was, and how many. What is counted need not come
        # in order of time: an attempt is counted when it ends, in the second in which it began.
        self._seconds: list[tuple[int, int]] = [(0, 0)] * RECENT_SECONDS
        self.total = 0

    def add(self, now_ms: int, count: int = 1) -> None:
        """Count some, now."""
        self.total += count
        second = now_ms // 1_000
        known, counted = self._seconds[second % RECENT_SECONDS]
        self._seconds[second % RECENT_SECONDS] = (second, counted + count if known == second else count)

    def per_second(self, now_ms: int, over_seconds: int = 60) -> float:
        """The mean of the last whole seconds."""
        this = now_ms // 1_000
        return sum(count for second, count in self._seconds if this - over_seconds <= second < this) / over_seconds


class Metrics:
    """Everything that is counted."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.created = Rate()
        self._fired = Rate()
        self._stages = (Distribution(), Distribution(), Distribution(), Distribution())
        # Attempts that have ended and are not among these yet: when each began, was due and was claimed, and how long
        # the request took.
        self._fresh: list[tuple[int, int, int, float]] = []
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._registry = prometheus_client.CollectorRegistry()
        self._registry.register(self)
        prometheus_client.ProcessCollector(registry=self._registry)

    def attempted(self, began_at: int, due_at: int, picked_at: int, request_ms: float) -> None:
        """An attempt has ended that began then, was due then, was claimed then, and took so long."""
        self._fresh.append((began_at, due_at, picked_at, request_ms))
        if len(self._fresh) >= FOLDED_AT_ONCE:
            self._fold()

    def _fold(self) -> None:
        if not self._fresh:
            return
        began, due, picked, request_ms = zip(*self._fresh, strict=True)
        self._fresh.clear()
        for second, count in Counter([at // 1_000 for at in began]).items():
            self._fired.add(second * 1_000, count)
        late, pickup, queue, request = self._stages
        late.add_whole(map(sub, began, due))
        pickup.add_whole(map(sub, picked, due))
        queue.add_whole(map(sub, began, map(max, picked, due)))
        request.add_all(request_ms)

    @property
    def fired(self) -> Rate:
        """Attempts that were made, by when they began."""
        self._fold()
        return self._fired

    @property
    def lateness(self) -> Distribution:
        """From the time an attempt was due to its start."""
        self._fold()
        return self._stages[0]

    @property
    def pickup(self) -> Distribution:
        """From the time an attempt was due to its claim."""
        self._fold()
        return self._stages[1]

    @property
    def queue(self) -> Distribution:
        """From the claim to the start."""
        self._fold()
        return self._stages[2]

    @property
    def request(self) -> Distribution:
        """From the start to the answer."""
        self._fold()
        return self._stages[3]

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show what this returns whenever it is asked for."""
        self.gauges[name] = (text, value)

    def live(self, now_ms: int) -> dict[str, dict[str, float | None]]:
        """Lateness in seconds and rates, as `GET /v1/stats` shows them."""
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        late = {name: self.lateness.percentile(share) for name, share in shares.items()}
        return {
            "lateness": {name: None if value is None else round(value / 1_000, 6) for name, value in late.items()},
            "rates": {
                "created_per_second": round(self.created.per_second(now_ms), 3),
                "fired_per_second": round(self.fired.per_second(now_ms), 3),
            },
        }

    def render(self) -> bytes:
        """The page that Prometheus reads."""
        page: bytes = prometheus_client.generate_latest(self._registry)
        return page

    def collect(self) -> Iterable[Metric]:
        """The figures as Prometheus wants them."""
        created = CounterMetricFamily("tasktick_tasks_created", "Tasks accepted.")
        created.add_metric([], self.created.total)
        yield created
        attempts = CounterMetricFamily("tasktick_attempts", "Attempts that ended, by outcome.", labels=["outcome"])
        for outcome, count in sorted(self.attempts.items()):
            attempts.add_metric([outcome], count)
        yield attempts
        events = CounterMetricFamily("tasktick_events", "What happened, by name.", labels=["event"])
        for event, count in sorted(self.events.items()):
            events.add_metric([event], count)
        yield events
        for name, text, distribution in (
            ("lateness", "From the time an attempt was due to its start.", self.lateness),
            ("pickup", "From the time an attempt was due to its claim.", self.pickup),
            ("queue", "From the claim to the start.", self.queue),
            ("request", "From the start to the answer.", self.request),
        ):
            yield HistogramMetricFamily(
                f"tasktick_{name}_seconds",
                text,
                buckets=distribution.cumulative(),
                sum_value=distribution.sum_ms / 1_000,
            )
        for name, (text, value) in self.gauges.items():
            gauge = GaugeMetricFamily(f"tasktick_{name}", text)
            gauge.add_metric([], value())
            yield gauge
