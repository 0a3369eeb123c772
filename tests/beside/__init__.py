"""Both stores side by side: the same random operations on SQLite and PostgreSQL, and whatever can be seen is equal.

Each store has a `World` of its own; both worlds have the same ids, clock and random draws, so what one answers the
other must. `stage` opens the stores and compares; the other modules are rules of one state machine, by what they are
about; `test_beside` plays it, `python -m tests.beside` plays it for as long as is asked.
"""
