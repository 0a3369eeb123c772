"""Break it on purpose, write down all that was seen, and check what is left.

A suite drives a real daemon over real sockets on a real disk, and breaks it: `kill` with SIGKILL at random moments
and on labelled crash points, `ledger` around the fires of schedules, with outages and with clocks that are set,
`powercut` by taking the disk as it was at a random moment, `controls` with bugs planted on purpose, there, in
simulated rings (`tests.sim`) and on a real PostgreSQL. Of rings of several daemons on one PostgreSQL: `ring` kills,
restarts and adds nodes, `zombie` holds them and lets them go on, `rolling` restarts them in order, `postgres`
breaks their server, `partition` cuts the networks between them, the database and the receivers, `failover` takes
the primary of a pair of databases away.
While it runs, every call of a client, every hit at a receiver, every fault and every start of a process is appended
to a history (`history`); at the end the tables join it, read by SQL and through the API, and, of a ring, what the
database itself wrote down of who took which lease from whom (`ring_store`).
The checker (`checker`; of schedules `ledger`, of rings `ring_checks`) is a pure function from such a history to a
verdict. It is not told what happened, it reads it; and it must catch every planted bug, else nothing it says is
worth anything.

The product has no test hooks. `armed` imports it, wraps its named seams, and runs its own command line.

It fails by a violation with its counter-example (exit 1), or by being void (exit 2): a run in which
something that the suite is about never happened shows nothing.
"""
