"""From the node to a broker of AMQP 0-9-1: what ``Giving`` does, with publisher confirms.

killed before the commit   the messages are in the queue, and are published again: the broker may have them twice,
with the same message id
killed after it            the broker has confirmed them
"""

import asyncio
from collections.abc import Sequence

from triack.bridges.amqp_link import AmqpLink, Departing, Published
from triack.bridges.amqp_messages import to_amqp
from triack.bridges.giving import Giving, Refusal
from triack.bridges.remembered import Node_
from triack.node.config.bridge_rules import GiveExchange
from triack.node.config.bridge_table import BridgeTable
from triack.node.handles.message import Message

CONFIRM_S = 10.0
"""A broker confirms within a second. One that is low on memory or disk reads nothing more, and says so to nobody."""


class AmqpOutward(Giving[GiveExchange, Departing, Published]):
    """What goes by one connection; see ``Giving``."""

    def __init__(self, node: Node_, table: BridgeTable, link: AmqpLink) -> None:
        super().__init__(node, table, link, table.given_to_exchanges, two_batches=True)
        self._link = link

    async def _begin(self) -> None:
        await self._link.check_exchanges([rule.exchange for rule in self._rules])

    def _plan(self, rule: GiveExchange, message: Message) -> Departing:
        routing_key = rule.routing_key(message.headers, message.topic)
        return Departing(rule.exchange, routing_key, message.body, to_amqp(message, self._link.frame_bytes))

    async def _publish(self, plan: Sequence[tuple[Message, Departing]]) -> list[Published]:
        sent = list[Published]()
        for _, it in plan:
            while (first := self._link.in_the_way(it, self._most)) is not None:
                await self._until(first)
            sent.append(self._link.publish(it, mandatory=self._table.mandatory))
        return sent

    async def _answer_to(self, sent: Published) -> Refusal | None:
        await self._until(sent)
        return self._link.answer(sent)

    async def _until(self, published: Published) -> None:
        """Wait for the answer to a message."""
        while not (await asyncio.wait([published], timeout=CONFIRM_S))[0]:
            self._hold(f"the broker has confirmed nothing for {CONFIRM_S:g} s: it may be low on memory or disk")
        self._release()
