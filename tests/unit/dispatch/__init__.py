"""How a task is fired."""
