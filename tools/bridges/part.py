"""One direction of a bridge, whatever the protocol: its counts, and what the operator hears when nothing passes."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from triack.base.reasons import BridgeReason
from triack.bridges.remembered import Node_, no_counts, tell
from triack.node.config.bridge_table import BridgeTable
from triack.node.files import operator_log


class Link(Protocol):
    """A connection to a broker.

    Attributes:
        may_read: set while what the broker sends is read.
    """

    may_read: asyncio.Event

    async def wait_lost(self) -> None:
        """Wait for the end. Raises BrokerAway then."""

    async def leave(self) -> None:
        """End the connection."""


class Part(ABC):
    """What passes in one direction by one connection.

    Args:
        node: takes it, or has it.
        table: says what passes.
        does: what this direction does, for the log: "takes" or "gives".

    Attributes:
        counts: as in ``BridgeStats``.
        refusals: the messages that can never be passed on, by reason.
        waits_for: why nothing passes; None while something does.
        epoch: the connection to the node, of a client.
    """

    def __init__(self, node: Node_, table: BridgeTable, does: str) -> None:
        self.counts = no_counts()
        self.refusals: Counter[BridgeReason] = Counter()
        self.waits_for: str | None = None
        self.epoch: int | None = None
        self._node = node
        self._table = table
        self._does = does

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Messages on their way: what has left its one side, and is not known to be at the other."""

    def _hold(self, why: str) -> None:
        if self.waits_for != why:
            self.waits_for = why
            name = self._table.name
            operator_log.warning(f"bridge {name}: {self._does} nothing: {why}", bridge=name)

    def _release(self) -> None:
        if self.waits_for is not None:
            self.waits_for = None
            name = self._table.name
            operator_log.info(f"bridge {name}: {self._does} messages again", bridge=name)

    async def _say(self, said: str, why: str = "", count: int = 0, known: int = 0) -> None:
        """Have the node say something of the bridge; see ``tell``."""
        await tell(self._node, self.epoch, self._table.name, said, why, count, known)

    async def _count(self, counts: Mapping[str, int], refused: Mapping[BridgeReason, int]) -> None:
        """Count what a commit has brought to the disk."""
        for name, count in counts.items():
            self.counts[name] += count
        for reason, count in refused.items():
            self.counts["refused"] += count
            self.refusals[reason] += count
            if count:
                await self._say("refused", str(reason), count)
