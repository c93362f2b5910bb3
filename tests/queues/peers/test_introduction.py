"""Introductions: every correct one reads back, and nothing else raises anything but ProtocolError."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.errors import ProtocolError
from triack.queues.peers.introduction import (
    INTRODUCTION_BYTES_MAX,
    NO_NODE,
    NO_POINT,
    SERIAL_MAX,
    TEXT_BYTES_MAX,
    HistoryPoint,
    Introduction,
    RolledBack,
    StreamPosition,
)
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import Hello
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.transport.noise import KEY_BYTES
from triack.transport.secure import CONNECT_BYTES

CODES_AT = 88
"""Behind two ids, an incarnation and three points."""

FULL = Introduction(
    b"n" * 16,
    "plant",
    "udp://127.0.0.1:1",
    "udp://127.0.0.1:2",
    point=HistoryPoint(11, 12),
    receiver=b"r" * 16,
    remembered=HistoryPoint(13, 14),
    checked=HistoryPoint(SERIAL_MAX, 16),
    rolled_back=RolledBack.RECEIVER,
    positions=(StreamPosition(0, 1, 2), StreamPosition(2**32 - 1, SERIAL_MAX, SERIAL_MAX)),
    incarnation=2**64 - 1,
)


def test_an_introduction_reads_back() -> None:
    """Every field survives; texts are cut at 255 bytes."""
    assert Introduction.decode(FULL.encode()) == FULL
    plain = Introduction(b"n" * 16, "", "", "")
    assert Introduction.decode(plain.encode()) == plain
    weak = replace(FULL, survives="nothing")
    assert Introduction.decode(weak.encode()) == weak
    assert (plain.point, plain.receiver, plain.rolled_back) == (NO_POINT, NO_NODE, RolledBack.NONE)
    long = Introduction.decode(replace(FULL, name="n" * 300, address="\u00e9" * 300).encode())
    assert long.name == "n" * 255
    assert long.address.startswith("\u00e9" * 127)
    assert long.dialled == FULL.dialled


@pytest.mark.parametrize(
    "introduction",
    [
        replace(FULL, point=HistoryPoint(2**63, 1)),
        replace(FULL, point=HistoryPoint(1, 2**63)),
        replace(FULL, remembered=HistoryPoint(2**63, 1)),
        replace(FULL, checked=HistoryPoint(1, 2**64 - 1)),
        replace(FULL, positions=(StreamPosition(1, 2**63, 1),)),
        replace(FULL, positions=(StreamPosition(1, 1, 2**63),)),
    ],
)
def test_an_introduction_out_of_range_is_refused(introduction: Introduction) -> None:
    """A point that no store can have."""
    with pytest.raises(ProtocolError) as caught:
        Introduction.decode(introduction.encode())
    assert caught.value.reason == "bad-hello"


@pytest.mark.parametrize("codes", [0x04, 0x30])
def test_a_code_that_nobody_knows_is_refused(codes: int) -> None:
    """The codes say whose store was rolled back, and what the store survives."""
    data = bytearray(FULL.encode())
    assert data[CODES_AT] == RolledBack.RECEIVER
    data[CODES_AT] = codes
    with pytest.raises(ProtocolError) as caught:
        Introduction.decode(bytes(data))
    assert caught.value.reason == "bad-hello"


def test_an_introduction_with_more_or_less_than_it_says_is_refused() -> None:
    """The lengths must add up exactly."""
    data = FULL.encode()
    for wrong in (data + b"x", *(data[:length] for length in range(len(data)))):
        with pytest.raises(ProtocolError) as caught:
            Introduction.decode(wrong)
        assert caught.value.reason == "bad-hello"


@pytest.mark.parametrize("text", ["", "n" * TEXT_BYTES_MAX])
def test_an_introduction_full_of_positions_fits_its_accept(text: str) -> None:
    """An accept is never longer than the connect that asks for it, and one position more would not fit."""
    own = Introduction(b"n" * 16, text, text, text)
    full = replace(own, positions=(StreamPosition(1, 1, 1),) * own.room)
    assert 5 <= len(full.positions) <= 255
    assert full.room == own.room
    assert Introduction.decode(full.encode()) == full
    assert len(full.encode()) <= INTRODUCTION_BYTES_MAX < len(full.encode()) + 20
    hello = BINARY.encode_hello(Hello(1, 2, 3, 1_200, Policy.of(SessionSettings()), full.encode()))
    header, tag, mac = 20, 16, 16
    assert header + KEY_BYTES + len(hello) + tag + mac <= CONNECT_BYTES


def test_damage_is_read_or_refused() -> None:
    """Whatever a flipped bit makes of it, the answer is a value or a ProtocolError, nothing else."""
    data, reasons = FULL.encode(), list[str]()
    for at in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        try:
            assert Introduction.decode(bytes(flipped)) != FULL
        except ProtocolError as error:
            reasons.append(error.reason)
    assert set(reasons) == {"bad-hello"}
    assert len(reasons) > 10


@given(st.binary(max_size=300))
def test_noise_is_read_or_refused(data: bytes) -> None:
    """Random bytes raise nothing but ProtocolError."""
    with suppress(ProtocolError):
        Introduction.decode(data)


def test_a_rollback_is_turned_for_the_other_side() -> None:
    """Mine to the one is yours to the other; none, or an unknown one, is so for both."""
    assert [rolled_back.turned for rolled_back in RolledBack] == [
        RolledBack.NONE,
        RolledBack.RECEIVER,
        RolledBack.SENDER,
        RolledBack.UNKNOWN,
    ]
