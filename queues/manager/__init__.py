"""The queue manager itself: its engine, the jobs of its store, and the order of effects."""
