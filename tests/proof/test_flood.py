"""A sample of the flood, and floods that a worse node would not bear."""

import pytest

from proof import flood as module
from proof.flood import Victim, flood
from triack.transport.handshake_load import Admission
from triack.transport.secure import SecureChannels


@pytest.mark.slow
def test_a_node_bears_a_flood() -> None:
    """``make flood`` sends a million."""
    found = flood(10_000)
    assert (found.violations, found.peers_tried, found.peers_failed) == (0, 2, 0)
    assert found.answered > 1_000
    assert found.amplification <= 52 / 1_200 + 0.001
    assert found.memory_bytes < 100_000


@pytest.mark.slow
def test_a_node_that_remembers_strangers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte for each is too much."""
    kept: list[bytes] = []
    real = Victim.answer

    def answer(self: Victim, datagram: bytes, sender: str, now_ns: int) -> bytes:
        kept.append(datagram)
        return real(self, datagram, sender, now_ns)

    monkeypatch.setattr(Victim, "answer", answer)
    assert flood(5_000).memory_bytes > module.MEMORY_BYTES_MAX


@pytest.mark.slow
@pytest.mark.gate
def test_answers_that_are_too_long_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one byte."""
    monkeypatch.setattr(SecureChannels, "_retry", lambda *_: bytes(1_201))
    monkeypatch.setattr(module, "PEER_EVERY", 1 << 30)
    assert flood(2_000).violations == 1


@pytest.mark.slow
@pytest.mark.gate
def test_peers_that_are_kept_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that gives up when it is loaded."""
    monkeypatch.setattr(Admission, "admits", lambda *_: False)
    monkeypatch.setattr(module, "PEER_EVERY", 1_000)
    found = flood(2_000)
    assert found.violations == found.peers_failed == found.peers_tried == 2
