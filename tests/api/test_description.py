"""The description: valid, whole, as committed, and for everybody to read."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasktick.api import answers, calendar_schemas, filters, schedule_schemas, schemas
from tasktick.api.description import parameters
from tasktick.api.description.__main__ import written
from tasktick.api.description.document import describe, statuses_of
from tasktick.api.description.examples import EXAMPLES
from tasktick.api.description.page import STYLE
from tasktick.api.routes import table
from tasktick.model.state import State
from tests.api.served import Served

ROUTES = table()
DOCUMENT = describe(ROUTES)
COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_committed_copy_is_of_this_version() -> None:
    assert COMMITTED.read_bytes() == written(), "run `make openapi`, and look at what has changed"


def test_it_is_valid() -> None:
    pytest.importorskip("openapi_spec_validator").validate(DOCUMENT)


async def test_it_is_served_to_everybody(served: Served) -> None:
    answer = await served.ask("GET", "/openapi.json", headers={"Authorization": ""})

    assert answer.status == 200
    assert answer.json == DOCUMENT


async def test_the_page_asks_for_nothing_from_elsewhere(served: Served) -> None:
    answer = await served.ask("GET", "/docs", headers={"Authorization": "", "Accept": "text/html"})

    page = answer.raw.decode()
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"<(script|link|img|iframe|object|embed)|\b(src|srcset|style|on\w+)=|url\(|@import", page)
    assert {target for target in re.findall(r'href="([^"#]*)', page) if target} == {"openapi.json"}
    assert page.count("<style>") == 1
    assert f"<style>{STYLE}</style>" in page
    assert all(f"<code>{route.path}</code>" in page for route in ROUTES)


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


def test_every_reference_leads_somewhere_and_every_component_is_referred_to() -> None:
    there = {f"#/components/{kind}/{name}" for kind, named in DOCUMENT["components"].items() for name in named}
    referred = _references(DOCUMENT)

    assert referred <= there
    unused = {name for name in there - referred if "securitySchemes" not in name}
    # Some codes are of what a later version brings, or of the connection.
    assert {name for name in unused if "/responses/" not in name} == set()


def test_every_route_is_described() -> None:
    operations = {
        (method.upper(), path): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(route.method, route.path) for route in ROUTES}
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    for route in ROUTES:
        operation = operations[route.method, route.path]
        assert sorted(map(int, operation["responses"])) == statuses_of(route)
        assert (operation.get("security") == []) == (route.permission is None)
        assert ("requestBody" in operation) == (route.model is not None)
        names = {one.get("name", one.get("$ref", "").rpartition("/")[2]) for one in operation["parameters"]}
        assert route.query <= names
        assert ("IdempotencyKey" in names) == (route.method == "POST" and route.writes)
        assert ("Tenant" in names) == (route.permission is not None)


def test_parameters_are_those_that_are_read() -> None:
    words = [getattr(filters, name) for name in dir(filters) if name.endswith("_WORDS")]

    assert set(parameters.QUERY) == set().union(*words)
    assert set(parameters.QUERY["state"][0]["items"]["enum"]) == {state.word for state in State}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_what_they_stand_for(name: str) -> None:
    model = (
        getattr(schemas, name, None)
        or getattr(schedule_schemas, name, None)
        or getattr(calendar_schemas, name, None)
        or getattr(answers, name)
    )
    msgspec.convert(EXAMPLES[name], model) if hasattr(answers, name) else msgspec.json.decode(
        msgspec.json.encode(EXAMPLES[name]), type=model
    )


def test_an_answer_may_grow_and_a_request_may_not() -> None:
    shown = DOCUMENT["components"]["schemas"]

    assert "additionalProperties" not in shown["Task"]
    assert shown["TaskRequest"]["additionalProperties"] is False
    assert shown["TaskBatch"]["properties"]["tasks"]["items"] == {"$ref": "#/components/schemas/TaskRequest"}
    assert shown["TaskRequest"]["required"] == ["target"]
