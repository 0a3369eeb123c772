"""What is due and waits for its turn: who goes next, and what may go at all.

The ticker pushes entries as they become due; the dispatcher pops as many as it has hands for, and
releases each when its attempt has ended. The queue is a hint about the store like the wheel: an entry that
is lost comes again with the loader, an entry that is stale fails its claim. It is pure: no clock, no
I/O; the instant comes in as an argument.

A *lane* is what one tenant has in one queue for one host. An entry passes four *gates*, each with so many
in flight at most: all of the process, its tenant, its queue, its host. A lane whose first entry meets a
full gate steps aside into the line of that gate, and comes back when a slot there is released; nobody
looks at it in between.

Invariants:

- Between tenants: weighted fair in virtual time, over what may be sent now; idleness earns no credit.
  Within a tenant: by virtual deadline, which grows older by itself, so nothing starves.
- No gate ever lets more through than it allows at that moment; each entry popped holds one slot of each
  of its gates until it is released.
- Who waits before a gate with room has been woken, or is woken when one that was has been looked at: a
  free slot is never forgotten. When a `pop` returns nothing, nothing may be sent.
- An entry is in the queue at most once, and leaves it once: popped or removed.
- Nothing is popped before its `wake_at` by the instant given.
- Memory is bounded: `ready_max` entries; what removed entries leave behind is at most as much again as
  what lives, and a little; lanes, tenants and gates go with their last entry, and of idle hosts the most
  recent few thousand are remembered for what was learned about them.

How it fails: `push` says no. `LANE_FULL`: park the task in the store for a while, so that fifty thousand
tasks for one dead host do not fill the queue of all. `FULL`: stop feeding until there is room. A release
without a take is a `ValueError`, because every later count would be wrong.
"""
