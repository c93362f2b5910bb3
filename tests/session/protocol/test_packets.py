"""The record that a session keeps of a packet."""

from tests.session.pair import Pair
from triack.base.delivery import Delivery
from triack.session.protocol.events import PacketsAcked
from triack.session.protocol.packets import PacketState


def test_an_ack_brings_back_the_packet_with_its_context_and_its_sendings() -> None:
    """The first datagram of the packet is lost, so that it is sent twice under one number."""
    pair = Pair.opened()
    pair.lose = lambda end, sent: sent.packet is not None and sent.packet.sends == 1
    context = object()
    number = pair.a.send_packet(Delivery.EXPRESS, b"x", context)
    pair.run_until(lambda: any(isinstance(event, PacketsAcked) and event.packets for event in pair.events["a"]))
    (packet,) = [sent for event in pair.events["a"] if isinstance(event, PacketsAcked) for sent in event.packets]
    assert (packet.number, packet.sends, packet.state) == (number, 2, PacketState.ACKED)
    assert packet.context is context
