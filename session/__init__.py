"""One conversation between two queue managers. Pure: no clock, no I/O, no own randomness.

A session numbers packets, sends them, acknowledges them and repairs losses; it forgets everything when it closes.
What must outlive it belongs to ``triack.ordering``.
"""
