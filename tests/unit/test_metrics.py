"""Figures: rates by the second, distributions, and the page that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from tasktick.metrics import RECENT_SECONDS, Distribution, Metrics, Rate

NOW_MS = 1_763_000_000_500


def test_a_rate_is_the_mean_of_the_last_whole_seconds() -> None:
    rate = Rate()
    for second in range(100):
        rate.add(NOW_MS + second * 1_000, 10)
    assert rate.per_second(NOW_MS + 100_000) == 10
    assert rate.per_second(NOW_MS + 100_000 + RECENT_SECONDS * 1_000) == 0
    assert rate.total == 1_000


def test_a_rate_counts_what_comes_out_of_order() -> None:
    """Attempts end in any order; each is counted in the second in which it began."""
    rate = Rate()
    for turn in range(30_000):
        rate.add(NOW_MS - turn % 60 * 1_000)
    assert rate.per_second(NOW_MS + 1_000) == 500


def test_a_second_is_forgotten_when_its_place_is_needed() -> None:
    rate = Rate()
    rate.add(NOW_MS, 7)
    rate.add(NOW_MS + RECENT_SECONDS * 1_000, 60)
    assert rate.per_second(NOW_MS + (RECENT_SECONDS + 1) * 1_000) == 1
    assert rate.per_second(NOW_MS + 1_000) == 0


def test_a_percentile_is_right_within_a_bucket() -> None:
    distribution = Distribution()
    assert distribution.percentile(0.5) is None
    for value in range(1, 1_001):
        distribution.add(value)
    for part in (0.5, 0.9, 0.99, 1.0):
        found = distribution.percentile(part)
        assert found is not None
        assert part * 1_000 <= found <= part * 1_000 * 1.15
    distribution.add(10**9)
    assert distribution.percentile(1.0) == 10**9, "what is beyond the last bucket is the greatest there was"


def test_the_page_is_what_prometheus_reads() -> None:
    metrics = Metrics()
    metrics.attempts["succeeded"] += 3
    metrics.events["claim_stale"] += 1
    metrics.lateness.add(0.5)
    metrics.gauge("ready", "Tasks that wait.", lambda: 7)
    families = {one.name: one for one in text_string_to_metric_families(metrics.render().decode())}
    assert [(one.labels, one.value) for one in families["tasktick_attempts"].samples] == [({"outcome": "succeeded"}, 3)]
    assert [(one.labels, one.value) for one in families["tasktick_events"].samples] == [({"event": "claim_stale"}, 1)]
    assert families["tasktick_ready"].samples[0].value == 7
    buckets = [one for one in families["tasktick_lateness_seconds"].samples if one.name.endswith("_bucket")]
    counts = [one.value for one in buckets]
    assert counts == sorted(counts)
    assert (buckets[0].labels["le"], counts[0], counts[-1]) == ("0.001", 1, 1)
