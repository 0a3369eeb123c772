"""Schedules of other schedulers, as files for `ctl plan` and `apply`: one module for each source.

A source is read, never run, and nothing is asked of it. What each part of it means there is told at the head of its
module; what cannot mean the same here is told with a reason, entry by entry: carried, changed, or refused.

Invariants:

* What is written has been held to the grammar that the server has: a file that is written is not refused for its times.
* Where two schedulers read the same text differently, the times stay and the text changes.
* A header that is a secret goes into no file and no report: a reference takes its place. A command that is kept as
  one is kept whole, and is in the file alone.
"""
