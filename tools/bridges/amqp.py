"""Both directions between a node and a broker of AMQP 0-9-1: manual acknowledgements, and publisher confirms.

    killed before the commit             the broker has no acknowledgement, and sends the messages again
    killed between commit and basic.ack  the same: a key, such as the message id, shows that they are here
    killed after basic.ack               the broker has forgotten them, and they are on the disk

The messages of all queues come by one channel, which numbers them. So one basic.ack speaks for all that a commit has
brought to the disk, and for nothing else.

    killed before the commit             the messages are in the queue, and are published again: the broker may have
                                         them twice, with the same message id
    killed after it                      the broker has confirmed them
"""

from collections.abc import Hashable, Sequence

from triack.bridges.amqp_link import AmqpLink, Arrived, Departing
from triack.bridges.amqp_messages import from_amqp, origin_of, to_amqp, value_in
from triack.bridges.giving import Giving
from triack.bridges.part import Node_
from triack.bridges.taking import Address, Taking
from triack.node.config.bridge_rules import GiveExchange
from triack.node.config.bridge_table import BridgeTable
from triack.node.handles.message import Message
from triack.node.shell.outgoing_message import MessageProperties


class AmqpInward(Taking[Arrived]):
    """What comes by one connection; see ``Taking``."""

    link: AmqpLink

    def __init__(self, node: Node_, table: BridgeTable) -> None:
        super().__init__(node, table)
        self.link = AmqpLink(self.handle_arrived)
        self._rules = table.taken_queues
        self._key = table.message_key

    async def subscribe(self) -> None:
        """Have the broker send. Raises BrokerAway."""
        await self.link.consume(self._rules)

    async def _commit(self, batch: Sequence[Arrived]) -> None:
        async with self._node.transaction() as tx:
            refused = await self._send(tx, batch)
            await tx.commit()
        taken = len(batch) - refused.total()
        await self._count({"taken": taken, "repeated": sum(it.again for it in batch)}, refused)

    def _address_of(self, it: Arrived) -> Address:
        return Address(it.rule.destination(lambda name: value_in(it, name)), it.rule.queue)

    def _key_of(self, it: Arrived) -> str | None:
        return self._key.key(it.payload, lambda name: value_in(it, name))

    def _properties_of(self, it: Arrived) -> MessageProperties:
        return from_amqp(it)

    def _origin_of(self, it: Arrived) -> dict[str, str]:
        return origin_of(it)

    async def _acknowledge(self, batch: Sequence[Arrived]) -> None:
        tags = [it.tag for it in batch if not it.too_large]
        for tag in {it.tag for it in batch}.difference(tags):
            await self.link.reject(tag)
        if tags:
            await self.link.acknowledge(tags[-1])


class AmqpOutward(Giving[GiveExchange, Departing]):
    """What goes by one connection; see ``Giving``."""

    link: AmqpLink

    def __init__(self, node: Node_, table: BridgeTable, link: AmqpLink) -> None:
        super().__init__(node, table, table.given_to_exchanges, two_runs=True)
        self.link = link
        link.answered = self.handle_answer

    async def _begin(self) -> None:
        await self.link.check_exchanges([rule.exchange for rule in self._rules])

    def _plan(self, rule: GiveExchange, message: Message) -> Departing:
        routing_key = rule.routing_key(message.headers, message.topic)
        return Departing(rule.exchange, routing_key, message.body, to_amqp(message, self.link.frame_bytes))

    def _name_of(self, _message: Message, it: Departing) -> Hashable:
        """The broker returns a message by its id: of two on their way with the same, no one knew which it is."""
        return it.properties.message_id

    def _send(self, _name: Hashable, _message: Message, it: Departing) -> None:
        self.link.publish(it, mandatory=self._table.mandatory)
