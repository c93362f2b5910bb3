"""The other side of an outbox: the ids of received messages, in the same transaction as the work on them."""

from typing import Any

from triack.base.checks import LONGEST_LIFE_S, check_between
from triack.base.units import MS
from triack.node.handles.message import Message
from triack.node.shell.platform import PLATFORM
from triack.outbox.database import INBOX, as_table, execute, execute_async

KEPT_S = 7 * 86_400.0
"""A message is redelivered within seconds of a crash; a machine is back within a week."""

_INSERT = "INSERT INTO {table} (id, received_ms) VALUES (:id, :now_ms) ON CONFLICT (id) DO NOTHING"


def is_new(connection: Any, message: Message, *, table: str = INBOX) -> bool:
    """Note the id of a message in the transaction that the connection is in. Returns whether it was not there yet.

    Commit the work and the id in one transaction, then acknowledge the message. A message that is redelivered after a
    crash in between is not new. If another transaction has noted the id and is still open, this waits for its end.

    Args:
        connection: as for ``enqueue``.
        message: received, and not yet acknowledged.
        table: the inbox.

    Raises:
        UsageError: this is no connection.
    """
    done = execute(connection, _INSERT.format(table=as_table(table)), _row(message))
    return bool(done.rowcount == 1)


async def is_new_async(connection: Any, message: Message, *, table: str = INBOX) -> bool:
    """``is_new`` for SQLAlchemy's ``AsyncSession`` and ``AsyncConnection``, aiosqlite and asynchronous psycopg.

    Raises:
        UsageError: as ``is_new``.
    """
    done = await execute_async(connection, _INSERT.format(table=as_table(table)), _row(message), sync="is_new")
    return bool(done.rowcount == 1)


def forget(connection: Any, *, older_than_s: float = KEPT_S, table: str = INBOX) -> int:
    """Delete old ids, in the transaction that the connection is in.

    Args:
        connection: as for ``enqueue``.
        older_than_s: seconds; longer than any message may wait between its commit and its acknowledgement.
        table: the inbox.

    Returns:
        The number of ids deleted.

    Raises:
        UsageError: this is no connection, or no number of seconds.
    """
    check_between("forget: older_than_s", older_than_s, 0, LONGEST_LIFE_S)
    before_ms = _now_ms() - round(older_than_s * 1_000)
    done = execute(connection, f"DELETE FROM {as_table(table)} WHERE received_ms < :before", {"before": before_ms})
    return int(done.rowcount)


def _row(message: Message) -> dict[str, object]:
    return {"id": message.id, "now_ms": _now_ms()}


def _now_ms() -> int:
    return PLATFORM.get().wall_ns() // MS
