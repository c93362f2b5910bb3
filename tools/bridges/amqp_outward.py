"""From the node to a broker of AMQP 0-9-1: what ``Giving`` does, with publisher confirms.

killed before the commit   the messages are in the queue, and are published again: the broker may have them twice,
with the same message id
killed after it            the broker has confirmed them
"""

from collections.abc import Hashable

from triack.bridges.amqp_link import AmqpLink, Departing
from triack.bridges.amqp_messages import to_amqp
from triack.bridges.giving import Giving
from triack.bridges.remembered import Node_
from triack.node.config.bridge_rules import GiveExchange
from triack.node.config.bridge_table import BridgeTable
from triack.node.handles.message import Message


class AmqpOutward(Giving[GiveExchange, Departing]):
    """What goes by one connection; see ``Giving``."""

    def __init__(self, node: Node_, table: BridgeTable, link: AmqpLink) -> None:
        super().__init__(node, table, link, table.given_to_exchanges, two_runs=True)
        self._link = link
        link.answered = self.handle_answer

    async def _begin(self) -> None:
        await self._link.check_exchanges([rule.exchange for rule in self._rules])

    def _plan(self, rule: GiveExchange, message: Message) -> Departing:
        routing_key = rule.routing_key(message.headers, message.topic)
        return Departing(rule.exchange, routing_key, message.body, to_amqp(message, self._link.frame_bytes))

    def _name_of(self, _message: Message, it: Departing) -> Hashable:
        """The broker returns a message by its id: of two on their way with the same, no one knew which it is."""
        return it.properties.message_id

    def _send(self, _name: Hashable, _message: Message, it: Departing) -> None:
        self._link.publish(it, mandatory=self._table.mandatory)
