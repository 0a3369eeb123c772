"""Measures TaskTick, each figure beside a limit that is measured in the same run.

One module for each question (`python -m bench.run --help` lists them); `run` asks them and prints a table. A question
alternates three rounds of the real daemon with its limits and takes medians, because a machine drifts from minute to
minute: ratios mean something, absolute figures are this machine's of this minute. So a
target is printed with whether it was met, and nothing fails by it.

Limits stand in `limit_*`: the same work with everything left out that makes it a scheduler. The other ends
stand in processes of their own, so that they are not what is measured: `receiver` counts and stamps what
arrives, `callers` asks.

Everything runs on 127.0.0.1 in temporary folders and ends by itself: a child stops when its parent is gone,
and every wait has a deadline.
"""
