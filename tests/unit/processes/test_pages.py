"""Metrics of several processes on one page."""

from prometheus_client.parser import text_string_to_metric_families

from tasktick.metrics import Metrics
from tasktick.processes.pages import labelled, merged, own_page


def page_of(created: int) -> str:
    metrics = Metrics()
    metrics.created.add(1_000, created)
    metrics.attempts["succeeded"] += created
    metrics.lateness.add(3.0)
    metrics.gauge("ready", "Tasks that wait.", lambda: 2.0)
    return metrics.render().decode()


def test_each_sample_says_whose_it_is() -> None:
    page = merged({"a-1": page_of(3), "a-2": page_of(5)}) + own_page({"a-1": True, "a-2": False}, {"a-1": 0, "a-2": 7})
    families = list(text_string_to_metric_families(page))
    assert len({family.name for family in families}) == len(families), "the head of each is said once"
    samples = [one for family in families for one in family.samples]
    values = {(one.name, *sorted(one.labels.items())): one.value for one in samples}
    assert values["tasktick_tasks_created_total", ("node", "a-1")] == 3
    assert values["tasktick_tasks_created_total", ("node", "a-2")] == 5
    assert values["tasktick_attempts_total", ("node", "a-2"), ("outcome", "succeeded")] == 5
    assert values["tasktick_lateness_seconds_bucket", ("le", "+Inf"), ("node", "a-1")] == 1
    assert values["tasktick_process_up", ("node", "a-2")] == 0
    assert values["tasktick_process_restarts_total", ("node", "a-2")] == 7
    assert {one.labels["node"] for one in samples} == {"a-1", "a-2"}


def test_who_did_not_answer_is_not_there() -> None:
    assert merged({}) == ""
    assert 'node="a-1"' in merged({"a-1": page_of(1)})


def test_a_node_is_a_label_like_any_other() -> None:
    assert labelled("up 1.0", 'a"\\') == 'up{node="a\\"\\\\"} 1.0'
    assert labelled('up{le="1 s"} 1.0', "a") == 'up{node="a",le="1 s"} 1.0'
    assert labelled("up{} 1.0", "a") == 'up{node="a"} 1.0'
