"""Requests about nodes and partitions; for operators."""

from tasktick.client.core import Request, get, post


def show() -> Request:
    """Every node, and who owns what."""
    return get("cluster")


def drain(node: str, idempotency_key: str | None = None) -> Request:
    """Let a node, by its id or name, own nothing."""
    return post("cluster", "nodes", node, "drain", idempotency_key=idempotency_key)


def undrain(node: str, idempotency_key: str | None = None) -> Request:
    """Let a node take its share again."""
    return post("cluster", "nodes", node, "undrain", idempotency_key=idempotency_key)


def rebalance(idempotency_key: str | None = None) -> Request:
    """Let every node look now at what it should own."""
    return post("cluster", "rebalance", idempotency_key=idempotency_key)
