"""Slow receivers: how many wait there, told from time to time."""

import msgspec

from bench.slow_receiver import Crowd


def test_the_least_and_the_most_are_those_since_it_was_last_told() -> None:
    crowd = Crowd(5)
    for _ in range(3):
        crowd.enter()
    crowd.leave()
    assert msgspec.json.decode(crowd.told()) == {"waiting": 2, "least": 0, "most": 3, "answered": 0}
    assert msgspec.json.decode(crowd.told()) == {"waiting": 2, "least": 2, "most": 2, "answered": 0}
    crowd.leave()
    crowd.enter()
    assert msgspec.json.decode(crowd.told()) == {"waiting": 2, "least": 1, "most": 2, "answered": 0}
