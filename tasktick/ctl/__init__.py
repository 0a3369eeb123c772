"""`tasktick ctl`: what an operator does to a running TaskTick, over HTTP.

One file for each noun; `connect` finds the server and the key, `render` is the only one that prints,
`group` holds the nouns together and turns what went wrong into an exit code:

0 done, 1 refused by the server, 2 wrong usage, 3 unreachable.

Invariants:

* Nothing of what a server says reaches the terminal raw: control characters are shown, never sent.
* `-o json` prints what the API answered, one document a line, on standard output; everything that is said
  to a person about it (hints, problems) goes to standard error.
* A command loads what it needs when it runs: the terminal library, the HTTP client. Never the daemon.
"""
