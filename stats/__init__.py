"""What a node reports of its state: numbers, states of streams, and what troubles it."""
