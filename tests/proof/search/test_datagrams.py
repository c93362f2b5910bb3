"""What was said: every different datagram once, and who could take it."""

from dataclasses import replace

from proof.planted.worlds import PLAIN
from proof.search.datagrams import BareChannels, Datagram, Datagrams, describe_packet
from tests.proof.search.hosts import DELIVER, opened, started
from triack.base.datagram import HEADER_BYTES, Kind, read_header
from triack.ordering.wire import encode_order_ack
from triack.session.protocol.frames import CloseFrame, Frame, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.states import CloseReason


def test_a_datagram_is_read_as_it_was_sent() -> None:
    """Its destination, its session, and what is in it."""
    first, second, (connect,) = started(PLAIN)
    (accept,) = second.act(DELIVER, connect)
    data = first.act(DELIVER, accept)[0]
    assert [(it.to, it.kind, it.has_packet) for it in (connect, accept, data)] == [
        (1, Kind.CONNECT, False),
        (0, Kind.ACCEPT, False),
        (1, Kind.DATA, True),
    ]
    assert connect.connection in first.witness.talks
    assert connect.session == accept.session != 0
    assert [type(frame) for frame in data.frames][-1] is PacketFrame
    assert Datagram.read(1, data.data).frames == data.frames
    (ack,) = second.act(DELIVER, data)
    assert (ack.is_ack, data.is_ack, connect.is_ack) == (True, False, False)


def test_each_has_one_number_however_often_it_is_sent() -> None:
    """Another receiver, another session or another byte is another datagram."""
    _, _, (one, two) = opened(PLAIN)
    known = Datagrams()
    assert [known.number(it) for it in (one, two, one, replace(one), two)] == [0, 1, 0, 0, 1]
    others = [replace(one, to=0), replace(one, session=99), replace(one, data=one.data + b"x")]
    assert [known.number(it) for it in others] == [2, 3, 4]
    assert known.known[0] is one


def test_bits_say_who_could_take_what() -> None:
    """A connect can always be taken; all else only where its connection is."""
    first, second, (connect,) = started(PLAIN)
    (accept,) = second.act(DELIVER, connect)
    data, _ = first.act(DELIVER, accept)
    (ack,) = second.act(DELIVER, data)
    known = Datagrams()
    for datagram in (connect, accept, data, ack):
        known.number(datagram)
    assert known.to == [0b1010, 0b0101]
    assert known.connects == [0, 0b0001]
    assert known.acks == 0b1000
    assert known.live(1, ()) == 0b0001
    assert known.live(1, (data.connection,)) == 0b0101
    assert known.live(0, (accept.connection,)) == 0b1010
    assert known.live(0, (777,)) == 0


def test_a_forgotten_counter_makes_equals_of_copies() -> None:
    """And nothing else."""
    _, _, (one, two) = opened(PLAIN)
    again = replace(
        one,
        counter=one.counter + 5,
        data=one.data[: HEADER_BYTES - 8] + b"\x00" * 7 + b"\x09" + one.data[HEADER_BYTES:],
    )
    known = Datagrams()
    assert known.number(one) != known.number(again)
    for datagram in (one, two, again):
        datagram.forget_counter()
    known = Datagrams()
    assert known.number(one) == known.number(again) != known.number(two)


def test_a_bare_channel_hides_nothing() -> None:
    """Header and payload, and a connect's channel is like any other."""
    channel = BareChannels().dial("b", "memory")
    sealed = channel.seal(Kind.DATA, 5, 6, b"payload", 0)
    header = read_header(sealed)
    assert (len(sealed), channel.open(sealed, header, 0)) == (channel.overhead_bytes + 7, b"payload")
    answer, payload, _ = BareChannels().answer(sealed, header, "memory://a", 0)
    assert answer is not None
    assert (payload, answer.open(sealed, header, 0)) == (b"payload", b"payload")


def test_everything_can_be_told_in_words() -> None:
    """For traces."""
    first, second, (connect,) = started(PLAIN)
    assert str(connect) == "CONNECT of session a01"
    (accept,) = second.act(DELIVER, connect)
    one, _ = first.act(DELIVER, accept)
    frames: list[Frame] = [PingFrame(), CloseFrame(CloseReason.IDLE), StoreAckFrame(3, [(5, 6), (9, 9)])]
    assert str(replace(one, frames=frames)) == "DATA of session a01 [ping, goodbye: idle, store ack to 3 and 5-6 9-9]"
    assert describe_packet(encode_order_ack(b"o" * 16, 1, 1, 7)) == "order ack to 7"
    assert describe_packet(b"\xff\xff") == "unreadable"
