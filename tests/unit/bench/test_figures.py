"""The arithmetic of a bench: a figure that is computed wrongly is worse than none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Figure, as_record, at_least, at_most, per_second, percentile, ratio, shown, table


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(values, part) for part in (0.2, 0.5, 0.8, 0.81, 1)] == [1, 3, 4, 5, 5]


def test_the_tail_is_not_rounded_away() -> None:
    values = [float(n) for n in range(1, 1_001)]
    assert [percentile(values, part) for part in (0.5, 0.99, 0.999)] == [500, 990, 999]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0.001, 1))
def test_at_least_its_part_of_all_is_not_above_a_percentile(values: list[float], part: float) -> None:
    found = percentile(values, part)
    assert found in values
    assert sum(value <= found for value in values) >= round(part, 6) * len(values) - 1e-6


@pytest.mark.parametrize("part", [0, -0.1, 1.1])
def test_a_part_that_is_none_is_refused(part: float) -> None:
    with pytest.raises(ValueError, match="part"):
        percentile([1.0], part)


def test_nothing_has_no_percentile_and_no_rate() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="time"):
        per_second(10, 0)
    assert per_second(10, 4) == 2.5


def test_a_figure_is_the_median_of_its_rounds() -> None:
    assert Figure("x", "/s", (9.0, 1.0, 2.0)).value == 2
    assert Figure("x", "/s", (1.0, 2.0)).value == 1.5


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("x", "/s", (8.0,), at_least(8)), "met"),
        (Figure("x", "/s", (7.9,), at_least(8)), "missed"),
        (Figure("x", "ms", (3.0,), at_most(3)), "met"),
        (Figure("x", "ms", (3.1,), at_most(3)), "missed"),
        (Figure("x", "ms", (3.1,)), ""),
    ],
)
def test_a_target_says_which_way_is_better(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict


def test_a_ratio_is_taken_round_by_round() -> None:
    """The machine slowed down in the second round, for both: the ratio did not change."""
    found = ratio("r", Figure("a", "/s", (50.0, 20.0, 45.0)), Figure("b", "/s", (100.0, 40.0, 100.0)))
    assert found.rounds == (0.5, 0.5, 0.45)
    assert found.value == 0.5


@pytest.mark.parametrize(
    ("value", "text"), [(23_456.7, "23,457"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0, "0.00")]
)
def test_a_number_shows_what_it_means(value: float, text: str) -> None:
    assert shown(value) == text


def test_the_table_and_the_record_say_the_same() -> None:
    figures = [Figure("fires", "/s", (9_000.0, 8_000.0, 7_000.0), at_least(8_500)), Figure("limit", "/s", (20_000.0,))]
    text = table("fire", figures)
    assert text.splitlines()[0] == "fire"
    assert "8,000" in text
    assert "missed" in text
    record = as_record(figures)
    assert [one["median"] for one in record] == [8_000, 20_000]
    assert [one["verdict"] for one in record] == ["missed", None]
