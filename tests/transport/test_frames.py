"""Frames come out whole, however the stream is cut."""

import pytest

from triack.base.errors import ProtocolError
from triack.transport.frames import FRAME_BYTES_MAX, LengthFramer, frame

DATAGRAMS = [b"one", b"", b"three" * 100, bytes(FRAME_BYTES_MAX)]


@pytest.mark.parametrize("piece_bytes", [1, 3, 4, 5, 1000, 10**6])
def test_any_pieces(piece_bytes: int) -> None:
    """The pieces in which a stream arrives do not matter."""
    stream, frames, found = frame(DATAGRAMS), LengthFramer(), []
    for start in range(0, len(stream), piece_bytes):
        found += frames.feed(stream[start : start + piece_bytes])
    assert found == DATAGRAMS
    assert not frames.is_partial


def test_a_frame_that_has_begun_is_partial() -> None:
    """Even one byte of a length begins a frame."""
    frames = LengthFramer()
    assert frames.feed(b"\0") == []
    assert frames.is_partial


def test_too_large() -> None:
    """The length alone is enough to refuse a frame."""
    with pytest.raises(ProtocolError, match="frame-too-large"):
        LengthFramer().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
