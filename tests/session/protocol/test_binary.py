"""Frames and hellos: every valid one reads back, and all other bytes raise only ProtocolError."""

import ast
from collections.abc import Callable
from dataclasses import replace
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.house import code
from tests.session.pair import make_hello
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet
from triack.base.units import MS
from triack.session.protocol import frames
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, Ask, CloseFrame, Hello, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.opening import Opening
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason

SOME = NumberSet(3, [(5, 5), (8, 10)])
DATAGRAM = (
    BINARY.encode(AckFrame.of(SOME, 64, 77, 7_000))
    + BINARY.encode(StoreAckFrame.of(SOME))
    + BINARY.encode(PingFrame())
    + BINARY.encode(CloseFrame(CloseReason.DRAINED))
    + BINARY.encode(PacketFrame(9, Delivery.TRANSACTIONAL, True, b"body"))
)
POLICY = Policy.of(SessionSettings())
HELLO = Hello(2**64 - 1, 2, 3, 1_200, POLICY, b"introduction")


def ack_bytes(*ranges: tuple[int, int], kind: int = 2) -> bytes:
    """An ACK of cumulative number 10 whose ranges are whatever the test says."""
    return pack("!BBHIQQ", kind, len(ranges), 64, 0, 0, 10) + b"".join(pack("!II", *bounds) for bounds in ranges)


def test_an_ack_that_names_the_refused_is_an_ack() -> None:
    refusing = BINARY.encode(AckFrame.of(SOME, 64, 78, 7_000, [(1, 1)]))
    with pytest.raises(ProtocolError, match="repeated-frame"):
        BINARY.decode(BINARY.encode(AckFrame.of(SOME, 64, 77, 7_000)) + refusing)


@pytest.mark.parametrize(
    ("frame", "layout"),
    [
        (PacketFrame(9, Delivery.RECOVERABLE, True, b"ab", 7), "01810002000000000000000900000000000000076162"),
        (
            AckFrame.of(NumberSet(3, [(5, 6)]), 64, 9, 7_999),
            "0201004000000007000000000000000900000000000000030000000200000003",
        ),
        (
            AckFrame.of(NumberSet(3), 64, 9, 7_999, [(2, 2)]),
            "0600004000000007000000000000000900000000000000030100000000000000010000000100000001",
        ),
        (StoreAckFrame.of(NumberSet(3), 7), "030000000000000000000000000000070000000000000003"),
        (PingFrame(), "0400"),
        (CloseFrame(CloseReason.ACK_TIMEOUT), "0501"),
        (frames.RoundTripFrame(2**40), "0a0000000000010000000000"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_layout_is_as_documented(frame: frames.Frame, layout: str) -> None:
    """The bytes are those of the module's table, so that other versions understand them."""
    assert BINARY.encode(frame).hex() == layout
    assert [BINARY.encode(read).hex() for read in BINARY.decode(bytes.fromhex(layout))] == [layout]


@given(
    st.integers(1, 2**64 - 1),
    st.sampled_from(Delivery),
    st.sampled_from(Ask),
    st.binary(max_size=2_000),
    st.integers(0, frames.MARK_MAX),
)
def test_any_packet_reads_back(number: int, delivery: Delivery, ask: Ask, content: bytes, mark: int) -> None:
    data = BINARY.encode(PacketFrame(number, delivery, ask, content, mark))
    assert BINARY.decode(data) == [PacketFrame(number, delivery, ask, content, mark)]
    assert len(data) == BINARY.packet_header_bytes + len(content)


@given(st.integers(0, 2**63), st.sets(st.integers(2, 200)), st.integers(0, 0xFFFF), st.integers(0, 2**31))
def test_any_ack_reads_back(base: int, offsets: set[int], window: int, delay_us: int) -> None:
    """An ack keeps 64 ranges, of eight bytes each: a session ack the highest, a store ack the lowest.

    What came last is in no earlier ack, and would look lost; no loss is seen in a store ack.
    """
    numbers = NumberSet(base)
    for offset in offsets:
        numbers.add(base + offset)
    told, stored = numbers.ranges[-frames.MAX_ACK_RANGES :], numbers.ranges[: frames.MAX_ACK_RANGES]
    ack = BINARY.encode(AckFrame.of(numbers, window, base, delay_us * 1_000))
    store_ack = BINARY.encode(StoreAckFrame.of(numbers))
    sent = [AckFrame(base, told, window, base, delay_us * 1_000), StoreAckFrame(base, stored)]
    assert BINARY.decode(ack + store_ack) == sent
    assert len(ack) == len(store_ack) == BINARY.ack_bytes + 8 * len(told)


@pytest.mark.parametrize("refused", [1, 2, frames.REFUSED_RANGES_MAX])
def test_an_ack_that_names_what_is_refused_fits_the_smallest_datagram(refused: int) -> None:
    numbers = NumberSet(3, [(at, at) for at in range(5, 400, 2)])
    named = [(at, at) for at in range(7, 7 + 4 * refused, 4)]
    ack = AckFrame.of(numbers, 64, 9, 7_000, named)
    assert (ack.cumulative, ack.ranges) == (3, numbers.ranges[2 + refused - frames.MAX_ACK_RANGES :])
    assert len(BINARY.encode(ack)) <= 536
    assert BINARY.decode(BINARY.encode(ack)) == [ack]


@pytest.mark.parametrize("count", [0, frames.REFUSED_RANGES_MAX + 1])
def test_as_many_refused_ranges_as_no_ack_names(count: int) -> None:
    tail = pack("!BQ", count, 0) + b"".join(pack("!II", 2 * at + 1, 2 * at + 1) for at in range(count))
    with pytest.raises(ProtocolError):
        BINARY.decode(ack_bytes(kind=6) + tail)


def test_an_endless_ack_delay_is_cut() -> None:
    cut = AckFrame(1, [], 1, 0, 0xFFFFFFFF * 1_000)
    assert BINARY.decode(BINARY.encode(AckFrame.of(NumberSet(1), 1, 0, 2**62))) == [cut]


def test_an_unknown_close_reason_is_a_goodbye_all_the_same() -> None:
    """A newer peer may have more reasons than we know."""
    assert BINARY.decode(b"\x05\xfe") == [CloseFrame(CloseReason.PEER_CLOSED)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (ack_bytes((1, 1)), "touches the cumulative number"),
        (ack_bytes((0, 5)), "starts at the cumulative number"),
        (ack_bytes((5, 4)), "ends before it starts"),
        (ack_bytes((2, 3), (4, 5)), "touches the one before"),
        (ack_bytes((2, 5), (5, 6)), "overlaps"),
        (ack_bytes((8, 9), (2, 3)), "descends"),
        (ack_bytes((8, 9), (2, 3), kind=3), "descends, in a store ack"),
        (ack_bytes(*[(2 * n, 2 * n) for n in range(1, 66)]), "65 ranges"),
        (ack_bytes((2, 2))[:-1], "cut short"),
        (BINARY.encode(PacketFrame(0, Delivery.EXPRESS, False, b"")), "number 0"),
        (BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"ab"))[:-1], "longer than its datagram"),
        (BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"", 2**63)), "a mark that nobody has"),
        (BINARY.encode(StoreAckFrame.of(SOME, 2**63)), "a store ack with a mark that nobody has"),
        (b"\x01\x03" + BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b""))[2:], "class 3"),
        (b"\x00", "type 0"),
        (b"\x06\x00", "type 6"),
        (b"\x04", "half a ping"),
        (b"\x05", "half a close"),
        (BINARY.encode(PingFrame()) + b"\xff", "a good frame, then a bad one"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_frames_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=r"^bad-frame"):
        BINARY.decode(data)


def test_sixty_four_ranges_are_fine() -> None:
    (frame,) = BINARY.decode(ack_bytes(*[(2 * n, 2 * n) for n in range(1, 65)]))
    assert isinstance(frame, AckFrame)
    assert frame.ranges[:2] == [(12, 12), (14, 14)]


@pytest.mark.parametrize(
    ("data", "read", "reason"),
    [(DATAGRAM, BINARY.decode, "bad-frame"), (BINARY.encode_hello(HELLO), BINARY.decode_hello, "bad-hello")],
)
def test_damage_is_read_or_refused(data: bytes, read: Callable[[bytes], object], reason: str) -> None:
    reasons = []
    flips = [bytes([*data[:at], data[at] ^ 1 << bit, *data[at + 1 :]]) for at in range(len(data)) for bit in range(8)]
    for damaged in [*(data[:at] for at in range(len(data))), *flips]:
        try:
            read(damaged)
        except ProtocolError as error:
            reasons.append(error.reason)
    # Damage may make one kind of frame of another.
    assert {reason} <= set(reasons) <= {reason, "repeated-frame"}
    assert len(reasons) > 10


def test_a_hello_reads_back() -> None:
    for introduction in (b"", b"\x00", bytes(1_000)):
        hello = replace(HELLO, introduction=introduction)
        assert BINARY.decode_hello(BINARY.encode_hello(hello)) == hello
    assert BINARY.decode_hello(BINARY.encode_hello(make_hello(1))) == make_hello(1)


def test_the_layout_of_a_hello_is_as_documented() -> None:
    assert BINARY.encode_hello(Hello(1, 2, 3, 1_200, POLICY, b"\xff")).hex() == (
        f"000000000000000100000000000000020000000000000003000004b0{POLICY.encode().hex()}ff"
    )


@pytest.mark.parametrize(
    "hello",
    [
        replace(HELLO, policy=replace(POLICY, window=0)),
        replace(HELLO, policy=replace(POLICY, window=0x10000)),
        replace(HELLO, policy=replace(POLICY, ack_timeout_min_ns=0)),
        replace(HELLO, max_datagram_bytes=511),
        replace(HELLO, connection_id=0),
    ],
)
def test_a_hello_out_of_range_is_refused(hello: Hello) -> None:
    with pytest.raises(ProtocolError, match=r"^bad-hello"):
        BINARY.decode_hello(BINARY.encode_hello(hello))


def test_a_run_ends_where_a_datagram_holds_anything_else() -> None:
    def packet(number: int, delivery: Delivery = Delivery.EXPRESS, mark: int = 0) -> bytes:
        return BINARY.encode(PacketFrame(number, delivery, number == 2, b"%d" % number, mark))

    ping = BINARY.encode(PingFrame())
    odd = [packet(4), packet(3, Delivery.RECOVERABLE), packet(3) + ping, packet(3)[:-1], b"", ping]
    for behind in (*odd, packet(3, mark=frames.MARK_MAX + 1)):
        run = BINARY.decode_run([packet(1, mark=9), packet(2, mark=5), behind, packet(3)], 1)
        assert run == frames.PacketRun(1, Delivery.EXPRESS, [2], [b"1", b"2"], 2, 9, Ask.AT_ONCE)
    of_class_3 = packet(1)[:1] + b"\3" + packet(1)[2:]
    assert [BINARY.decode_run(first, 1) for first in ([packet(2)], [], [of_class_3])] == [None] * 3


@pytest.mark.gate
def test_no_machine_of_a_session_names_a_codec_or_a_scheme() -> None:
    """A second dialect, or another kind of path, changes no machine."""
    for source in code():
        if source.path.startswith("session/") and source.path != "session/protocol/binary.py":
            assert "triack.session.protocol.binary" not in source.text, source.path
            texts = {node.value for node in source.nodes if isinstance(node, ast.Constant)}
            assert texts.isdisjoint({"udp", "tcp", "memory"}), source.path


# The hellos before a session is open: which end sends them, how often, and with which time in them.

CONNECT = make_hello(1, sent_at_ns=100)


def test_an_initiator_whose_peer_was_away_for_long_waits_longer_from_the_first() -> None:
    opening, short = Opening(make_hello(1), None, 3_000 * MS), Opening(make_hello(1), None, 10 * MS)
    for at_ns in range(3):
        opening.say(at_ns)
        short.say(at_ns)
        assert (opening.wait_ns, short.wait_ns) == (3_000 * MS, (200 + 20 * at_ns) * MS)


def test_an_acceptor_keeps_what_is_new_until_it_is_asked() -> None:
    opening = Opening(make_hello(2), CONNECT)
    opening.say(0)
    opening.introduce(b"something else")
    assert not opening.due
    opening.handle_connect(CONNECT)
    assert opening.say(0).introduction == b"something else"


def test_something_new_is_said_at_once() -> None:
    opening = Opening(make_hello(1), None)
    before = opening.say(7)
    opening.introduce(b"something else")
    assert opening.due
    assert opening.say(7) == replace(before, introduction=b"something else")
