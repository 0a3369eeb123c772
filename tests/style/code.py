"""Checkers of Python: sizes, names, packages, dead modules, log events, sleeping tests."""

import ast
import re
from collections.abc import Iterable, Iterator

from tests.style.tree import Source

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
# They say that something was put where it was handy, not what it is.
EMPTY_NAMES = frozenset({"common", "helper", "helpers", "manager", "managers", "misc", "util", "utilities", "utils"})
EMPTY_CLASS_ENDINGS = ("Helper", "Helpers", "Manager", "Util", "Utils")
EVENT_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LOG_METHODS = frozenset({"critical", "debug", "error", "exception", "info", "warn", "warning"})
LOGGER_NAMES = frozenset({"log", "_log", "logger", "_logger"})
# A user's program imports these, not a module of ours.
PUBLIC_PACKAGES = ("tasktick.client.",)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def long_files(sources: Iterable[Source]) -> list[str]:
    """No file needs more than a few screens."""
    counted = ((source.path, len(source.text.splitlines())) for source in sources)
    return [f"{path}: {n} lines, {FILE_LINES_MAX} at most" for path, n in counted if n > FILE_LINES_MAX]


def long_functions(sources: Iterable[Source]) -> list[str]:
    """No function needs more than one screen."""
    return [
        f"{source.path}:{node.lineno}: {node.name} has {lines} lines, {FUNCTION_LINES_MAX} at most"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, Function)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def empty_names(sources: Iterable[Source]) -> list[str]:
    """Modules, folders and classes are named for what they are."""
    complaints = []
    for source in sources:
        stems = {part.removesuffix(".py") for part in source.parts}
        complaints += [f"{source.path}: `{stem}` says nothing" for stem in sorted(stems & EMPTY_NAMES)]
        complaints += [
            f"{source.path}:{node.lineno}: class {node.name} says nothing"
            for node in ast.walk(source.tree)
            if isinstance(node, ast.ClassDef) and node.name.endswith(EMPTY_CLASS_ENDINGS)
        ]
    return complaints


def busy_packages(sources: Iterable[Source]) -> list[str]:
    """An `__init__.py` says what its package is for and does nothing; the root adds its version."""
    complaints = []
    for source in sources:
        if source.name != "__init__.py":
            continue
        if not ast.get_docstring(source.tree):
            complaints.append(f"{source.path}: a package opens with what it is for")
        rest = source.tree.body[1:]
        if source.module == "tasktick":
            rest = [statement for statement in rest if not _is_version(statement)]
        complaints += [f"{source.path}:{statement.lineno}: only a docstring stands here" for statement in rest]
    return complaints


def _is_version(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [
        "__version__"
    ]


def missing_packages(sources: Iterable[Source]) -> list[str]:
    """Every folder of modules is a package, with its docstring."""
    paths = {source.path for source in sources}
    folders = {path.rpartition("/")[0] for path in paths}
    return [f"{folder}: has no __init__.py" for folder in sorted(folders) if f"{folder}/__init__.py" not in paths]


def dead_modules(sources: Iterable[Source], entries: Iterable[str]) -> list[str]:
    """Every module is used by another one, is where a program starts, or is for users to import."""
    by_name = {source.module: source for source in sources}
    used = set(entries)
    for name, source in by_name.items():
        used |= {other for other in _mentions(source) if other != name}
    return [
        f"{source.path}: no module imports it"
        for name, source in by_name.items()
        if source.name not in {"__init__.py", "__main__.py"}
        and name not in used
        and not name.startswith(PUBLIC_PACKAGES)
    ]


def _mentions(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(value)) if value.startswith("tasktick."):
                # A command that is loaded when it is called names its module: "tasktick.ctl.task:group".
                yield value.partition(":")[0]
            case _:
                pass


def loose_events(sources: Iterable[Source]) -> list[str]:
    """A log line is one constant event name and bound fields, so that it can be searched for."""
    return [
        f"{source.path}:{call.lineno}: a log event is a constant in snake_case, the rest are fields"
        for source in sources
        for call in ast.walk(source.tree)
        if isinstance(call, ast.Call) and _logs(call.func) and not _names_event(call)
    ]


def _logs(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id=name), attr=method):
            return method in LOG_METHODS and name in LOGGER_NAMES
        case ast.Attribute(value=ast.Attribute(attr=name), attr=method):
            return method in LOG_METHODS and name in LOGGER_NAMES
        case _:
            return False


def _names_event(call: ast.Call) -> bool:
    match call.args:
        case [ast.Constant(value=str(event))]:
            return EVENT_NAME.fullmatch(event) is not None
        case _:
            return False


def sleeping_tests(sources: Iterable[Source]) -> list[str]:
    """A test waits for what it wants to see, with a deadline; it does not sleep and hope."""
    return [
        f"{source.path}:{call.lineno}: {function.name} sleeps; wait for an event with a deadline"
        for source in sources
        for function in ast.walk(source.tree)
        if isinstance(function, Function) and function.name.startswith("test_")
        for call in _straight_calls(function.body)
        if ast.unparse(call.func) in {"asyncio.sleep", "time.sleep"} and ast.unparse(call.args[0]) != "0"
    ]


def _straight_calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Calls that the function makes itself, once: not in a loop, nor in a function that it defines."""
    for node in nodes:
        if isinstance(node, ast.While | ast.For | ast.AsyncFor | ast.Lambda | Function):
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from _straight_calls(ast.iter_child_nodes(node))
