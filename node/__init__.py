"""A queue manager for asyncio: the shell around the pure engine, and what applications hold."""
