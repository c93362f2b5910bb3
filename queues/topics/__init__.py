"""Topics: contents that several subscriptions read, patterns, and the strategies that dispatch contents."""
