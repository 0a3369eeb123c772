"""The SQL of the store: one name, one file, every dialect, and no statement that nothing calls."""

from tests.style import queries, tree
from tests.style.verdict import accept

# The methods of a Transaction that take the name of a query.
METHODS = frozenset({"rows", "run", "text"})


def test_headers_are_read_by_the_loader() -> None:
    accept(queries.malformed(tree.sql()))


def test_names_are_unique() -> None:
    accept(queries.misnamed(queries.by_dialect(tree.sql())))


def test_dialects_define_the_same_names() -> None:
    accept(queries.differing(queries.by_dialect(tree.sql())))


def test_every_query_is_used() -> None:
    accept(queries.unused(queries.by_dialect(tree.sql()), tree.python("tasktick/store")))


def test_every_used_query_is_there() -> None:
    dialects = queries.by_dialect(tree.sql())
    accept(queries.undefined(dialects, tree.python("tasktick/store"), METHODS))
