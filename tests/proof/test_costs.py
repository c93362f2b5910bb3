"""Measurements of the proof: floods, hundreds of peers, the replay window, pings."""

import asyncio

import pytest

import triack
from proof import flood as flooding
from proof.flood import Victim, flood
from proof.hundred import GROWTH_MAX_BYTES, Beside, Hundred, hundred
from proof.pinger import ping_for_ever
from proof.window import compare as compare_windows
from triack.transport import replay_window
from triack.transport.handshake_load import Admission
from triack.transport.replay_window import WINDOW, ReplayWindow
from triack.transport.secure import SecureChannels

# A sample of the flood, and floods that a worse node would not bear.


@pytest.mark.slow
def test_a_node_bears_a_flood() -> None:
    found = flood(10_000)
    assert (found.violations, found.peers_tried, found.peers_failed) == (0, 2, 0)
    assert found.answered > 1_000
    assert found.amplification <= 52 / 1_200 + 0.001
    assert found.memory_bytes < 100_000


@pytest.mark.slow
def test_a_node_that_remembers_strangers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    real = Victim.answer

    def answer(self: Victim, datagram: bytes, sender: str, now_ns: int) -> bytes:
        kept.append(datagram)
        return real(self, datagram, sender, now_ns)

    monkeypatch.setattr(Victim, "answer", answer)
    assert flood(5_000).memory_bytes > flooding.MEMORY_BYTES_MAX


@pytest.mark.gate
def test_answers_that_are_too_long_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SecureChannels, "_retry", lambda *_: bytes(1_201))
    monkeypatch.setattr(flooding, "PEER_EVERY", 1 << 30)
    assert flood(2_000).violations == 1


@pytest.mark.gate
def test_peers_that_are_kept_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admission, "admits", lambda *_: False)
    monkeypatch.setattr(flooding, "PEER_EVERY", 1_000)
    found = flood(2_000)
    assert found.violations == found.peers_failed == found.peers_tried == 2


# Four peers instead of a hundred, and figures that no good node has.


@pytest.mark.slow
def test_a_bad_peer_leaves_the_others_going_and_the_memory_small() -> None:
    """``make hundred`` has ninety nine of them, and time to measure."""
    found = hundred(0.1, peers=3, rounds=1)
    assert all(rate > 0 for bad in (found.unread, found.stopped, found.pinging) for rate in (*bad.alone, *bad.beside))
    assert found.unread.growth_bytes <= GROWTH_MAX_BYTES


def test_what_breaks_a_promise_is_found() -> None:
    good, slow = Beside([100.0, 120.0], [110.0, 90.0], 0), Beside([100.0, 100.0], [100.0, 79.0], 0)
    large = Beside([100.0], [100.0], GROWTH_MAX_BYTES + 1)
    runs = [(good, good, good), (slow, good, good), (good, slow, good), (large, good, good), (good, good, slow)]
    found = [Hundred(unread, stopped, pinging, 1.0) for unread, stopped, pinging in runs]
    assert [one.violations for one in found] == [0, 1, 1, 1, 1]
    assert found[1].to_json() == {
        "messages_a_second": 107, "unread_kept": 0.895, "unread_growth_bytes": 0, "stopped_kept": 0.909,
        "pinging_kept": 0.909, "violations": 1, "seconds": 1.0,
    }  # fmt: skip


# The proof of the replay window finds nothing, and would.


@pytest.mark.slow
def test_window_and_oracle_agree_on_many_counters() -> None:
    found = compare_windows(200_000)
    assert found.violations == 0
    assert 80_000 < found.taken < 180_000


@pytest.mark.slow
@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW + 1])
def test_a_window_of_another_length_is_found(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_window, "WINDOW", length)
    monkeypatch.setattr(replay_window, "_ALL", (1 << length) - 1)
    assert compare_windows(100_000).violations > 0


@pytest.mark.gate
def test_counters_that_are_not_missed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(window: ReplayWindow, counter: int) -> None:
        window.newest = max(window.newest, counter)

    monkeypatch.setattr(ReplayWindow, "take", careless)
    assert compare_windows(100_000).violations > 0


# The bad peer that sends nothing but pings is one: a node opens a session with it, and closes that.


@pytest.mark.asyncio
async def test_each_session_is_closed_for_its_first_datagram_of_pings() -> None:
    async with triack.open("hub", data=None, listen="udp://127.0.0.1:0", insecure=True) as node:
        assert node.address is not None
        sessions = ping_for_ever(node.address)
        for number in (1, 2, 3):
            assert await asyncio.to_thread(next, sessions) == number
        assert node.stats().drops["repeated-frame"] >= 2
        sessions.close()
