"""Queues of this node: waiting messages, leased messages, and quotas."""
