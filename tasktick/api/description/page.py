"""The description as a page for people: plain HTML, one style of its own, no script, nothing from elsewhere. Pure."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from typing import Any

Document = dict[str, Any]

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{background:#f4f4f4;padding:.75rem;"
    "overflow:auto}details{border:1px solid #ddd;border-radius:4px;margin:.5rem 0;padding:.5rem .75rem}"
    "summary{cursor:pointer}b.method{display:inline-block;min-width:4.5rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;border-bottom:1px solid #eee;padding:.25rem .5rem .25rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}pre{background:#222}"
    "details{border-color:#444}th,td{border-color:#333}a{color:#8ab4f8}}"
)
STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page(document: Document) -> str:
    """The whole page."""
    info = document["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>",
        f"<p>{escape(info['description'])}</p>",
        '<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>',
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>")
        parts += [_operation(document, *one) for one in _operations(document, tag["name"])]
    parts.append("<h2>Models</h2>")
    parts += [_model(name, schema) for name, schema in document["components"]["schemas"].items()]
    return "".join([*parts, "</body></html>\n"])


def _operations(document: Document, tag: str) -> Iterator[tuple[str, str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield method, path, operation


def _operation(document: Document, method: str, path: str, operation: Document) -> str:
    body = escape(operation.get("description", ""))
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b class="method">{method.upper()}</b>'
        f"<code>{escape(path)}</code> {escape(operation['summary'])}</summary><p>{body}</p>"
        f"{_parameters(document, operation)}{_request(operation)}{_responses(document, operation)}</details>"
    )


def _parameters(document: Document, operation: Document) -> str:
    rows = []
    for given in operation["parameters"]:
        one = _resolved(document, given)
        rows.append(
            (f"<code>{escape(one['name'])}</code>", one["in"], escape(one.get("description", "")), _type(one["schema"]))
        )
    return _table(("Parameter", "In", "", "Type"), rows)


def _request(operation: Document) -> str:
    if "requestBody" not in operation:
        return ""
    shown = []
    for media_type, content in operation["requestBody"]["content"].items():
        example = content.get("example")
        sample = "" if example is None else f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"
        shown.append(f"<p>Body: <code>{escape(media_type)}</code> {_type(content['schema'])}</p>{sample}")
    return "".join(shown)


def _responses(document: Document, operation: Document) -> str:
    rows = []
    for status, given in operation["responses"].items():
        one = _resolved(document, given)
        kinds = [_type(content["schema"]) for content in one.get("content", {}).values()]
        rows.append((status, escape(one["description"]), " ".join(kinds)))
    return _table(("Status", "", "Body"), rows)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _resolved(document: Document, given: Document) -> Document:
    if "$ref" not in given:
        return given
    _, _, kind, name = given["$ref"].split("/")
    found: Document = document["components"][kind][name]
    return found


def _type(schema: Document) -> str:
    """A schema in a word or a few."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#model-{name}">{name}</a>'
    if "allOf" in schema:
        return _type(schema["allOf"][0])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"<code>{escape(json.dumps(one))}</code>" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return escape(str(schema.get("type", "any")))


def _model(name: str, schema: Document) -> str:
    needed = schema.get("required", [])
    rows = [
        (
            f"<code>{escape(field)}</code>{'' if field in needed else ' (optional)'}",
            _type(one),
            escape(one.get("description", "")),
        )
        for field, one in schema.get("properties", {}).items()
    ]
    return (
        f'<details id="model-{escape(name)}"><summary><code>{escape(name)}</code> '
        f"{escape(schema.get('description', ''))}</summary>{_table(('Field', 'Type', ''), rows)}</details>"
    )
