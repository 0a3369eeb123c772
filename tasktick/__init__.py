"""TaskTick: a durable scheduler.

A task is a promise to call a URL at a time. This package keeps such promises: it stores each one
before it acknowledges it, fires it on the millisecond, and survives being killed at any point in
between.

How it lies: `model` says what a task is and what may happen to it, `store` holds the truth,
`wheel` and `ready` know what is due, `scheduler` decides when to fire and `dispatch` how, `api`
and `ctl` are the ways in, and `daemon` is the only module that knows them all. Imports point down
only; the layers are written down, and checked, in `pyproject.toml`.
"""

__version__ = "0.1.0"
