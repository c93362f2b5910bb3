"""Send messages with the transactions of your own database, and receive each of them once into it.

triack.outbox.enqueue(connection, "plant-b/orders", body, key="order-17")   # in a transaction of yours
await triack.outbox.Pump(node, connect).run()                               # beside the node, or a client of it
if triack.outbox.is_new(connection, message): ...                           # where it arrives
"""

from triack.outbox.database import create_tables
from triack.outbox.enqueue import enqueue, enqueue_async
from triack.outbox.errors import OutboxTaken
from triack.outbox.inbox import forget, is_new, is_new_async
from triack.outbox.pump import Pump

__all__ = ["OutboxTaken", "Pump", "create_tables", "enqueue", "enqueue_async", "forget", "is_new", "is_new_async"]
