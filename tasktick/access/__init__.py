"""Who may do what: API keys, roles, and what keeps secrets secret.

`keys` and `roles` are rules over plain values; `vault` seals what must be read again (signing secrets,
sensitive headers); `secret_files` makes and reads the files that only the daemon's own user may see;
`operator_key` and `signing_secrets` join these with the store at the start of a process; `key_use` notes which
keys are used.

Invariants:

* A key is stored as its SHA-256 alone; it is compared in constant time.
* A sealed text opens only under the key and the context that it was sealed with: a row copied to another
  tenant or another header does not open there.
* Files with secrets have mode 0600 from the moment they exist; one that others may read is refused.

It fails by raising `ConfigError` at start (a file that is wrong), or `SealBroken` where a stored text does
not open: the vault's key is another one, or the row was tampered with.
"""
