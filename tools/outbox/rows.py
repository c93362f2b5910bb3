"""The pump's statements: claim the outbox, delete what was sent, read what is next."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from triack.base.errors import UsageError
from triack.node.shell.outgoing_message import MessageProperties
from triack.outbox.database import execute
from triack.outbox.errors import OutboxTaken

BATCH_ROWS = 500
"""Rows of one transaction: the two commits that it costs last far less than its rows."""
BATCH_BYTES = 1024 * 1024
"""Bodies of one transaction; the last of them may exceed it."""

_COLUMNS = "id, destination, body, properties, enqueued_ms"

LIVES = ("time_to_reach_queue", "time_to_be_received")


@dataclass(frozen=True, slots=True)
class Row:
    """A message to send. ``id``: 32 hex digits; ``properties``: JSON; ``enqueued_ms``: by the wall clock."""

    id: str
    destination: str
    body: bytes
    properties: str
    enqueued_ms: int

    def properties_at(self, now_ms: int) -> dict[str, Any]:
        """Its properties, with what is left of its times to live; negative when one has ended.

        Raises UsageError if they cannot be read, as the row was changed.
        """
        try:
            properties: dict[str, Any] = dict(json.loads(self.properties))
            for name in LIVES:
                if name in properties:
                    properties[name] -= max(0, now_ms - self.enqueued_ms) / 1_000
        except (ValueError, TypeError, RecursionError) as cause:
            raise UsageError(f"its properties cannot be read: {self.properties!r}") from cause
        unknown = properties.keys() - MessageProperties.__annotations__.keys()
        if unknown:
            raise UsageError(f"{min(unknown)} is no property of messages")
        return properties

    @property
    def is_plain(self) -> bool:
        """Whether others with equal properties may be sent with it as a list: none is only for it."""
        return not any(f'"{name}"' in self.properties for name in ("key", *LIVES))


class Rows:
    """The rows of one outbox, by the pump's connection; ``node_id`` is the node that sends."""

    def __init__(self, connection: Any, table: str, node_id: str) -> None:
        self._connection = connection
        self._table = table
        self._node_id = node_id

    def claim(self) -> str:
        """Let the node be the one that sends. Returns the outbox's permanent name. Raises OutboxTaken."""
        if not self._owners():
            self._run(
                "INSERT INTO {table}_owner (one, node, name) VALUES (1, :node, :name) ON CONFLICT (one) DO NOTHING",
                node=self._node_id,
                name=uuid4().hex,
            )
            self._connection.commit()
        name = self._check_owner()
        self._connection.commit()
        return name

    def step(
        self, sent: Iterable[str], refused: Iterable[tuple[str, str]], held: Iterable[str], tried: Iterable[str]
    ) -> list[Row]:
        """Delete rows that were sent, set aside those that cannot be, and read the next ones, in one transaction.

        ``refused`` has ids, and why. ``held``: destinations whose rows wait; ``tried``: those of them whose first row
        is read. Raises OutboxTaken if another node sends.
        """
        self._check_owner()
        if done := _listed("sent", sent):  # at most a batch of them, fewer than any database accepts
            self._run(f"DELETE FROM {{table}} WHERE id IN ({_names(done)})", **done)
        for one, why in refused:
            self._run("UPDATE {table} SET refused = :why WHERE id = :id", id=one, why=why)
        rows = [*self._read_first(tried), *self._read(held)]
        self._connection.commit()
        return rows

    def _run(self, statement: str, **values: object) -> Any:
        return execute(self._connection, statement.replace("{table}", self._table), values)

    def _owners(self) -> list[Any]:
        return list(self._run("SELECT node, name FROM {table}_owner").fetchall())

    def _check_owner(self) -> str:
        ((owner, name),) = self._owners()
        if owner != self._node_id:
            raise OutboxTaken(
                f"send what is in table {self._table}: node {owner} does that, and this is node {self._node_id}; to "
                f"replace a node that never comes back, change {self._table}_owner"
            )
        return str(name)

    def _read(self, held: Iterable[str]) -> list[Row]:
        values = _listed("held", held)
        but = f"AND destination NOT IN ({_names(values)})" if values else ""
        first = f"SELECT * FROM {{table}} WHERE refused IS NULL {but} ORDER BY number LIMIT {BATCH_ROWS}"
        summed = f"SELECT *, SUM(length(body)) OVER (ORDER BY number) - length(body) AS before FROM ({first}) AS first"
        return self._rows(
            f"SELECT {_COLUMNS} FROM ({summed}) AS summed WHERE before < {BATCH_BYTES} ORDER BY number", values
        )

    def _read_first(self, destinations: Iterable[str]) -> list[Row]:
        """The first row of each destination that has any."""
        values = _listed("tried", destinations)
        if not values:
            return []
        of_each = f"destination IN ({_names(values)}) GROUP BY destination"
        first = f"SELECT MIN(number) FROM {{table}} WHERE refused IS NULL AND {of_each}"
        return self._rows(f"SELECT {_COLUMNS} FROM {{table}} WHERE number IN ({first}) ORDER BY number", values)

    def _rows(self, statement: str, values: dict[str, object]) -> list[Row]:
        found = self._run(statement, **values).fetchall()
        return [Row(one, to, bytes(body), said, at_ms) for one, to, body, said, at_ms in found]


def _listed(name: str, values: Iterable[str]) -> dict[str, object]:
    return {f"{name}{at}": value for at, value in enumerate(values)}


def _names(parameters: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in parameters)
