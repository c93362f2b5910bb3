"""The machines that get the size of datagrams in force."""

import pytest

from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.session.congestion.pacing import NetworkShare
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.path.path_mtu import BLACK_HOLE_LOSSES, PROBE_NS
from triack.session.path.path_size import FLIGHT_PACKETS, PathSize
from triack.session.protocol.events import Event, ProbeAnswered, ProbeArrived, SizeChanged
from triack.session.protocol.frames import ProbedFrame, ProbeFrame
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.path_traits import MEMORY, TCP, UDP, PathTraits
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.timers import Timer, Timers


class Told:
    """The machine for the size, and all its notifications."""

    def __init__(self, traits: PathTraits = UDP, limit: int = 9_000, window: int = 64) -> None:
        self.events: list[Event] = []
        self.timers = Timers()
        self.share = NetworkShare(SessionSettings(), 1_200, 0, 0)
        self.window = SendWindow(window, RoundTrip(), self.share.window)
        self.path_size = PathSize(
            traits,
            limit,
            overhead_bytes=36,
            packet_header_bytes=20,
            share=self.share,
            window=self.window,
            rtt=RoundTrip(),
            timers=self.timers,
            tell=self.events.append,
        )

    def answer(self) -> int:
        """Let the probe that is due leave, and come back. Returns how long it was."""
        probe = self.path_size.poll_probe(0)
        assert probe is not None
        self.path_size.handle_probed(ProbedFrame(probe.number), 0)
        return probe.size_bytes + 36


def packet(size: int) -> SessionPacket:
    return SessionPacket(1, Delivery.EXPRESS, b"", None, False, size)


@pytest.mark.parametrize(("traits", "size"), [(UDP, 1_200), (TCP, 9_000), (MEMORY, 9_000)])
def test_only_udp_begins_with_the_base(traits: PathTraits, size: int) -> None:
    """The bytes in a session are bounded everywhere: by 64 of its datagrams, or by a window of those of the base."""
    told = Told(traits)
    assert told.path_size.size_bytes == size
    assert told.window.most_bytes == FLIGHT_PACKETS * size
    assert Told(traits, window=1_024).window.most_bytes == max(FLIGHT_PACKETS * size, 1_024 * 1_200)
    told.path_size.handle_departed([packet(9_000)], 0)
    assert (told.path_size.poll_probe(0) is not None) == (traits is UDP)


def test_of_large_packets_fewer_wait_than_the_window_takes() -> None:
    """Queued packets leave even when the peer has no room left; with small packets the bytes stay within its room."""
    told = Told(window=1_024, limit=32_000)
    assert told.window.room == 1_024
    told.path_size.handle_departed([packet(32_000)], 0)
    while told.path_size.size_bytes < 32_000:
        told.answer()
    assert told.window.room == FLIGHT_PACKETS


def test_everyone_hears_of_a_proved_size() -> None:
    """The owner, the controller and its pacer, and the window; the timer ends with the search."""
    told = Told()
    told.path_size.handle_departed([packet(9_000)], 0)
    assert [told.answer() for _ in range(3)] == [1_200, 1_452, 9_000]
    answered = ProbeAnswered()
    assert told.events == [answered, answered, SizeChanged(1_452), answered, SizeChanged(9_000)]
    assert told.share.window.window_bytes == 4 * 9_000
    assert told.window.most_bytes == FLIGHT_PACKETS * 9_000
    assert not told.timers.runs(Timer.PATH_MTU)
    assert told.path_size.room_bytes == 9_000 - 36
    assert told.path_size.piece_room_bytes == 1_200 - 36
    assert told.path_size.fits(packet(9_000))
    assert not told.path_size.fits(packet(9_001))


def test_a_probe_has_a_second_to_be_answered() -> None:
    told = Told()
    told.path_size.handle_departed([packet(9_000)], 0)
    assert told.path_size.poll_probe(5 * SECOND) is not None
    assert told.timers.next_deadline() == 5 * SECOND + PROBE_NS
    assert told.path_size.poll_probe(5 * SECOND) is None


def test_a_probe_of_the_peer_is_to_be_answered() -> None:
    told = Told()
    told.path_size.handle_probe(ProbeFrame(7, 8_964))
    assert told.events == [ProbeArrived(9_000)]
    assert told.path_size.answer == ProbedFrame(7)


def test_losses_without_acks_take_the_size_back() -> None:
    told = Told()
    told.path_size.handle_departed([packet(9_000)], 0)
    for _ in range(3):
        told.answer()
    large = [packet(9_000)]
    for _ in range(BLACK_HOLE_LOSSES - 1):
        told.path_size.handle_acked([], large)
    told.path_size.handle_acked(large, [])
    for _ in range(BLACK_HOLE_LOSSES):
        assert told.path_size.size_bytes == 9_000
        told.path_size.handle_acked([packet(100)], large)
    assert told.path_size.size_bytes == 1_200
    assert told.events[-1] == SizeChanged(1_200)


def test_what_is_sent_is_counted_until_any_probe_is_worth_its_bytes() -> None:
    """Three small packets are not; those that follow are more than enough."""
    told = Told()
    told.path_size.handle_departed([packet(300)] * 3, 0)
    assert told.path_size.poll_probe(0) is None
    told.path_size.handle_departed([packet(1_000)] * 10, 0)
    assert [told.answer() for _ in range(3)] == [1_200, 1_452, 9_000]
