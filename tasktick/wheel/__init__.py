"""The wheel: which of the keys that it holds are due now, and when to look again.

It keeps what is due within the horizon, up to a million keys, and nothing but keys and instants: a
128-bit integer and a number of milliseconds. What a key stands for, whether its task still exists and
which clock counts are other people's business. It is pure: the instant comes in as an argument.

Invariants:

- A key comes out of the first `advance(now_ms)` whose `now_ms` is at or past its due time: never
  before, never twice, never not at all.
- Keys come out in order of due time, and those of one instant in order of key.
- `next_expiry()` is never later than the earliest due time, and sleeping until it and advancing
  always makes progress, so nobody ticks in idleness.
- Time never goes back. An `advance` to an instant before the last one moves nothing; of what was
  inserted behind the wheel's time, it hands out only what is due at the instant given.
- An entry costs under 60 bytes, and a crossing of empty time costs a few steps, however long it is.

How it fails: it does not, short of memory; who inserts bounds the number of entries. A key that is not
a 128-bit number is a `ValueError`. There is no cancel: a task that was cancelled or moved leaves its old
key behind, the key comes out at its old instant, and the claim finds nothing to do.
"""
