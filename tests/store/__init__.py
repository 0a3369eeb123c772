"""One behaviour suite over `tasktick.store.protocol.Database`; what only SQLite does stands in `test_sqlite_*`.

A second driver is one entry of `drivers.DRIVERS`: every test that asks for `world` then runs on it too.
"""
