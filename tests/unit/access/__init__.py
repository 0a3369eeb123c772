"""The rules of keys, roles and the vault."""
