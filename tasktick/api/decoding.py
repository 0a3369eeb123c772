"""From the bytes of a body to a request's model: what cannot be read, and every fault of what can.

The fast path is one typed decode. Only where that fails is the body read again, field by field, so that
all faults come back at once, each with its JSON pointer. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from tasktick.errors import Refused

Fault = tuple[str, str]

FAULTS_MAX = 100
NAME_SHOWN_CHARS = 100

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile(
    rb"(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


# What msgspec says of a value of another kind, and how people call the kinds.
_KINDS = re.compile(r"Expected `([\w |]+)`, got `(\w+)`")
_KIND_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


class Decoder:
    """Reads bodies of one model; where more comes behind one, it is said what to do."""

    def __init__(self, model: type[msgspec.Struct], on_more: str = "") -> None:
        self._decoder = msgspec.json.Decoder(model)
        self._model = model
        self._on_more = on_more

    def decode(self, body: bytes | msgspec.Raw, depth_max: int) -> Any:
        """The model, or the refusal that names every fault."""
        raw = bytes(body)
        check_depth(raw, depth_max)
        try:
            if not raw.isascii():
                raw.decode()  # what stays as it was written is otherwise never looked at
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise _refusal(self._faults(raw) or [("", _sentence(str(error)))]) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable(raw, error, self._on_more) from None

    def _faults(self, raw: bytes) -> list[Fault]:
        try:
            document = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable(raw, error, self._on_more) from None
        return list(islice(_struct_faults(self._model, document, ""), FAULTS_MAX))


def _refusal(faults: list[Fault]) -> Refused:
    return Refused("validation_failed", summary(faults), errors=faults)


def summary(faults: Sequence[Fault]) -> str:
    """What is wrong with a request, in a sentence: all of it, if that is one thing."""
    first = faults[0][1]
    return first if len(faults) == 1 else f"The request has {len(faults)} faults. The first: {first}"


def unreadable(raw: bytes, error: Exception, on_more: str = "") -> Refused:
    """Why these bytes are no JSON; where they are, and more comes behind, what to do."""
    if not raw.strip():
        return Refused("malformed", "The request needs a JSON body.")
    if isinstance(error, UnicodeDecodeError):
        return Refused("malformed", "The body is not UTF-8.")
    if isinstance(error, RecursionError):
        return Refused("malformed", "The body is nested too deep.")
    if _SURROGATE.search(raw):
        detail = "Half of a surrogate pair is no character, so it cannot be stored."
        return Refused("validation_failed", detail, errors=[("", detail)])
    why = str(error).removeprefix("JSON is malformed: ")
    advice = f" {on_more}" if on_more and why.startswith("trailing characters") else ""
    return Refused("malformed", f"The body is no JSON: {why}.{advice}")


def check_depth(raw: bytes, depth_max: int) -> None:
    """Refuse what is nested deeper, before a parser goes down there.

    Whatever has fewer brackets than that passes at once. Else strings are cut out, and what is innermost is
    taken away, level by level: a few passes of plain byte replacement, whatever the body's shape.
    """
    # To take them out goes from one to the next, to count them looks at every byte.
    if len(raw) - len(raw.replace(b"{", b"").replace(b"[", b"")) <= depth_max:
        return
    rest = _STRINGS.sub(b"", raw).translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(depth_max):
        if not rest:
            return
        rest = rest.replace(b"[]", b"")
    if rest.strip(b"]"):
        raise Refused("malformed", f"The body is nested deeper than {depth_max} levels, or its brackets do not match.")


def pointer_of(*names: object) -> str:
    """A JSON pointer to a member, by the names on the way."""
    return "".join("/" + _shown(str(name)).replace("~", "~0").replace("/", "~1") for name in names)


def _shown(name: str) -> str:
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in name[:NAME_SHOWN_CHARS])


def _struct_faults(model: type[msgspec.Struct], document: Any, at: str) -> Iterator[Fault]:
    if not isinstance(document, dict):
        yield at, getattr(model, "ADVICE", {}).get("", "This must be an object.")
        return
    hints = get_type_hints(model)
    fields = {field.encode_name: field for field in msgspec.structs.fields(model)}
    for name, value in document.items():
        pointer = at + pointer_of(name)
        if name not in fields:
            yield pointer, getattr(model, "ADVICE", {}).get(name, f'There is no field "{_shown(name)}".')
        elif hints[fields[name].name] is NoneType:
            if value is not None:
                unknown = f"This version does not know how to honour `{name}`. Leave it out."
                yield pointer, getattr(model, "ADVICE", {}).get(name, unknown)
        else:
            yield from _value_faults(hints[fields[name].name], value, pointer)
    for name, field in fields.items():
        if field.required and name not in document:
            yield at + pointer_of(name), "This field is needed."


def _value_faults(hint: Any, value: Any, pointer: str) -> Iterator[Fault]:
    nested = next((one for one in _options(hint) if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
    if nested is not None and isinstance(value, dict):
        yield from _struct_faults(nested, value, pointer)
        return
    if any(one is msgspec.Raw for one in _options(hint)):
        return
    item = next((get_args(one)[0] for one in _options(hint) if get_origin(one) is list), None)
    if isinstance(value, list) and any(
        isinstance(one, type) and issubclass(one, msgspec.Struct) for one in _options(item)
    ):
        for place, one in enumerate(value):
            yield from _value_faults(item, one, pointer + pointer_of(str(place)))
        return
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        text = str(error)
        path = re.search(r" - at `\$(.*)`$", text)
        if text.startswith("Invalid enum value") and not path and (choices := _choices(hint)):
            text = f"This is one of {', '.join(choices)}"
        yield pointer + _inner_pointer(value, path[1] if path else ""), _sentence(text)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Union or hasattr(hint, "__args__") else (hint,)


def _choices(hint: Any) -> list[str]:
    """The words that may stand here, where only some may."""
    return [str(word) for one in (hint, *_options(hint)) if get_origin(one) is Literal for word in get_args(one)]


def _inner_pointer(value: Any, path: str) -> str:
    """msgspec's path inside a value (`[0]`, `[...]`) as a JSON pointer; keys of a mapping it does not tell."""
    if path == "[...]" and isinstance(value, dict):
        wrong = next((name for name, one in value.items() if not isinstance(one, str)), None)
        return "" if wrong is None else pointer_of(wrong)
    return "".join(pointer_of(index) for index in re.findall(r"\[(\d+)\]", path))


def _sentence(text: str) -> str:
    """msgspec's message without its path, as a sentence."""
    text = re.sub(r" - at `.*`$", "", text)
    if found := _KINDS.fullmatch(text):
        expected = [kind for kind in found[1].split(" | ") if kind != "int" or "float" not in found[1]]
        said = [_KIND_WORDS.get(kind, kind) for kind in expected]
        wanted = " or ".join(filter(None, (", ".join(said[:-1]), said[-1])))
        return f"This must be {wanted}, not {_KIND_WORDS.get(found[2], found[2])}."
    text = text.replace("`", "")
    return text if text.endswith(".") else text + "."
