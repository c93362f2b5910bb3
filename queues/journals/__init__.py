"""Journals: what readers acknowledged in the queues of this node, as long as there is room."""
