"""The queue manager: the three layers put together with queues, transactions, a durable store and an asyncio face."""
