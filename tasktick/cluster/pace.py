"""How fast gossip goes and how much of it there may be: every number of the ring, in one place."""

import math

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit one network of up to a few hundred nodes."""

    probe_every_ms: int = 1_000
    # How long a probe waits for its answer before it asks others to try.
    probe_timeout_ms: int = 400
    indirect_probes: int = 3
    # A suspect has factor × log10(members) × probe_every_ms to refute once enough others suspect it too, and
    # max_factor times as long while nobody else does.
    suspicion_factor: int = 4
    suspicion_max_factor: int = 6
    gossip_every_ms: int = 200
    gossip_fanout: int = 3
    # A rumour is sent factor × log10(members + 1) times.
    transmit_factor: int = 4
    # Timeouts grow with bad local health, up to this many times.
    health_max: int = 8
    exchange_every_ms: int = 30_000
    # While somebody is dead or a seed is not a member: one of them is tried this often.
    reconnect_every_ms: int = 10_000
    join_every_ms: int = 1_000
    # The dead hear rumours for so long, that they may refute.
    gossip_to_dead_ms: int = 30_000
    dead_kept_ms: int = 3_600_000
    replaced_kept_ms: int = 60_000
    # Whoever was not run for so long was stopped: the time lost is held against nobody.
    stall_ms: int = 2_000
    # Two living nodes of one name are a conflict only after this long; before, one of them is just not yet found dead.
    conflict_ms: int = 30_000
    leave_ms: int = 1_000
    members_max: int = 512
    rumours_max: int = 1_024
    relays_max: int = 64

    def suspicion_ms(self, members: int) -> float:
        """How long a suspect has at least, among so many."""
        return self.suspicion_factor * max(1.0, math.log10(max(1, members))) * self.probe_every_ms

    def transmits(self, members: int) -> int:
        """How often a rumour is passed on, among so many."""
        return self.transmit_factor * math.ceil(math.log10(members + 1))

    def exchange_ms(self, members: int) -> float:
        """How often the whole state is exchanged: seldomer in a large ring, so that the sum grows slowly."""
        return self.exchange_every_ms * (1 if members <= 32 else 1 + math.ceil(math.log2(members / 32)))
