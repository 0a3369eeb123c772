"""How parameters become the values of a statement on PostgreSQL."""

from tasktick.store.postgres import bound
from tasktick.store.queries import positional

ROWS = [("a", 1, None), ("b", None, None)]


def test_columns_are_arrays_or_the_text_of_one() -> None:
    statement = positional("SELECT :rows__0::text[], :rows__1__joined::text::bigint[], :rows__2::text[], :n")
    assert bound(statement, {"rows": ROWS, "n": 3}) == [("a", "b"), "{1,NULL}", None, 3]


def test_what_is_made_for_one_kind_of_database_is_made_when_it_is_asked_for() -> None:
    statement = positional("SELECT :rows__0::text[], :names")
    assert bound(statement, {"rows": lambda: ROWS, "names": lambda: ["x"]}) == [("a", "b"), '["x"]']


def test_a_table_without_rows_has_empty_columns() -> None:
    assert bound(positional("SELECT :rows__0__joined::text::text[]"), {"rows": []}) == ["{}"]
