"""Serves the description: made at its first use, then the same for as long as the process lives."""

from collections.abc import Callable
from functools import cache

from tasktick.api.call import Call, Reply, encode
from tasktick.api.description.document import Document, describe
from tasktick.api.description.page import POLICY, page
from tasktick.api.routing import Route

OK = 200
HTML = "text/html; charset=utf-8"


def routes_of(table: Callable[[], tuple[Route, ...]]) -> tuple[Route, ...]:
    """The routes of the description of a table, which has them too."""

    @cache
    def document() -> Document:
        return describe(table())

    @cache
    def encoded() -> bytes:
        return encode(document())

    @cache
    def written() -> bytes:
        return page(document()).encode()

    async def openapi(_: Call) -> Reply:
        """GET /openapi.json."""
        return Reply(OK, encoded())

    async def docs(_: Call) -> Reply:
        """GET /docs."""
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return Reply(OK, written(), headers, HTML)

    return (
        Route("GET", "/openapi.json", openapi, None, (200,), "This description, for programs", answer=dict),
        Route(
            "GET",
            "/docs",
            docs,
            None,
            (200,),
            "This description, for people",
            answer=str,
            answer_media_type="text/html",
        ),
    )
