"""A target that is there already, with a part of it in place of what it had. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from yarl import URL

from tasktick.api.faults import Faults
from tasktick.api.schemas import TargetOverrides, TargetRequest
from tasktick.api.target_requests import Aim, Sealing, aim_of
from tasktick.model.task import Target


def overridden(faults: Faults, made: Target, overrides: TargetOverrides, sealing: Sealing) -> Aim:
    """The target with what is given in place of what it had. Sealed headers stay sealed where headers stay."""
    given: dict[str, Any] = {
        name: value for name in TargetOverrides.__struct_fields__ if (value := getattr(overrides, name)) is not UNSET
    }
    request = TargetRequest(url=given.get("url", made.url), **_kept(made, given))
    for name, value in given.items():
        setattr(request, name, UNSET if name == "body" and value is None else value)
    aim = aim_of(faults, request, sealing)
    if "headers" not in given and made.sealed_headers:
        if aim.lane and URL(request.url).origin() != URL(made.url).origin():
            names = ", ".join(sorted(made.sealed_headers))
            detail = f"The task has secret headers ({names}), which go to no other host: give the headers again."
            faults.add("/target/headers", detail)
        aim = Aim(msgspec.structs.replace(aim.target, sealed_headers=made.sealed_headers), aim.lane)
    return aim


def _kept(made: Target, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a target that stay, as a request says them."""
    kept: dict[str, Any] = {
        "method": made.method,
        "headers": made.headers,
        "timeout": made.timeout_ms / 1_000,
        "success": list(made.success),
    }
    if not given.keys() & {"body", "body_text", "body_base64"}:
        match made.body_kind:
            case "json":
                kept["body"] = msgspec.Raw(made.body.encode())
            case "text":
                kept["body_text"] = made.body
            case "base64":
                kept["body_base64"] = made.body
            case None:
                pass
    return {name: value for name, value in kept.items() if name not in given}
