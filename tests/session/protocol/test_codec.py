"""How a session depends on its codec, whatever the codec's layout is."""

import ast

from tests.house import code
from tests.session.pair import OVERHEAD_BYTES, Pair
from triack.base.delivery import Delivery
from triack.session.protocol.binary import BINARY
from triack.session.protocol.codec import content_limit_bytes
from triack.session.protocol.settings import SessionSettings


def test_the_largest_content_leaves_room_for_an_ack() -> None:
    """The acceptor opens with a packet that fills its datagram, and owes the ack of another."""
    pair = Pair.opened(SessionSettings(max_datagram_bytes=1_200))
    content = bytes(content_limit_bytes(BINARY, 1_200, OVERHEAD_BYTES))
    pair.b.ack_sender.session_ack.debt.handle_request()
    pair.b.send_packet(Delivery.EXPRESS, content, None)
    pair.run_until(lambda: content in pair.fresh("a"))
    (sent,) = [sent for _, sent in pair.sent["b"] if sent.packet is not None]
    assert len(sent.payload) + OVERHEAD_BYTES == 1_200
    assert sent.ack is not None


def test_no_machine_of_a_session_names_a_codec_or_a_scheme() -> None:
    """A second dialect, or another kind of path, changes no machine."""
    for source in code():
        if source.path.startswith("session/") and source.path != "session/protocol/binary.py":
            assert "triack.session.protocol.binary" not in source.text, source.path
            texts = {node.value for node in source.nodes if isinstance(node, ast.Constant)}
            assert texts.isdisjoint({"udp", "tcp", "memory"}), source.path
