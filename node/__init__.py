"""A queue manager for asyncio: the shell around the pure engine, and the objects that applications hold."""
