"""What a node says of its state: numbers, states of streams, and what troubles it."""
