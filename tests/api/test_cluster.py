"""Nodes and partitions over HTTP: one that has the store alone, and several that share it."""

import pytest

from tasktick.model.partition import ALL_PARTITIONS
from tasktick.store import leases
from tasktick.store.leases import Bearing, Start
from tests.api.served import Served
from tests.store.world import NODE

TTL_MS = 10_000


@pytest.fixture
async def ring(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Two nodes, of which the first owns everything."""
    database, now = served.database, served.world.now
    await database.write(lambda tx: leases.end_node(tx, served.world.incarnation, now))
    for name in ("a", "b"):
        start = Start(f"{name}-1", name, TTL_MS, address=f"http://{name}:8080", version="1", tzdata="2026a")
        await database.write(lambda tx, start=start: leases.join(tx, start, now))  # type: ignore[misc] # bound defaults
    await database.write(lambda tx: leases.acquire(tx, "a-1", now))
    monkeypatch.setattr(type(database), "shared", property(lambda self: True))
    return served


@pytest.fixture
def alone(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A node whose store nobody else can have, whatever the store."""
    monkeypatch.setattr(type(served.database), "shared", property(lambda self: False))
    return served


async def test_one_that_has_the_store_alone_owns_everything(alone: Served) -> None:
    served = alone
    shown = (await served.ask("GET", "/v1/cluster")).json
    assert (shown["shared"], shown["lease_ttl"], shown["tzdata_agrees"]) == (False, None, True)
    [node] = shown["nodes"]
    assert (node["id"], node["name"], node["state"]) == (served.world.incarnation, NODE, "live")
    assert (node["partitions"], node["expires_at"], node["gossip"]) == (256, None, None)
    assert [one["partition"] for one in shown["partitions"]] == list(ALL_PARTITIONS)
    assert {(one["owner"], one["node"], one["state"]) for one in shown["partitions"]} == {
        (served.world.incarnation, NODE, "owned")
    }
    assert (await served.ask("POST", "/v1/cluster/rebalance")).status == 200


@pytest.mark.parametrize("word", ["drain", "undrain"])
async def test_one_that_is_alone_has_nobody_to_hand_over_to(alone: Served, word: str) -> None:
    answer = await alone.ask("POST", f"/v1/cluster/nodes/{NODE}/{word}")
    assert (answer.status, answer.code) == (409, "state_conflict")
    assert "nobody could take what it owns" in answer.json["detail"]


async def test_what_moves_is_shown(ring: Served) -> None:
    ring.switches.standings = {"a-1": "alive", "b-1": "suspect"}
    shown = (await ring.ask("GET", "/v1/cluster")).json
    assert (shown["shared"], shown["lease_ttl"]) == (True, 10)
    assert [(one["name"], one["partitions"], one["gossip"]) for one in shown["nodes"]] == [
        ("a", 256, "alive"),
        ("b", 0, "suspect"),
    ]
    assert shown["nodes"][0]["expires_at"] is not None
    states = [one["state"] for one in shown["partitions"]]
    assert 80 < states.count("moving") < 180
    assert states.count("free") == 0
    assert (await ring.ask("POST", "/v1/cluster/rebalance")).status == 202
    assert ring.rebalanced == 1


async def test_how_each_stands_to_its_store_is_shown(ring: Served) -> None:
    now = ring.world.now
    await ring.database.write(lambda tx: leases.renew(tx, "b-1", 0, TTL_MS, now, Bearing(-1_250, 2)))
    shown = (await ring.ask("GET", "/v1/cluster")).json["nodes"]
    assert [(one["clock_offset"], one["history_regressed"]) for one in shown] == [(None, 0), (-1.25, 2)]


async def test_one_whose_term_has_passed_holds_nothing(ring: Served) -> None:
    ring.world.now += TTL_MS
    shown = (await ring.ask("GET", "/v1/cluster")).json
    assert [(one["name"], one["state"]) for one in shown["nodes"]] == [("a", "expired")]
    assert {one["state"] for one in shown["partitions"]} == {"free"}


async def test_a_drain_goes_on_until_nothing_is_owned(ring: Served) -> None:
    first = await ring.ask("POST", "/v1/cluster/nodes/a/drain")
    assert (first.status, first.json["state"], first.json["partitions"]) == (202, "draining", 256)
    now = ring.world.now
    await ring.database.write(lambda tx: leases.release(tx, "a-1", ALL_PARTITIONS, now))
    again = await ring.ask("POST", "/v1/cluster/nodes/a-1/drain")
    assert (again.status, again.json["state"]) == (200, "drained")
    assert ring.rebalanced == 2
    back = await ring.ask("POST", "/v1/cluster/nodes/a/undrain")
    assert (back.status, back.json["state"]) == (202, "live")


async def test_one_that_is_drained_and_does_not_run_is_undrained(ring: Served) -> None:
    assert (await ring.ask("POST", "/v1/cluster/nodes/b/drain")).status == 200
    now = ring.world.now
    await ring.database.write(lambda tx: leases.end_node(tx, "b-1", now))
    shown = {one["name"]: one["state"] for one in (await ring.ask("GET", "/v1/cluster")).json["nodes"]}
    assert shown == {"a": "live", "b": "expired"}
    back = await ring.ask("POST", "/v1/cluster/nodes/b/undrain")
    assert (back.status, back.json["state"]) == (200, "expired")
    assert (await ring.ask("POST", "/v1/cluster/nodes/b/undrain")).status == 404


async def test_the_last_that_owns_anything_is_not_drained(ring: Served) -> None:
    assert (await ring.ask("POST", "/v1/cluster/nodes/b/drain")).status == 200
    answer = await ring.ask("POST", "/v1/cluster/nodes/a/drain")
    assert (answer.status, answer.code) == (409, "state_conflict")
    assert "No other node would take what a owns" in answer.json["detail"]


async def test_a_node_that_is_not_there(ring: Served) -> None:
    answer = await ring.ask("POST", "/v1/cluster/nodes/c/drain")
    assert (answer.status, answer.json["detail"]) == (404, "There is no node 'c'. There are: a, b.")


async def test_the_name_of_a_supervisor_leads_to_its_processes(ring: Served) -> None:
    now = ring.world.now
    for number in (1, 2):
        start = leases.Start(f"big-{number}", f"big-{number}", TTL_MS)
        await ring.database.write(lambda tx, start=start: leases.join(tx, start, now))  # type: ignore[misc] # bound defaults
    answer = await ring.ask("POST", "/v1/cluster/nodes/big/drain")
    assert answer.json["detail"] == "There is no node 'big'. Its processes are nodes of their own: big-1, big-2."


async def test_the_same_drain_again_is_told_the_same(ring: Served) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await ring.ask("POST", "/v1/cluster/nodes/a/drain", headers=headers)
    again = await ring.ask("POST", "/v1/cluster/nodes/a/drain", headers=headers)
    assert (first.raw, first.status) == (again.raw, again.status)
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_a_rebalance_under_a_key_is_answered_once(ring: Served) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await ring.ask("POST", "/v1/cluster/rebalance", headers=headers)
    again = await ring.ask("POST", "/v1/cluster/rebalance", headers=headers)
    assert (first.status, again.status, again.headers["Idempotency-Replayed"]) == (202, 202, "true")
    assert again.json == first.json
    assert (await ring.ask("POST", "/v1/cluster/rebalance", headers={"Idempotency-Key": " "})).status == 422
