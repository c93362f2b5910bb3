"""Topics: contents that several subscriptions read, patterns, and the strategies that let contents go."""
