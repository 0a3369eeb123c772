"""The Python of the tree keeps its sizes and its names, and none of it is dead."""

import tomllib

from tests.style import code, tree
from tests.style.verdict import accept

# Whole and tested, and started by nobody yet: the ring, until a node joins it and its leases follow it.
AWAITED: tuple[str, ...] = ()


def _entry_modules() -> list[str]:
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["project"]
    return [target.partition(":")[0] for target in project.get("scripts", {}).values()]


def test_files_are_short() -> None:
    accept(code.long_files(tree.python()))


def test_functions_are_short() -> None:
    accept(code.long_functions(tree.python()))


def test_names_say_something() -> None:
    accept(code.empty_names(tree.python()))


def test_packages_are_docstrings() -> None:
    accept(code.busy_packages(tree.python("tasktick")))
    accept(code.missing_packages(tree.python("tasktick")))


def test_no_module_is_dead() -> None:
    accept(code.dead_modules(tree.python("tasktick"), [*_entry_modules(), *AWAITED]))


def test_what_is_awaited_has_not_come() -> None:
    dead = " ".join(code.dead_modules(tree.python("tasktick"), _entry_modules()))
    accept([f"{module}: it is in use, strike it from AWAITED" for module in AWAITED if _path(module) not in dead])


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def test_log_events_are_constants() -> None:
    accept(code.loose_events(tree.python("tasktick")))


def test_tests_do_not_sleep() -> None:
    accept(code.sleeping_tests(tree.python("tests")))
