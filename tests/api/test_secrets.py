"""Signing secrets: made and shown once, rotated with a time for the old ones, retired; few may see them."""

from typing import Any

import pytest

from tasktick.access import signing_secrets
from tasktick.access.roles import Role
from tasktick.dispatch.signing import parse_secret
from tasktick.store import secrets as stored
from tests.api.served import Served

HOUR_MS = 3_600_000


async def listed(served: Served, query: str = "") -> list[dict[str, Any]]:
    return list((await served.ask("GET", f"/v1/secrets{query}")).json["data"])


async def rotated(served: Served, **body: Any) -> dict[str, Any]:
    answer = await served.ask("POST", "/v1/secrets/rotate", body)
    assert answer.status == 201, answer.raw
    return dict(answer.json)


async def test_a_secret_is_shown_once(served: Served) -> None:
    made = await served.ask("POST", "/v1/secrets")
    assert made.status == 201
    secret = made.json["secret"]
    assert len(parse_secret(secret)) == 32
    assert served.signing_changed == ["default"]

    [shown] = await listed(served)
    assert shown == {**made.json, "secret": f"***{secret[-4:]}"}
    [revealed] = await listed(served, "?reveal=1")
    assert revealed == made.json
    assert (await served.ask("GET", "/v1/secrets", headers={"TaskTick-Tenant": "b"})).json["data"] == []
    rows = await served.database.read(lambda tx: stored.read(tx, "default"))
    assert secret not in rows[0].sealed


async def test_secrets_are_few(served: Served) -> None:
    statuses = [(await served.ask("POST", "/v1/secrets")).status for _ in range(6)]

    assert statuses == [201] * 5 + [409]
    assert (await served.ask("POST", "/v1/secrets", {"secret": "x"})).pointers == {"/secret"}
    assert (await served.ask("POST", "/v1/secrets/rotate", {"retire_after": "1h"})).code == "state_conflict"
    await rotated(served, retire_after=0)
    assert sum(one["retired_at"] is None for one in await listed(served)) == 1


async def test_a_repeated_request_makes_one_secret_which_is_kept_sealed(served: Served) -> None:
    manager = await served.add_key(Role.MANAGER)
    again = {"Idempotency-Key": "k-1"}
    first, second = [await served.ask("POST", "/v1/secrets", headers=again) for _ in range(2)]

    assert (first.status, second.raw) == (201, first.raw)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(await listed(served)) == 1
    assert (await served.ask("POST", "/v1/secrets", headers=again, key=manager)).code == "idempotency_key_reused"
    kept = await served.database.read(
        lambda tx: tx.rows("names_read", dict, rows=[{"tenant": "default", "kind": "idempotency", "name": "k-1"}])
    )
    assert first.json["secret"] not in str(kept)


async def test_after_a_rotation_the_old_one_signs_for_the_time_that_is_given(served: Served) -> None:
    old = await rotated(served)
    assert old["retired_at"] is None
    new = await rotated(served, retire_after="1h")

    ends = {one["id"]: one["retired_at"] for one in await listed(served)}
    assert ends[new["id"]] is None
    assert ends[old["id"]] is not None
    assert served.signing_changed == ["default"] * 2
    await rotated(served, retire_after="2h")
    assert {one["id"]: one["retired_at"] for one in await listed(served)}[old["id"]] == ends[old["id"]]
    assert (await served.ask("POST", "/v1/secrets/rotate", {"retire_after": "367d"})).pointers == {"/retire_after"}
    assert (await served.ask("POST", "/v1/secrets/rotate", {"after": 1})).pointers == {"/after"}


async def test_a_secret_is_retired_unless_it_is_the_last(served: Served) -> None:
    old, new = [await rotated(served) for _ in range(2)]
    for _ in range(2):
        assert (await served.ask("DELETE", f"/v1/secrets/{old['id']}")).status == 204
    [_, retired] = await listed(served)
    assert (retired["id"], retired["retired_at"] is None) == (old["id"], False)
    assert (await served.ask("DELETE", f"/v1/secrets/{new['id']}")).code == "state_conflict"
    assert (await served.ask("DELETE", "/v1/secrets/sec_1")).code == "not_found"
    elsewhere = await served.ask("DELETE", f"/v1/secrets/{new['id']}", headers={"TaskTick-Tenant": "b"})
    assert elsewhere.code == "not_found"


async def test_the_last_that_lasts_is_not_retired_before_the_others_end(served: Served) -> None:
    await rotated(served)
    new = await rotated(served, retire_after="1h")
    assert (await served.ask("DELETE", f"/v1/secrets/{new['id']}")).code == "state_conflict"
    served.world.now += HOUR_MS
    assert (await served.ask("DELETE", f"/v1/secrets/{new['id']}")).code == "state_conflict"


async def test_of_those_that_sign_no_more_the_newest_stay(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_secrets, "RETIRED_KEPT", 2)
    made = [await rotated(served, retire_after=0) for _ in range(5)]
    await rotated(served, retire_after="1h")
    assert [one["id"] for one in await listed(served)][1:] == [one["id"] for one in made[:1:-1]]
