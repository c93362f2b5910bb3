"""What a topic promises each of its subscriptions."""
