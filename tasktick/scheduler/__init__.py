"""When to fire: from the store's rows to the ready queue, at the right millisecond.

`loader` reads what is due, window by window; `horizon` holds it (a wheel of ids and times, and the rows of
the next seconds); `ticker` moves what has become due into the ready queue; `intake` brings what was just
written, so that nobody waits for the next reading; `materialise` follows behind the fires of schedules, decides
about each of their times (`plan`, `book`, of those that share a line `turns`: pure) and keeps the next one ahead;
`sweeper` takes up what its sender has lost and ends what is too late to start; `retention` removes what is old.

Invariants: memory is a hint, the store is the truth. What is lost here is found by the loader within
its next round, what is doubled is settled by the claim, and nothing here decides whether a task may go.
A full ready queue or lane loses nothing: the loader stops, or parks the task (`wake_at` moves, `due_at` stays).
A time of a schedule is decided once, in the order of the calendar, in the transaction that moves the cursor; a fire
that is late, or whose predecessor is still on its way, is not claimed before that.
"""
