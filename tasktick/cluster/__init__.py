"""Who is likely alive, who should own which partition, and hints between nodes.

Gossip decides nothing about ownership: leases in the database do. It notices soon, carries what a node says of
itself (address, version, zone data, drained), and delivers nudges that may be lost. With gossip cut altogether
every partition still moves by leases and polling alone.

Membership is SWIM with Lifeguard's refinements, written as a state machine that is told the time and what came
in, and says what to send: `membership` over `members`, `probing`, `broadcast`, `suspicion`, `awareness`. `seal`
authenticates what travels, `transport` moves it, `gossip` is the loop. `ring` places partitions and `handover`
plans how they move, both as functions of rows read from the database.

Invariants:

- A member is one start of a node: its incarnation is random, so nothing said of a dead start sticks to the next.
- Only the member itself raises its revision; an accusation at a revision that it has left behind is void.
- Having left is final for an incarnation. Having died is not: a member that hears of its death refutes it.
- Nobody is forgotten for good while they live: the dead and the seeds are tried again for ever.
- A datagram counts once, only at the start of the node that it was made for, and only under an accepted key;
  an exchange only within the connection that it was made for. No clock is compared between nodes.
- Everything is bounded: datagrams of 1,400 bytes, rumours waiting, members known, probes relayed, connections,
  exchanges of 1 MiB, nudges a second.
- A node hands a partition over only to the incarnation whose request stands on the lease row.

How it fails: by being ignorant for a while. What is malformed, forged, replayed or oversized is counted under
`gossip_dropped_…` and dropped; it raises nothing. A name that two living nodes claim is reported and changes
nothing. A process that was stopped does not hold the lost time against the others.
"""
