"""Fair shares between tenants by example."""

import pytest

from tasktick.ready.fair import FairShare


def served(fair: FairShare, count: int) -> str:
    out = ""
    for _ in range(count):
        tenant = fair.choose()
        assert tenant is not None
        fair.charge(tenant)
        out += tenant
    return out


def test_equals_take_turns() -> None:
    fair = FairShare()
    for tenant in "abc":
        fair.activate(tenant)
    assert served(fair, 9) == "abcabcabc"


def test_a_share_is_a_weight() -> None:
    fair = FairShare({"a": 3})
    fair.activate("a")
    fair.activate("b")
    assert served(fair, 8).count("a") == 6
    fair.set_weight("a", None)
    assert served(fair, 8).count("a") in (4, 5)


def test_nobody_active_is_nobodys_turn() -> None:
    fair = FairShare()
    assert fair.choose() is None
    fair.activate("a")
    fair.deactivate("a")
    fair.deactivate("a")
    assert fair.choose() is None
    assert len(fair) == 0


def test_idleness_earns_no_credit() -> None:
    fair = FairShare()
    fair.activate("a")
    fair.activate("b")
    served(fair, 2)
    fair.deactivate("b")
    served(fair, 1000)
    fair.activate("b")
    assert sorted(served(fair, 10)) == list("aaaaabbbbb")


def test_leaving_and_coming_back_earns_nothing_either() -> None:
    fair = FairShare()
    fair.activate("steady")
    out: list[str] = []
    for _ in range(100):
        fair.activate("hopping")
        chosen = fair.choose()
        assert chosen is not None
        fair.charge(chosen)
        out.append(chosen)
        fair.deactivate("hopping")
    assert abs(out.count("hopping") - 50) <= 1


def test_what_virtual_time_has_passed_is_forgotten() -> None:
    fair = FairShare()
    fair.activate("steady")
    for n in range(1000):
        fair.activate(f"once{n}")
        served(fair, 2)
        fair.deactivate(f"once{n}")
        fair.activate(f"never served {n}")
        fair.deactivate(f"never served {n}")
    served(fair, 3)
    assert set(fair._shares) == {"steady"}
    assert len(fair._rested) == 0
    assert len(fair._heap) < 50


def test_many_visits_without_service_leave_nothing_behind() -> None:
    fair = FairShare()
    fair.activate("a")
    served(fair, 3)
    for _ in range(1000):
        fair.deactivate("a")
        fair.activate("a")
    assert len(fair._rested) <= 1
    assert len(fair._heap) < 50
    assert served(fair, 1) == "a"


def test_only_whose_turn_it_is_can_be_charged() -> None:
    fair = FairShare()
    fair.activate("a")
    fair.activate("b")
    with pytest.raises(ValueError, match="turn of a"):
        fair.charge("b")


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_weight_is_a_sane_number(weight: float) -> None:
    with pytest.raises(ValueError, match="a weight is between"):
        FairShare({"a": weight})
