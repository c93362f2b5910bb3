"""One bridge: a connection to its broker, made again whenever it is lost, and what passes over it in each direction.

Nothing is known from one connection to the next but what the node remembers: a bridge that was killed continues as one
whose broker went away.
"""

import asyncio
import ssl
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from triack.base.errors import ConnectionLost, NodeClosed, StoreFailed, TriackError
from triack.base.reasons import BridgeReason
from triack.base.units import SECOND
from triack.bridges.giving import Giving
from triack.bridges.part import BrokerAway, Node_, Part, epoch_of, no_counts, tell
from triack.bridges.taking import Taking
from triack.node.config.bridge_table import BridgeTable
from triack.node.control.tasks import first_of
from triack.node.files import operator_log
from triack.node.shell.platform import PLATFORM
from triack.stats.troubles import BridgeStats

BACK_OFF_S = 0.5, 30.0
"""The first and the longest pause before another try; each is twice the one before. Half of it is chance, so that the
bridges of a plant do not all call their broker together when it is back."""
STEADY_NS = 10 * SECOND
"""A connection that lasted so long was a good one: the next pause is the first again."""


class Bridge:
    """Passes messages on between a broker and a node. ``run`` works until it is cancelled.

    Args:
        node: the node, or a client of it. It needs a data directory: what the broker was told is on the disk must be.
        table: what the bridge does.

    Attributes:
        table: as given.
        up: set while it is connected and has subscribed.
    """

    def __init__(self, node: Node_, table: BridgeTable) -> None:
        self._node = node
        self.table = table
        self._parts: tuple[Part, ...] = ()
        self.up = asyncio.Event()
        platform = PLATFORM.get()
        self._now_ns, self._random = platform.monotonic_ns, Random(platform.entropy(16))
        self._since_ns = self._now_ns()
        self._last_error: str | None = None
        self._epoch: int | None = None
        # Those of earlier connections.
        self._counts = no_counts()
        self._refusals: Counter[BridgeReason] = Counter()

    def stats(self) -> BridgeStats:
        """What it has done, and what it waits for."""
        counts = {name: count + sum(part.counts[name] for part in self._parts) for name, count in self._counts.items()}
        refusals = sum((part.refusals for part in self._parts), self._refusals)
        return BridgeStats(
            self.table.name,
            self.table.broker,
            self.up.is_set(),
            (self._now_ns() - self._since_ns) / SECOND,
            waiting=sum(part.waiting for part in self._parts),
            waits_for=next((part.waits_for for part in self._parts if part.waits_for is not None), None),
            last_error=self._last_error,
            refusals={str(reason): count for reason, count in sorted(refusals.items()) if count},
            **counts,
        )

    async def run(self) -> None:
        """Pass messages on until cancelled.

        Raises:
            NodeClosed, StoreFailed: the node has ended.
        """
        pause_s = BACK_OFF_S[0]
        while True:
            began_ns = self._now_ns()
            try:
                await self._pass_on()
            except (NodeClosed, StoreFailed):
                raise
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                await self._tell_away("the client has ended the connection")  # aiormq cancels what waits for the broker
            except (TriackError, OSError) as error:
                await self._tell_away(str(error))
            except Exception as error:  # noqa: BLE001 - a client has errors of its own, and no bridge ends unnoticed
                await self._tell_away(f"{type(error).__name__}: {error}")
            finally:
                self._end_connection()
            if self._now_ns() - began_ns >= STEADY_NS:
                pause_s = BACK_OFF_S[0]
            await asyncio.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, BACK_OFF_S[1])

    async def _pass_on(self) -> None:
        """Connect, and pass messages on until something fails."""
        inward, outward = self._parts = _parts_of(self._node, self.table)
        self._epoch = inward.epoch = outward.epoch = await epoch_of(self._node)
        _, _, with_tls = self.table.address
        try:
            tls = await asyncio.to_thread(self._tls) if with_tls else None
            await inward.open(tls, await asyncio.to_thread(self._password))
            await first_of(inward.link.run(), inward.run(), self._give(inward, outward))
        finally:
            await inward.link.leave()

    async def _give(self, inward: Taking[Any], outward: Giving[Any, Any]) -> None:
        await inward.subscribe()
        await self._tell_up()
        await outward.run()

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.table.tls_ca or None)
        except (OSError, ssl.SSLError) as error:
            raise BrokerAway(f"read {self.table.tls_ca}: {error}") from None

    def _password(self) -> str | None:
        if not self.table.password_file:
            return None
        try:
            return Path(self.table.password_file).read_text().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BrokerAway(f"read the password of user {self.table.user}: {error}") from None

    async def _tell_up(self) -> None:
        self.up.set()
        self._since_ns = self._now_ns()
        operator_log.info(f"bridge {self.table.name}: connected to {self.table.broker}", bridge=self.table.name)
        await self._tell("up", self.table.broker)

    async def _tell_away(self, why: str) -> None:
        if why != self._last_error or self.up.is_set():
            operator_log.warning(f"bridge {self.table.name}: {why}; it tries again", bridge=self.table.name)
            with suppress(ConnectionLost, NodeClosed):  # the next attempt finds it, too
                await self._tell("lost", why)
        self._last_error = why

    async def _tell(self, said: str, why: str) -> None:
        await tell(self._node, self._epoch, self.table.name, said, why, 0, 0)

    def _end_connection(self) -> None:
        if self.up.is_set():
            self.up.clear()
            self._since_ns = self._now_ns()
        for part in self._parts:
            self._counts = {name: count + part.counts[name] for name, count in self._counts.items()}
            self._refusals += part.refusals
        self._parts = ()


def _parts_of(node: Node_, table: BridgeTable) -> tuple[Taking[Any], Giving[Any, Any]]:
    """Both directions, by the protocol of the broker, whose client alone needs to be installed."""
    if table.kind == "amqp":
        from triack.bridges.amqp import AmqpInward, AmqpOutward

        queues = AmqpInward(node, table)
        return queues, AmqpOutward(node, table, queues.link)
    from triack.bridges.mqtt import Inward, Outward

    topics = Inward(node, table)
    return topics, Outward(node, table, topics.link)
