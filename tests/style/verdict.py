"""How a checker's complaints end a test: all of them, one a line."""


def accept(complaints: list[str]) -> None:
    """Pass if nobody complains."""
    __tracebackhide__ = True
    if complaints:
        raise AssertionError("\n".join(["", *complaints]))
