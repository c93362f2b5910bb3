"""A header is read exactly as it was written, or not at all."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.datagram import (
    HEADER_BYTES,
    VERSION,
    Header,
    Kind,
    connection_id_of,
    counters_of,
    one_of_each_connection,
    read_header,
)
from triack.base.errors import ProtocolError

ID_MAX = 2**64 - 1


@given(
    st.sampled_from(Kind),
    st.integers(0, ID_MAX),
    st.integers(0, ID_MAX),
    st.integers(0, 65_535),
    st.binary(max_size=50),
)
def test_a_header_reads_back(kind: Kind, connection_id: int, counter: int, epoch: int, rest: bytes) -> None:
    """Whatever follows it."""
    header = Header(kind, connection_id, counter, epoch)
    assert read_header(header.encode() + rest) == header
    assert len(header.encode()) == HEADER_BYTES == 20


def test_datagrams_are_alike_that_differ_in_the_counter_alone() -> None:
    """Up to the first of another kind, connection or epoch, or one that has no counter."""
    alike = [Header(Kind.DATA, 7, counter, 3).encode() + b"x" for counter in (5, 4, 9)]
    others = [Header(Kind.DATA, 7, 6, 4), Header(Kind.DATA, 8, 6, 3), Header(Kind.CHALLENGE, 7, 6, 3)]
    for other in [*(header.encode() for header in others), alike[0][: HEADER_BYTES - 1]]:
        assert counters_of([*alike, other, *alike]) == [5, 4, 9]
    assert counters_of(alike) == [5, 4, 9]


def test_a_burst_is_looked_through_by_connection() -> None:
    """Datagrams that are too short to name one count as one that names number 0."""
    burst = [Header(Kind.DATA, connection_id, counter).encode() for connection_id in (7, 9, 7) for counter in (1, 2)]
    found = [connection_id_of(datagram) for datagram in one_of_each_connection([*burst, b"x", b"yz"])]
    assert found == [7, 9, 0]


def test_the_layout_is_as_documented() -> None:
    """Kind, version, epoch, connection id, counter."""
    assert Header(Kind.DATA, 0x0123456789ABCDEF, 7, 1).encode().hex() == "030800010123456789abcdef0000000000000007"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (pack("!BBHQQ", 3, 1, 0, 1, 1), "bad-version"),
        (pack("!BBHQQ", 0, VERSION, 0, 1, 1), "unknown-kind"),
        (pack("!BBHQQ", 8, VERSION, 0, 1, 1), "unknown-kind"),
        (b"", "too-short"),
        (pack("!BBHQQ", 3, 5, 0, 1, 1)[:-1], "too-short"),
    ],
)
def test_what_no_correct_node_sends_is_refused_by_name(header: bytes, reason: str) -> None:
    """Before anybody looks for a conversation."""
    with pytest.raises(ProtocolError) as caught:
        read_header(header)
    assert caught.value.reason == reason
