"""Every checker fails on a bad sample and passes a good one beside it."""

import pytest

from tests.style import code, prose, queries
from tests.style.tree import Source
from tests.style.verdict import accept


def _code(text: str, path: str = "tasktick/store/rows.py") -> list[Source]:
    return [Source(path, text)]


def _function(lines: int) -> str:
    return "def grow():\n" + "    pass\n" * (lines - 1)


def test_accept_shows_every_complaint() -> None:
    accept([])
    with pytest.raises(AssertionError, match=r"(?s)first.*second"):
        accept(["first", "second"])


def test_long_files() -> None:
    assert code.long_files(_code("x = 1\n" * 401))
    assert not code.long_files(_code("x = 1\n" * 400))


def test_long_functions() -> None:
    assert code.long_functions(_code(_function(61)))
    assert code.long_functions(_code("async " + _function(61)))
    assert not code.long_functions(_code(_function(60)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tasktick/store/utils.py", ""),
        ("tasktick/common/rows.py", ""),
        ("tests/helpers.py", ""),
        ("tasktick/store/rows.py", "class TaskManager: ..."),
    ],
)
def test_empty_names(path: str, text: str) -> None:
    assert code.empty_names(_code(text, path))


def test_names_that_say_something() -> None:
    assert not code.empty_names(_code("class Managed: ...", "tasktick/store/uncommon.py"))


@pytest.mark.parametrize("text", ["", "import os", '"""Why."""\nfrom tasktick.model import ids\n'])
def test_busy_packages(text: str) -> None:
    assert code.busy_packages(_code(text, "tasktick/store/__init__.py"))


def test_package_that_is_a_docstring() -> None:
    assert not code.busy_packages(_code('"""Why."""\n', "tasktick/store/__init__.py"))
    versioned = '"""Why."""\n__version__ = "1"\n'
    assert not code.busy_packages(_code(versioned, "tasktick/__init__.py"))
    assert code.busy_packages(_code(versioned, "tasktick/store/__init__.py"))


def test_missing_packages() -> None:
    rows = Source("tasktick/store/rows.py", "")
    assert code.missing_packages([rows])
    assert not code.missing_packages([rows, Source("tasktick/store/__init__.py", "")])


@pytest.mark.parametrize(
    "user",
    [
        "import tasktick.store.rows",
        "from tasktick.store import rows",
        "from tasktick.store.rows import Row",
        'COMMANDS = {"rows": "tasktick.store.rows:group"}',
    ],
)
def test_dead_modules(user: str) -> None:
    rows = Source("tasktick/store/rows.py", "import tasktick.store.rows")
    unrelated = Source("tasktick/daemon.py", "import tasktick.store")
    assert code.dead_modules([rows, unrelated], ["tasktick.daemon"])
    assert not code.dead_modules([rows, Source("tasktick/daemon.py", user)], ["tasktick.daemon"])


@pytest.mark.parametrize(
    "call",
    [
        'log.info(f"fired {n}")',
        'log.info("Task fired")',
        "self._log.error(event, n=1)",
        'log.debug("fired", n)',
    ],
)
def test_loose_events(call: str) -> None:
    assert code.loose_events(_code(call))
    assert not code.loose_events(_code('log.info("task_fired", n=1)\nmath.log(2)\n'))


def test_sleeping_tests() -> None:
    assert code.sleeping_tests(_code("async def test_it():\n    await asyncio.sleep(0.2)\n"))
    assert code.sleeping_tests(_code("def test_it():\n    with server():\n        time.sleep(1)\n"))
    polling = "def test_it():\n    while not seen():\n        time.sleep(0.01)\n"
    receiver = "def test_it():\n    async def answer():\n        await asyncio.sleep(60)\n"
    yielding = "async def test_it():\n    await asyncio.sleep(0)\n"
    assert not code.sleeping_tests(_code(polling + receiver + yielding))


def _sql(text: str, path: str) -> Source:
    return Source(f"tasktick/store/sql/{path}", text)


def test_malformed_headers() -> None:
    for header in ("--name: task_get", "-- Name: task_get", "-- name: task-get", "-- name: task_get -- one"):
        assert queries.malformed([_sql(f"{header}\nSELECT 1;\n", "sqlite/tasks.sql")])
    assert not queries.malformed([_sql("-- the name of a task\n-- name: task_get\nSELECT 1;\n", "sqlite/tasks.sql")])


def test_misnamed_queries() -> None:
    twice = [_sql("-- name: get\n", "sqlite/tasks.sql"), _sql("-- name: get\n", "sqlite/dlq.sql")]
    assert queries.misnamed(queries.by_dialect(twice))
    assert queries.misnamed(queries.by_dialect([_sql("-- name: Get\n", "sqlite/tasks.sql")]))
    assert not queries.misnamed(queries.by_dialect(twice[:1]))


def test_differing_dialects() -> None:
    ours = _sql("-- name: get\n-- name: put\n", "sqlite/tasks.sql")
    same = _sql("-- name: put\n-- name: get\n", "postgres/tasks.sql")
    migration = _sql("-- name: only_here\n", "postgres/migrations/0001_tasks.sql")
    assert not queries.differing(queries.by_dialect([ours, same, migration]))
    assert queries.differing(queries.by_dialect([ours, _sql("-- name: get\n", "postgres/tasks.sql")]))
    assert queries.differing(queries.by_dialect([ours, _sql(same.text, "postgres/dlq.sql")]))
    own = _sql("-- name: mark_set\n", "postgres/marks.sql")
    assert not queries.differing(queries.by_dialect([ours, same, own]))
    assert queries.differing(queries.by_dialect([ours, same, _sql(own.text, "sqlite/marks.sql")]))


def test_unused_and_undefined_queries() -> None:
    dialects = queries.by_dialect([_sql("-- name: task_get\n", "sqlite/tasks.sql")])
    user = _code('await tx.rows("task_get", Task, id=id)')
    other = _code('await tx.rows("task_gone", Task, id=id)')
    methods = frozenset({"rows"})
    assert not queries.unused(dialects, user)
    assert queries.unused(dialects, other)
    assert not queries.undefined(dialects, user, methods)
    assert queries.undefined(dialects, other, methods)
    own = queries.by_dialect([_sql("-- name: mark_set\n", "postgres/marks.sql"), _sql("", "sqlite/tasks.sql")])
    assert not queries.undefined(own, _code('tx.rows("mark_set")', "tasktick/store/postgres.py"), methods)
    assert queries.undefined(own, _code('tx.rows("mark_set")', "tasktick/store/tasks.py"), methods)


@pytest.mark.parametrize(
    "line",
    [
        "# left over from an earlier session",
        "Written by a coding assistant.",
        "see /work/notes.txt",
        "as in ../shared/design.md",
        "pip install --index-url https://example.test/simple",
        "https://pypi.org/project/tasktick",
    ],
)
def test_unspoken(line: str) -> None:
    assert prose.unspoken([Source("README.md", line)])


def test_plain_speech() -> None:
    fine = "One aiohttp session; a User-Agent; https://receiver.test/work/1; it helps whoever calls it."
    assert not prose.unspoken([Source("README.md", fine)])


MAKEFILE = Source("Makefile", "BIN := .venv\nrun: venv ## Start it.\nvenv: ## Make it.\n")


def test_missing_targets() -> None:
    for text in ("Say `make fly`.", "```\n$ make fly\n```\n"):
        assert prose.missing_targets([Source("README.md", text)], MAKEFILE)
    fine = "Say `make run`; make sure it does.\n```sh\nmake run SEED=1\nmake venv\n```\n"
    assert not prose.missing_targets([Source("README.md", fine)], MAKEFILE)


def test_silent_targets() -> None:
    assert prose.silent_targets(Source("Makefile", "run: venv\n\ttasktick serve\n"))
    assert not prose.silent_targets(MAKEFILE)


def test_differing_settings() -> None:
    example = Source("tasktick.toml.example", "# The API.\n[api]\n# listen = '127.0.0.1:8080'\nkeep_ms = 5\n")
    assert not prose.differing_settings(example, {"api.listen", "api.keep_ms"})
    assert prose.differing_settings(example, {"api.listen", "api.keep_ms", "api.idle_ms"})
    assert prose.differing_settings(example, {"api.listen"})
