"""Journals: what readers took from the queues of this node, as long as there is room."""
