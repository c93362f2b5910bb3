"""Put messages into the outbox, in the application's own transaction."""

import json
from typing import Any, Unpack

from triack.base.delivery import Delivery, check_priority
from triack.base.names import composed
from triack.base.units import MS
from triack.node.shell.outgoing_message import MessageProperties, as_bytes, check_size, with_properties
from triack.node.shell.platform import PLATFORM
from triack.outbox.database import OUTBOX, as_table, execute, execute_async
from triack.transport.address import Destination

_INSERT = (
    "INSERT INTO {table} (id, destination, body, properties, enqueued_ms) "
    "VALUES (:id, :destination, :body, :properties, :enqueued_ms)"
)


def enqueue(
    connection: Any, destination: str, body: bytes, *, table: str = OUTBOX, **properties: Unpack[MessageProperties]
) -> str:
    """Put a message into the outbox, in the transaction that the connection is in: it is sent if that commits.

    Messages of one transaction keep their order, and precede those of a transaction that began after its commit.

    Args:
        connection: a connection of any driver as PEP 249 has it, or SQLAlchemy's connection or session.
        destination: as for ``Node.send``.
        body: at most 4 MiB.
        table: the outbox.
        **properties: as for ``Node.send``. Times to live count from this call. A ``key`` counts at the node that sends.

    Returns:
        The id of its row.

    Raises:
        UsageError: a property does not exist or is of a wrong type, or this is no connection.
        AddressError, MessageTooLarge: as for ``Node.send``; peers are looked up when the message is sent.
    """
    values = _row(destination, body, properties)
    execute(connection, _INSERT.format(table=as_table(table)), values)
    return str(values["id"])


async def enqueue_async(
    connection: Any, destination: str, body: bytes, *, table: str = OUTBOX, **properties: Unpack[MessageProperties]
) -> str:
    """``enqueue`` for SQLAlchemy's ``AsyncSession`` and ``AsyncConnection``, aiosqlite and asynchronous psycopg.

    Raises:
        UsageError, AddressError, MessageTooLarge: as ``enqueue``.
    """
    values = _row(destination, body, properties)
    await execute_async(connection, _INSERT.format(table=as_table(table)), values, sync="enqueue")
    return str(values["id"])


def _row(destination: str, body: bytes, properties: MessageProperties) -> dict[str, object]:
    destination = composed(destination)
    Destination.parse(destination)
    body = as_bytes(destination, body)
    check_size(destination, body)
    machine = PLATFORM.get()
    now_ms = machine.wall_ns() // MS
    check_priority(destination, Delivery.TRANSACTIONAL, properties.get("priority"))
    with_properties(destination, body, properties, now_ms)
    said = {name: value for name, value in properties.items() if value is not None}
    if "headers" in said:
        said["headers"] = dict(properties["headers"] or {})
    return {
        "id": machine.entropy(16).hex(),
        "destination": destination,
        "body": body,
        "properties": json.dumps(said, sort_keys=True),
        "enqueued_ms": now_ms,
    }
