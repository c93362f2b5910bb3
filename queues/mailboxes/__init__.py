"""Queues of this node: what waits in them, what applications have in hand, and quotas."""
