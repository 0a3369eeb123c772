"""The whole node in virtual time: real store, real scheduler, real dispatcher; simulated clock, network and death.

`loop` is an event loop whose time jumps to the next timer and whose callbacks of one instant run in seeded
order; `world` brings the clock, the store connection and the receivers; `run` plays one seed and checks it.
The same seed gives the same trace.
"""
