"""A network that misbehaves on purpose, and repeatably."""
