"""How the columns of rows travel to a PostgreSQL: what is alike is sent once."""

from typing import Any

import pytest

from tasktick.store.postgres import bound
from tasktick.store.queries import positional

STATEMENT = positional("SELECT :rows__0__joined, :rows__1__alike, :rows__1__apart, :rows__3__unlike_2")


@pytest.mark.parametrize(
    ("column", "alike", "apart"),
    [
        (("a", "a", "a"), "a", None),
        ((None, None, None), None, None),
        (("a", "b", "a"), None, ("a", "b", "a")),
        (("a", None, "a"), None, ("a", None, "a")),
        ((None, "a", None), None, (None, "a", None)),
        (("a",), "a", None),
        ((), None, None),
    ],
)
def test_what_all_have_is_sent_once_and_else_an_array(column: tuple[Any, ...], alike: Any, apart: Any) -> None:
    rows = [(number, one, 5, 5) for number, one in enumerate(column)]
    joined = "{" + ",".join(map(str, range(len(column)))) + "}"
    assert bound(STATEMENT, {"rows": rows}) == [joined, alike, apart, None]


@pytest.mark.parametrize(("other", "sent"), [((1, 2), None), ((1, 3), (1, 3)), ((1, None), (1, None))])
def test_an_array_that_is_another_is_not_sent(other: tuple[Any, ...], sent: tuple[Any, ...] | None) -> None:
    rows = [(0, "a", one, two) for one, two in zip((1, 2), other, strict=True)]
    assert bound(STATEMENT, {"rows": rows})[-1] == sent
