"""The content of packets: valid content reads back, anything else is a ProtocolError."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering.pair import ORIGIN, make_header
from triack.base.errors import ProtocolError
from triack.ordering import wire
from triack.ordering.wire import OrderAckPacket, RejectPacket, SequenceHeader, decode

HEADER = make_header(9, 7, 3, ack_requested=True)
CONTENTS = [
    HEADER.encode(),
    OrderAckPacket(ORIGIN, 1, 3, 9).encode(),
    RejectPacket(*HEADER.named, "queue-not-found").encode(),
    wire.HoldPacket(ORIGIN, 1, 5, stop=True).encode(),
    wire.EndPacket(ORIGIN, 1, 5, 2, answer=False).encode(),
]
TRACE = b"relay--1relay--2"
FIRST_RELAYED = wire.RelayedPacket(9, 7, 5_000, True, b"9")
RELAYED = wire.encode_relayed_run(HEADER, "b", "a", [FIRST_RELAYED], trace=TRACE)[0]
ACK_BACK = wire.RelayedOrderAck(ORIGIN, 1, 3, 9, 2, b"d" * 16, wire.StoreWord(5, 70, 2, ((4, 60),)))
REJECT_BACK = wire.RelayedReject(ORIGIN, 1, 3, 9, "no-route", 2, b"r" * 16)
PROVED_ACK = replace(ACK_BACK, mac=b"m" * 16)
PROVED_REJECT = replace(REJECT_BACK, mac=b"m" * 16)
WAITS = wire.OnwardPacket(ORIGIN, 1, 3, 4, 9, waits=True)
PASSED = wire.OnwardAckPacket(ORIGIN, 1, 3, 4, True, [(1, 7), (9, 9)])
STORE = wire.StoreWord(5, 70, 3, ((3, 40), (4, 60)))
ENDS = wire.RelayedEnd(ORIGIN, 1, 9, 2, False, 12, TRACE, b"r" * 16, "b", "a")
FORGOTTEN = wire.RelayedEnd(ORIGIN, 1, 9, 2, True, 12, b"", b"d" * 16, store=STORE)
BY_RELAYS = [
    RELAYED,
    ACK_BACK.encode(),
    REJECT_BACK.encode(),
    PROVED_ACK.encode(),
    PROVED_REJECT.encode(),
    WAITS.encode(),
    PASSED.encode(),
    ENDS.encode(),
    FORGOTTEN.encode(),
]
NUMBER = st.integers(1, wire.NUMBER_MAX)


@st.composite
def headers(draw: st.DrawFn) -> SequenceHeader:
    """Any header that a correct node sends."""
    number = draw(NUMBER)
    return SequenceHeader(
        origin=draw(st.binary(min_size=16, max_size=16)),
        stream=draw(st.integers(1, 2**32 - 1)),
        sequence=draw(NUMBER),
        number=number,
        previous=draw(st.integers(0, number - 1)),
        queue=draw(st.text(max_size=60)),
        ack_requested=draw(st.booleans()),
        body=draw(st.binary(max_size=50)),
    )


@pytest.mark.slow
@given(headers())
def test_any_header_reads_back(header: SequenceHeader) -> None:
    content = header.encode()
    assert decode(content) == header
    assert len(content) == wire.header_bytes(header.queue) + len(header.body)


def test_what_goes_between_neighbours_reads_back() -> None:
    assert [decode(content) for content in CONTENTS[1:]] == [
        OrderAckPacket(ORIGIN, 1, 3, 9),
        RejectPacket(ORIGIN, 1, 3, 9, "queue-not-found"),
        wire.HoldPacket(ORIGIN, 1, 5, stop=True),
        wire.EndPacket(ORIGIN, 1, 5, 2, answer=False),
    ]
    assert decode(wire.EndPacket(ORIGIN, 1, 5, 5, answer=True).encode()) == wire.EndPacket(ORIGIN, 1, 5, 5, answer=True)
    assert decode(wire.HoldPacket(ORIGIN, 1, 6, stop=False).encode()) == wire.HoldPacket(ORIGIN, 1, 6, stop=False)
    for reason in ("queue-full", "too-many-streams"):
        held = wire.HoldPacket(ORIGIN, 1, 5, stop=True, reason=reason)
        assert decode(wire.HoldPacket(ORIGIN, 1, 5, stop=True, reason=reason).encode()) == held


def test_layout_is_as_documented() -> None:
    """The bytes are those of the module's table."""
    stream = "6f" * 16 + "00000001" + "0000000000000003" + "0000000000000009"
    assert CONTENTS[0].hex() == "0101" + stream + "0000000000000007" + "06" + b"orders9".hex()
    assert CONTENTS[1].hex() == "0200" + stream
    assert CONTENTS[3].hex() == "0401" + "6f" * 16 + "00000001" + "0000000000000005"
    assert CONTENTS[4].hex() == "0500" + "6f" * 16 + "00000001" + "0000000000000005" + "0000000000000002"
    assert RejectPacket(*HEADER.named, "no").encode().hex() == "0300" + stream + "02" + b"no".hex()


def test_what_goes_by_relays_reads_back() -> None:
    read = decode(RELAYED)
    assert isinstance(read, wire.RelayedHeader)
    assert (read.trace, read.hops, read.left_ms, read.final, read.from_name) == (TRACE, 2, 5_000, "b", "a")
    assert read == replace(read, **{name: getattr(HEADER, name) for name in ("origin", "stream", "number", "queue")})
    assert wire.left_of(RELAYED) == 5_000
    assert [wire.carries_body(content) for content in BY_RELAYS] == [True, *[False] * (len(BY_RELAYS) - 1)]
    assert [decode(content) for content in BY_RELAYS[1:]] == [
        *(ACK_BACK, REJECT_BACK, PROVED_ACK, PROVED_REJECT),
        *(WAITS, PASSED, ENDS, FORGOTTEN),
    ]
    awaited = wire.encode_relayed_run(HEADER, "b", "a", [FIRST_RELAYED], trace=TRACE, awaited=True)[0]
    assert decode(awaited) == replace(read, awaited=True)
    assert wire.read_following_relayed(read, read.queue.encode(), awaited) is None
    stating = wire.encode_relayed_run(HEADER, "b", "a", [FIRST_RELAYED], trace=TRACE, ack_wait=63)[0]
    assert decode(stating) == replace(read, ack_wait=63)
    assert (stating[1], RELAYED[1]) == (0xFD, 0x01)
    assert wire.read_following_relayed(read, read.queue.encode(), stating) is None
    assert len(RELAYED) == wire.relayed_header_bytes("orders", "b") - wire.NAME_BYTES_MAX + len(b"a" + TRACE + b"9")


def test_relayed_packets_follow_each_other_when_they_came_the_same_way() -> None:
    """The time that each has left may differ."""
    second = replace(FIRST_RELAYED, number=10, previous=9, left_ms=3_000, body=b"10")
    first, follows = wire.encode_relayed_run(HEADER, "b", "a", [FIRST_RELAYED, second], trace=TRACE)
    header = decode(first)
    assert isinstance(header, wire.SequenceHeader)
    assert wire.read_following_relayed(header, header.queue.encode(), follows) == (10, 9, True, b"10")
    others = [
        *wire.encode_relayed_run(HEADER, "c", "a", [second], trace=TRACE),
        *wire.encode_relayed_run(HEADER, "b", "x", [second], trace=TRACE),
        *wire.encode_relayed_run(replace(HEADER, queue="q"), "b", "a", [second], trace=TRACE),
        *wire.encode_relayed_run(replace(HEADER, stream=2), "b", "a", [second], trace=TRACE),
        *wire.encode_relayed_run(HEADER, "b", "a", [second], trace=TRACE + b"relay--3"),
        *wire.encode_relayed_run(HEADER, "b", "a", [second], trace=b"relay--2relay--1"),
        *wire.encode_relayed_run(HEADER, "b", "a", [replace(second, previous=10)], trace=TRACE),
        CONTENTS[0],
        b"",
    ]
    assert {wire.read_following_relayed(header, header.queue.encode(), content) for content in others} == {None}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (wire.encode_relayed_run(HEADER, "b", "a", [FIRST_RELAYED], trace=b"relay--n" * 30)[0], "too many relays"),
        (wire.encode_relayed_run(HEADER, "b" * 125, "a", [FIRST_RELAYED])[0], "a destination too long"),
        (wire.encode_relayed_run(HEADER, "b", "a" * 125, [FIRST_RELAYED])[0], "an origin too long"),
        (wire.encode_relayed_run(HEADER, "b", "a", [replace(FIRST_RELAYED, left_ms=2**63)])[0], "a time too long"),
        (wire.encode_relayed_run(HEADER, "b", "a", [replace(FIRST_RELAYED, previous=9)])[0], "it follows itself"),
        (RELAYED[:-3], "names cut"),
        (BY_RELAYS[1] + b"x", "order ack with a tail"),
        (BY_RELAYS[2][:-1], "rejection cut"),
        (BY_RELAYS[3][:1] + b"\x02" + BY_RELAYS[3][2:], "a word with an unknown flag"),
        (b"", "empty"),
        (b"\x00" * 60, "kind 0"),
        (b"\x04" * 60, "kind 4"),
        (wire.EndPacket(ORIGIN, 0, 5, 2, answer=False).encode(), "an end of stream 0"),
        (wire.EndPacket(ORIGIN, 1, 5, 6, answer=False).encode(), "an end that begins behind it"),
        (wire.EndPacket(ORIGIN, 1, 5, 0, answer=False).encode(), "an end from sequence 0 on"),
        (replace(HEADER, sequence=0).encode(), "sequence 0"),
        (replace(HEADER, stream=0).encode(), "stream 0"),
        (replace(HEADER, number=7).encode(), "previous is the packet itself"),
        (replace(HEADER, number=6).encode(), "previous is above the number"),
        (replace(HEADER, number=0, previous=0).encode(), "number 0"),
        (replace(HEADER, body=b"").encode()[:-1], "queue is cut"),
        (replace(HEADER, queue="x", body=b"").encode()[:-1] + b"\xff", "queue is no text"),
        (CONTENTS[1] + b"x", "order ack with a tail"),
        (CONTENTS[2] + b"x", "rejection with a tail"),
        (CONTENTS[2][:-1], "rejection cut"),
        *((proved[:60], "a proof that is cut") for proved in BY_RELAYS[3:5]),
        *((bytes([it[0], flags]) + it[2:], f"a proof with flags {flags}") for it in BY_RELAYS[3:5] for flags in (0, 3)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_contents_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match="bad-packet"):
        decode(content)


@pytest.mark.parametrize(
    "content",
    [*CONTENTS, *BY_RELAYS],
    ids=[
        *("data", "order-ack", "reject", "hold", "end", "relayed", "ack-back", "reject-back"),
        *("proved-ack", "proved-reject", "onward", "onward-ack", "end-by-relays", "forgotten"),
    ],
)
def test_damage_is_read_or_refused(content: bytes) -> None:
    flips = [
        bytes([*content[:at], content[at] ^ 1 << bit, *content[at + 1 :]])
        for at in range(len(content))
        for bit in range(8)
    ]
    refused = 0
    for damaged in flips + [content[:at] for at in range(len(content))]:
        try:
            decode(damaged)
        except ProtocolError:
            refused += 1
    assert refused >= 40


def test_proofs_read_back_and_are_about_all_that_the_origin_believes() -> None:
    """But not about the hops, which each relay counts."""
    assert decode(PROVED_ACK.encode()) == PROVED_ACK
    assert decode(PROVED_REJECT.encode()) == PROVED_REJECT
    assert replace(PROVED_ACK, hops=7, mac=b"").said == PROVED_ACK.said
    assert replace(PROVED_REJECT, hops=7, mac=b"").said == PROVED_REJECT.said
    changes: dict[str, Any] = {"origin": bytes(16), "stream": 2, "sequence": 4, "number": 10, "by": bytes(16)}
    for name, value in changes.items():
        assert replace(PROVED_ACK, **{name: value}).said != PROVED_ACK.said
    for name, value in {**changes, "reason": "queue-not-found"}.items():
        assert replace(PROVED_REJECT, **{name: value}).said != PROVED_REJECT.said
