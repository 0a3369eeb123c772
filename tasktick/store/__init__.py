"""The durable truth: what is not in here has not happened.

Layout: `protocol` says what a database must be able to do; `connect` is the only module that knows
the drivers; `opening` chooses; `database` and `postgres_database` open, migrate and close; `writer`
and `postgres_writer` are the ways in (`lanes`, whole batches, one commit for what waits together).
`moving` carries a store to another place, and `whereabouts` says where it is.
One module per noun holds its operations, written once over `Transaction`; the statements themselves
are in `sql/<dialect>/<noun>.sql` under the same names.

Invariants:

* A write is acknowledged after its commit, never before; with SQLite the commit is synced (FULL).
* A task row changes only through `claims.CLAIM`, the batches of `endings`, `tasks.change` and `waiting.let_go`, by the
  statements of a transaction or in one step (`one_step`): each demands the state before, and the lease's term or the
  attempt's fence. What does not match is stale: counted, dropped.
* A schedule moves only by a plan (`schedules.carry_out`): tasks, ledger and cursor in one transaction.
* Counts by state and tenant are kept as deltas in the same transaction.
* On SQLite a commit whose fate is unknown stops the process (`StoreBroken`); on PostgreSQL it is found out
  (`postgres`). A full disk or a server that is away refuses writes (`StoreUnavailable`) and recovers by itself.
* Program and store agree by (version, min_reader): a store is refused only if it cannot be read.
"""
