"""The snapshot of a session."""

from tests.session.pair import Pair, make_session
from triack.session.protocol.path_traits import MEMORY
from triack.session.protocol.settings import SessionSettings


def test_a_session_that_nobody_has_answered_has_measured_nothing() -> None:
    shown = make_session(1, traits=MEMORY).stats()
    assert (shown.is_answered, shown.round_trip_ns, shown.probe_ns) == (False, None, None)
    assert (shown.congestion, shown.congestion_window_bytes) == ("none", None)


def test_the_figures_follow_what_is_sent_and_acknowledged() -> None:
    """One packet of three is lost, and leaves again."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=8, cleanup_interval_s=7))
    pair.lose = lambda end, sent: sent.packet is not None and (sent.packet.number, sent.packet.sends) == (2, 1)
    before = pair.a.stats()
    pair.send("a", 3)
    during = pair.a.stats()
    pair.run_until(lambda: pair.a.stats().unacked == 0)
    after = pair.a.stats()
    assert (before.unacked, during.unacked, after.unacked) == (0, 3, 0)
    assert before.acked == during.acked < after.acked
    assert (before.resends, after.resends) == (0, 1)
    assert (after.window, after.congestion, after.datagram_bytes, after.cleanup_interval_ns) == (
        8,
        "bbr",
        1_200,
        7 * 10**9,
    )
    assert after.is_answered
    assert after.round_trip_ns is not None
    assert after.policy == pair.b.stats().policy
