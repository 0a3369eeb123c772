"""`ctl cluster`, `drain`, `undrain`, `rebalance`: the table, the picture, and waiting with an end."""

import re
from typing import Any

import pytest

from tasktick.ctl import cluster as commands
from tasktick.ctl.ring_picture import picture
from tests.fakes.api_stub import ApiStub, refused, told
from tests.unit.ctl.conftest import Ctl

A, B = "a" * 16, "b" * 16


def node(name: str, owned: int, state: str = "live") -> dict[str, Any]:
    return {
        "id": name * 16,
        "name": name,
        "address": f"http://{name}:8080",
        "state": state,
        "partitions": owned,
        "version": "0.2.0",
        "tzdata": "2026a",
        "started_at": "2026-02-10T08:00:00.000Z",
        "expires_at": "2026-02-10T08:00:10.000Z",
        "clock_offset": 0.004,
        "history_regressed": 0,
        "gossip": "alive",
    }


def ring(of_a: int, of_b: int, *, moving: int = 0, free: int = 0) -> dict[str, Any]:
    """So many of the partitions are a's and b's; the first of a's are on their way to b."""
    owners = [A] * of_a + [B] * of_b + [None] * free
    partitions = [
        {
            "partition": at,
            "owner": owner,
            "node": owner and owner[0],
            "epoch": 1,
            "expires_at": None,
            "wanted_by": B if at < moving else None,
            "state": "free" if owner is None else "moving" if at < moving else "owned",
        }
        for at, owner in enumerate(owners)
    ]
    nodes = [node("a", of_a), node("b", of_b)]
    return {"shared": True, "lease_ttl": 10, "tzdata_agrees": True, "nodes": nodes, "partitions": partitions}


def test_who_is_not_at_one_with_its_store_is_named(ctl: Ctl, stub: ApiStub) -> None:
    told_of = ring(192, 64)
    told_of["nodes"][0]["clock_offset"] = -3.5
    told_of["nodes"][1]["history_regressed"] = 2
    stub.tell(told(told_of))
    said = ctl("cluster").stderr
    assert "the clock of a is -3.5 s off the store's" in said
    assert "b found the store without what it had said, 2 times" in said
    stub.tell(told(ring(192, 64)))
    assert "Mind" not in ctl("cluster").stderr


def test_the_nodes_and_a_picture(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(ring(192, 64, moving=10)))
    result = ctl("cluster")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/cluster"
    lines = result.stdout.splitlines()
    assert lines[1].split()[:5] == ["A", "a", "live", "192", "alive"]
    assert lines[2].split()[:5] == ["B", "b", "live", "64", "alive"]
    assert "2 nodes" in result.stdout
    assert "246 owned" in result.stdout
    assert "10 on their way from a to b" in result.stdout


def test_an_undrain_that_is_done_says_so(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(node("a", 128)))
    assert ctl("undrain", "a").stderr == "a is undrained, and has what it should.\n"


def test_one_whose_term_runs_out_while_others_renew_theirs_is_silent(ctl: Ctl, stub: ApiStub) -> None:
    told_of = ring(192, 64)
    told_of["nodes"][0]["expires_at"] = "2026-02-10T08:00:04.900Z"
    stub.tell(told(told_of))
    lines = ctl("cluster").stdout.splitlines()
    assert [line.split()[2] for line in lines[1:3]] == ["silent", "live"]


def test_an_arc_is_as_long_as_a_share() -> None:
    drawn = "".join(letter for line in picture(ring(128, 64, moving=16, free=64)) for letter, style in line if style)
    drawn = re.sub(r"2 nodes|\d+ owned|\d+ moving|\d+ free", "", drawn)
    whole = len(drawn)
    for letter, share in (("A", 112), ("a", 16), ("B", 64), (".", 64)):
        assert drawn.count(letter) / whole == pytest.approx(share / 256, abs=0.02)


def test_one_alone_is_a_ring_too(ctl: Ctl, stub: ApiStub) -> None:
    alone = ring(256, 0)
    alone["nodes"] = [node("a", 256) | {"expires_at": None, "gossip": None}]
    stub.tell(told(alone | {"shared": False}))
    result = ctl("cluster")
    assert "1 node" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 120


def test_zones_that_differ_are_told(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(ring(128, 128) | {"tzdata_agrees": False}))
    assert "different time zones" in ctl("cluster").stderr


def test_a_drain_waits_until_nothing_is_owned(ctl: Ctl, stub: ApiStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LOOK_EVERY_S", 0.001)
    stub.tell(told(node("a", 128, "draining"), 202), told(ring(40, 216)), told(ring(40, 216)), told(ring(0, 256)))
    result = ctl("drain", "a")
    assert result.exit_code == 0, result.stderr
    assert [asked.path for asked in stub.asked] == ["/v1/cluster/nodes/a/drain", *["/v1/cluster"] * 3]
    assert "idempotency-key" in stub.asked[0].headers
    assert result.stderr.splitlines() == ["a still owns 128 partitions", "a still owns 40 partitions"]
    assert re.search(r"^partitions +0$", result.stdout, re.MULTILINE)


def test_one_that_has_ended_meanwhile_owns_nothing(ctl: Ctl, stub: ApiStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LOOK_EVERY_S", 0.001)
    gone = ring(0, 256)
    gone["nodes"] = gone["nodes"][1:]
    stub.tell(told(node("a", 128, "draining"), 202), told(gone))
    result = ctl("drain", "a", "-o", "json")
    assert result.exit_code == 0
    assert '"partitions":0' in result.stdout


def test_a_drain_that_is_not_waited_for(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(node("a", 128, "draining"), 202))
    result = ctl("drain", "a", "--no-wait")
    assert result.exit_code == 0
    assert len(stub.asked) == 1
    assert "goes on" in result.stderr


def test_a_drain_that_is_refused(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(refused(409, "state_conflict", "There is one node, and the store is its alone."))
    result = ctl("drain", "a")
    assert result.exit_code == 1
    assert "There is one node" in result.stderr


def test_undrain_and_rebalance(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(node("a", 0), 202), told(ring(128, 128), 202))
    undrained = ctl("undrain", "a")
    assert undrained.exit_code == 0
    assert undrained.stderr.startswith("a is undrained, and takes its share within a third of a term")
    result = ctl("rebalance")
    assert result.exit_code == 0
    assert "2 nodes" in result.stdout
    assert [asked.path for asked in stub.asked] == ["/v1/cluster/nodes/a/undrain", "/v1/cluster/rebalance"]
