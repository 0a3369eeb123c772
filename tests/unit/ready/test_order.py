"""Whatever comes, in whatever order: the smallest goes first."""

import tracemalloc
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from tasktick.ready.order import Order

STEPS = st.lists(st.integers(0, 50) | st.just("pop") | st.just("keep"), max_size=60)


@given(STEPS)
def test_it_is_a_heap(steps: list[int | str]) -> None:
    order: Order[tuple[int, int]] = Order()
    heap: list[tuple[int, int]] = []
    for ticket, step in enumerate(steps):
        if isinstance(step, int):
            order.push((step, ticket))
            heappush(heap, (step, ticket))
        elif step == "keep":
            order.keep(lambda item: item[1] % 3 > 0)
            heap = sorted(item for item in heap if item[1] % 3 > 0)
        elif heap:
            assert order.first() == heappop(heap)
            order.pop()
        assert len(order) == len(heap)
        assert order.first() == (heap[0] if heap else None)


def test_one_alone_is_small() -> None:
    """A hundred thousand lanes of one entry each are no rare sight: a task for each receiver."""
    count = 1_000
    items = [(number, number) for number in range(count)]
    tracemalloc.start()
    try:
        orders: list[Order[tuple[int, int]]] = [Order() for _ in items]
        for order, item in zip(orders, items, strict=True):
            order.push(item)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / count < 300
