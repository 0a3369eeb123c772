"""Whole nodes in virtual time: real store, real scheduler, real dispatcher; simulated clock, network and death.

`loop` is an event loop whose time jumps to the next timer and whose callbacks of one instant run in seeded
order; `world` brings the clock, the store connection and the receivers; `run` plays one seed and checks it.
The same seed gives the same trace.

Rings of nodes come in two kinds. `town` is a stage for a test that says what happens. `ring_run` plays seeds: three to
five nodes (`ring_node`) on one database server with a clock of its own (`server`), gossip in bad weather (`weather`),
clients (`ring_clients`) and whatever may go wrong (`ring_faults`); `watch` judges each commit and each send, and in the
end everything must add up. `plants` are bugs that its seeds must show, run by `make chaos SUITE=controls`.
"""
