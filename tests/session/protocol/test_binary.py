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
from triack.session.protocol.frames import (
    MARK_MAX,
    MAX_ACK_RANGES,
    AckFrame,
    Ask,
    CloseFrame,
    Hello,
    PacketFrame,
    PacketRun,
    PieceFrame,
    PingFrame,
    StoreAckFrame,
)
from triack.session.protocol.opening import Opening
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason

SOME = NumberSet(3, [(5, 5), (8, 10)])
DATAGRAM = (
    BINARY.encode(frames.AckFrame.of(SOME, 64, 77, 7_000))
    + BINARY.encode(frames.StoreAckFrame.of(SOME))
    + BINARY.encode(frames.PingFrame())
    + BINARY.encode(frames.CloseFrame(CloseReason.DRAINED))
    + BINARY.encode(frames.PacketFrame(9, Delivery.TRANSACTIONAL, True, b"body"))
)
POLICY = Policy.of(SessionSettings())
HELLO = Hello(2**64 - 1, 2, 3, 1_200, POLICY, b"introduction")


def ack_bytes(*ranges: tuple[int, int], kind: int = 2) -> bytes:
    """An ACK of cumulative number 10 whose ranges are whatever the test says."""
    return pack("!BBHIQQ", kind, len(ranges), 64, 0, 0, 10) + b"".join(pack("!II", *bounds) for bounds in ranges)


ONE_OF_EACH = [
    BINARY.encode(frames.AckFrame.of(SOME, 64, 77, 7_000)),
    BINARY.encode(frames.StoreAckFrame.of(SOME)),
    BINARY.encode(frames.PingFrame()),
    BINARY.encode(frames.CloseFrame(CloseReason.DRAINED)),
    BINARY.encode(frames.ProbedFrame(3)),
    BINARY.encode(frames.RoundTripFrame(10**9)),
    BINARY.encode(PieceFrame(4, Delivery.EXPRESS, Ask.NO, 8, 0, b"four")),
    BINARY.encode(frames.PacketFrame(9, Delivery.EXPRESS, False, b"")),
]


def test_a_round_trip_reads_back() -> None:
    """In nanoseconds, after four bytes of which three are zero."""
    frame = BINARY.encode(frames.RoundTripFrame(2**40))
    assert BINARY.decode(frame) == [frames.RoundTripFrame(2**40)]
    assert frame.hex() == "0a0000000000010000000000"


def test_an_ack_that_names_the_refused_is_an_ack() -> None:
    """There is one of both in a datagram."""
    refusing = BINARY.encode(frames.AckFrame.of(SOME, 64, 78, 7_000, [(1, 1)]))
    with pytest.raises(ProtocolError, match="repeated-frame"):
        BINARY.decode(ONE_OF_EACH[0] + refusing)


def test_layout_is_as_documented() -> None:
    """The bytes are those of the module's table, so that other versions understand them."""
    assert BINARY.encode(frames.PacketFrame(9, Delivery.RECOVERABLE, True, b"ab", 7)).hex() == (
        "01810002000000000000000900000000000000076162"
    )
    assert BINARY.encode(frames.AckFrame.of(NumberSet(3, [(5, 6)]), 64, 9, 7_999)).hex() == (
        "0201004000000007000000000000000900000000000000030000000200000003"
    )
    assert BINARY.encode(frames.AckFrame.of(NumberSet(3), 64, 9, 7_999, [(2, 2)])).hex() == (
        "060000400000000700000000000000090000000000000003" + "010000000000000001" + "0000000100000001"
    )
    assert (
        BINARY.encode(frames.StoreAckFrame.of(NumberSet(3), 7)).hex()
        == "030000000000000000000000000000070000000000000003"
    )
    assert BINARY.encode(frames.PingFrame()).hex() == "0400"
    assert BINARY.encode(frames.CloseFrame(CloseReason.ACK_TIMEOUT)).hex() == "0501"


@given(
    st.integers(1, 2**64 - 1),
    st.sampled_from(Delivery),
    st.sampled_from(Ask),
    st.binary(max_size=2_000),
    st.integers(0, MARK_MAX),
)
def test_any_packet_reads_back(number: int, delivery: Delivery, ask: Ask, content: bytes, mark: int) -> None:
    """Number, class, what it asks for, content and mark survive the wire."""
    data = BINARY.encode(frames.PacketFrame(number, delivery, ask, content, mark))
    assert BINARY.decode(data) == [PacketFrame(number, delivery, ask, content, mark)]
    assert len(data) == BINARY.packet_header_bytes + len(content)


@given(st.integers(0, 2**63), st.sets(st.integers(2, 200)), st.integers(0, 0xFFFF), st.integers(0, 2**31))
def test_any_ack_reads_back(base: int, offsets: set[int], window: int, delay_us: int) -> None:
    """An ack keeps 64 ranges, of eight bytes each: a session ack the highest, a store ack the lowest."""
    numbers = NumberSet(base)
    for offset in offsets:
        numbers.add(base + offset)
    told, stored = numbers.ranges[-frames.MAX_ACK_RANGES :], numbers.ranges[: frames.MAX_ACK_RANGES]
    ack, store_ack = (
        BINARY.encode(frames.AckFrame.of(numbers, window, base, delay_us * 1_000)),
        BINARY.encode(frames.StoreAckFrame.of(numbers)),
    )
    assert BINARY.decode(ack + store_ack) == [
        AckFrame(base, told, window, base, delay_us * 1_000),
        StoreAckFrame(base, stored),
    ]
    assert len(ack) == len(store_ack) == BINARY.ack_bytes + 8 * len(told)


@pytest.mark.parametrize("refused", [1, frames.REFUSED_RANGES_MAX])
def test_an_ack_that_names_what_is_refused_fits_the_smallest_datagram(refused: int) -> None:
    """With as many ranges of each kind as there may be; it has fewer of what arrived then."""
    numbers = NumberSet(3, [(at, at) for at in range(5, 400, 2)])
    named = [(at, at) for at in range(7, 7 + 4 * refused, 4)]
    ack = frames.AckFrame.of(numbers, 64, 9, 7_000, named)
    assert (ack.cumulative, len(ack.ranges)) == (3, frames.MAX_ACK_RANGES - 2 - refused)
    assert len(BINARY.encode(ack)) <= 536
    assert BINARY.decode(BINARY.encode(ack)) == [ack]


@pytest.mark.parametrize("count", [0, frames.REFUSED_RANGES_MAX + 1])
def test_as_many_refused_ranges_as_no_ack_names(count: int) -> None:
    """None, or too many, are no frame."""
    tail = pack("!BQ", count, 0) + b"".join(pack("!II", 2 * at + 1, 2 * at + 1) for at in range(count))
    with pytest.raises(ProtocolError):
        BINARY.decode(ack_bytes(kind=6) + tail)


def test_an_endless_ack_delay_is_cut() -> None:
    """A delay that does not fit its field is sent as the largest that does."""
    (frame,) = BINARY.decode(BINARY.encode(frames.AckFrame.of(NumberSet(1), 1, 0, 2**62)))
    assert isinstance(frame, AckFrame)
    assert frame.delay_ns == 0xFFFFFFFF * 1_000


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
        (BINARY.encode(frames.PacketFrame(0, Delivery.EXPRESS, False, b"")), "number 0"),
        (BINARY.encode(frames.PacketFrame(1, Delivery.EXPRESS, False, b"ab"))[:-1], "longer than its datagram"),
        (BINARY.encode(frames.PacketFrame(1, Delivery.EXPRESS, False, b"", 2**63)), "a mark that nobody has"),
        (BINARY.encode(frames.StoreAckFrame.of(SOME, 2**63)), "a store ack with a mark that nobody has"),
        (b"\x01\x03" + BINARY.encode(frames.PacketFrame(1, Delivery.EXPRESS, False, b""))[2:], "class 3"),
        (b"\x00", "type 0"),
        (b"\x06\x00", "type 6"),
        (b"\x04", "half a ping"),
        (b"\x05", "half a close"),
        (BINARY.encode(frames.PingFrame()) + b"\xff", "a good frame, then a bad one"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_frames_are_refused(data: bytes, why: str) -> None:
    """Bytes that no correct peer sends raise a ProtocolError with the reason."""
    with pytest.raises(ProtocolError) as caught:
        BINARY.decode(data)
    assert caught.value.reason == "bad-frame"


def test_sixty_four_ranges_are_fine() -> None:
    """The limit itself is allowed, as are ranges one number apart."""
    (frame,) = BINARY.decode(ack_bytes(*[(2 * n, 2 * n) for n in range(1, 65)]))
    assert isinstance(frame, AckFrame)
    assert frame.ranges[:2] == [(12, 12), (14, 14)]


def damage(data: bytes) -> list[bytes]:
    """Every truncation and every single flipped bit."""
    flips = [bytes([*data[:at], data[at] ^ 1 << bit, *data[at + 1 :]]) for at in range(len(data)) for bit in range(8)]
    return [data[:at] for at in range(len(data))] + flips


@pytest.mark.parametrize(
    ("data", "read", "reason"),
    [(DATAGRAM, BINARY.decode, "bad-frame"), (BINARY.encode_hello(HELLO), BINARY.decode_hello, "bad-hello")],
)
def test_damage_is_read_or_refused(data: bytes, read: Callable[[bytes], object], reason: str) -> None:
    """Whatever a truncation or a flipped bit makes of it, the answer is a value or a ProtocolError, nothing else."""
    reasons = []
    for damaged in damage(data):
        try:
            read(damaged)
        except ProtocolError as error:
            reasons.append(error.reason)
    # Damage may make one kind of frame of another.
    assert reason in reasons
    assert set(reasons) <= {reason, "repeated-frame"}
    assert len(reasons) > 10


def test_a_hello_reads_back() -> None:
    """Every field survives, and the introduction as a whole, whatever it is."""
    for introduction in (b"", b"\x00", bytes(1_000)):
        hello = replace(HELLO, introduction=introduction)
        assert BINARY.decode_hello(BINARY.encode_hello(hello)) == hello
    assert BINARY.decode_hello(BINARY.encode_hello(make_hello(1))) == make_hello(1)


def test_the_layout_of_a_hello_is_as_documented() -> None:
    """Fields one after the other, then the introduction."""
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
    """A window, datagram size or connection id that cannot work ends the connection before it begins."""
    with pytest.raises(ProtocolError) as caught:
        BINARY.decode_hello(BINARY.encode_hello(hello))
    assert caught.value.reason == "bad-hello"


def test_a_run_ends_where_a_datagram_holds_anything_else() -> None:
    """Another number, another class, a second frame, a cut end, an impossible mark."""

    def packet(number: int, delivery: Delivery = Delivery.EXPRESS, mark: int = 0) -> bytes:
        return BINARY.encode(PacketFrame(number, delivery, number == 2, b"%d" % number, mark))

    odd = [
        packet(4),
        packet(3, Delivery.RECOVERABLE),
        packet(3) + BINARY.encode(PingFrame()),
        packet(3)[:-1],
        b"",
        BINARY.encode(PingFrame()),
    ]
    for behind in (*odd, packet(3, mark=MARK_MAX + 1)):
        run = BINARY.decode_run([packet(1, mark=9), packet(2, mark=5), behind, packet(3)], 1)
        assert run == PacketRun(1, Delivery.EXPRESS, [2], [b"1", b"2"], 2, 9, Ask.AT_ONCE)
    assert BINARY.decode_run([packet(2)], 1) is None
    assert BINARY.decode_run([], 1) is None
    unknown_class = bytearray(packet(1))
    unknown_class[1] = 3
    assert BINARY.decode_run([bytes(unknown_class)], 1) is None


# How a session depends on its codec, whatever the codec's layout is.


@pytest.mark.gate
def test_no_machine_of_a_session_names_a_codec_or_a_scheme() -> None:
    """A second dialect, or another kind of path, changes no machine."""
    for source in code():
        if source.path.startswith("session/") and source.path != "session/protocol/binary.py":
            assert "triack.session.protocol.binary" not in source.text, source.path
            texts = {node.value for node in source.nodes if isinstance(node, ast.Constant)}
            assert texts.isdisjoint({"udp", "tcp", "memory"}), source.path


# The content of typed frames, before any codec encodes them.


def test_an_ack_has_the_highest_ranges_and_fewer_when_it_names_refused_packets() -> None:
    """What came last is in no earlier ack, and would look lost. No loss is seen in a store ack: it has the lowest."""
    numbers = NumberSet(3, [(at, at) for at in range(5, 400, 2)])
    plain, refusing = AckFrame.of(numbers, 64, 9, 0), AckFrame.of(numbers, 64, 9, 0, [(5, 5), (7, 7)])
    assert plain.ranges == numbers.ranges[-MAX_ACK_RANGES:]
    assert refusing.ranges == plain.ranges[4:]
    assert StoreAckFrame.of(numbers).ranges == numbers.ranges[:MAX_ACK_RANGES]
    assert plain.cumulative == refusing.cumulative == 3


# The hellos before a session is open: which end sends them, how often, and with which time in them.

CONNECT = make_hello(1, sent_at_ns=100)


def test_an_initiator_whose_peer_was_away_for_long_waits_longer_from_the_first() -> None:
    """And no shorter than anybody else."""
    opening, short = Opening(make_hello(1), None, 3_000 * MS), Opening(make_hello(1), None, 10 * MS)
    for at_ns in range(3):
        opening.say(at_ns)
        short.say(at_ns)
        assert (opening.wait_ns, short.wait_ns) == (3_000 * MS, (200 + 20 * at_ns) * MS)


def test_an_acceptor_keeps_what_is_new_until_it_is_asked() -> None:
    """A connect brings it out."""
    opening = Opening(make_hello(2), CONNECT)
    opening.say(0)
    opening.introduce(b"something else")
    assert not opening.due
    opening.handle_connect(CONNECT)
    assert opening.say(0).introduction == b"something else"


def test_something_new_is_said_at_once() -> None:
    """Nothing else of the hello changes."""
    opening = Opening(make_hello(1), None)
    before = opening.say(7)
    opening.introduce(b"something else")
    assert opening.due
    after = opening.say(7)
    assert (before.introduction, after.introduction) == (b"node-1", b"something else")
    assert (after.session_id, after.connection_id, after.policy) == (7, 1, before.policy)
