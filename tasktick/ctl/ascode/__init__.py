"""Schedules as code: files that say what there is to be, compared with a server, and made so.

`document` reads a file (TOML, JSON, YAML), `wanted` turns what it declares into requests and has the server read them,
`standing` reads what is there, `planning` compares the two and decides (pure), `applying` carries out,
`exporting` writes what is there as such a file; `commands` are `ctl plan`, `apply` and `export`.

Invariants:

* Nothing is written before every file was read, every reference resolved and every schedule judged by the server.
* Both sides of a comparison are the server's own reading, so a default or a spelling is never a difference.
* What is changed or removed shows the version that was compared: whoever was faster is never overwritten.
* What a reference stands for is sent, and neither printed nor stored here.
* What was done is not done again: a run that was cut off is finished by the next.
"""
