"""Messages whose senders want to know what happens to them, and the answers."""

from typing import Any

from tests.queues.world import SimNode
from triack.base.delivery import Delivery
from triack.queues.admin_acks import write_request
from triack.queues.message_classes import Acks, MessageClass
from triack.queues.messages import ADMIN, Outgoing

EVERYTHING = Acks(15)


def ask(
    node: SimNode,
    where: str,
    *bodies: bytes,
    queue: str = "q",
    acks: Acks = EVERYTHING,
    delivery: Delivery = Delivery.TRANSACTIONAL,
    reach_ms: int = 0,
    receive_ms: int = 0,
    **properties: Any,
) -> None:
    """Send messages to a queue of a peer, or of the node itself, with answers to its queue ``acks``."""
    now_ms = node.world.now_ms
    outgoing = node.live.outgoing_stream(where, queue, delivery)
    for body in bodies:
        message = Outgoing(
            body,
            {ADMIN: write_request("acks", acks), **properties},
            reach_by_ms=now_ms + reach_ms if reach_ms else 0,
            receive_by_ms=now_ms + receive_ms if receive_ms else 0,
        )
        node.live.submit(outgoing, message, len(body))
    node.drain()


def answers(node: SimNode, queue: str = "acks") -> list[tuple[MessageClass, bytes, dict[str, Any]]]:
    """Read the answers that wait: class, body and properties of each."""
    found: list[tuple[MessageClass, bytes, dict[str, Any]]] = []
    mailbox = node.live.make_queue(queue)
    for _ in range(10_000):
        lease = node.live.take(mailbox, node.world.now_ns)
        if lease is None:
            break
        content = lease.packet.open()
        properties = content.properties[lease.index] if content.properties else {}
        found.append((MessageClass(properties.get("class", 0)), lease.body, properties))
        node.live.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])
    node.drain()
    return found


def classes(node: SimNode, queue: str = "acks") -> list[MessageClass]:
    return [message_class for message_class, _, _ in answers(node, queue)]
