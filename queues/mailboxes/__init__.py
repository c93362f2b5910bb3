"""Queues of this node: waiting messages, messages that applications have in hand, and quotas."""
