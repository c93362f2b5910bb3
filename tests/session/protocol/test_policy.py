"""The policy that two ends agree on although they are configured apart."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.pair import Pair, reasons
from triack.base.ack_trigger import AckTrigger, longest_delay_ns
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.units import MS, SECOND
from triack.session.protocol.policy import POLICY_BYTES, Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import SessionState

DEFAULT = Policy.of(SessionSettings())
THIRD = AckTrigger(window_share=1 / 3, delay_s=1.0)

triggers = st.builds(
    AckTrigger,
    window_share=st.sampled_from([None, 1 / 2, 1 / 3, 1.0]),
    count=st.none() | st.integers(1, 1_000),
    bytes_=st.none() | st.integers(1, 2**40),
    delay_s=st.integers(0, 10_000).map(lambda value: value / 1_000),
    idle_s=st.none() | st.integers(0, 10_000).map(lambda value: value / 1_000),
    delay_rtts=st.none() | st.integers(0, 100),
    piggyback_after=st.sampled_from([None, 0.0, 0.75, 1.0]),
    on_gap=st.booleans(),
    on_duplicate=st.booleans(),
    on_request=st.booleans(),
)
settings = st.builds(
    SessionSettings,
    max_unacked_packet=st.integers(1, 300),
    ack_trigger=st.none() | triggers,
    store_ack_trigger=st.none() | triggers,
    ack_timeout_s=st.none() | st.sampled_from([0.3, 6.0, 60.0]),
    store_ack_timeout_s=st.none() | st.sampled_from([0.1, 6.0]),
    ack_timeout_min_s=st.sampled_from([0.2, 2.0, 20.0]),
)


@given(settings, settings)
def test_both_ends_have_the_same_in_force(one: SessionSettings, other: SessionSettings) -> None:
    """By what was stated and echoed; no delay is longer than half of any timeout, and the window fits both."""
    initiator, acceptor = Policy.of(one), Policy.of(other)
    accepted = acceptor.agreed(Policy.decode(initiator.encode()))
    opened = initiator.agreed(Policy.decode(accepted.encode()))
    for name in ("window", "session_ack", "store_ack"):
        assert getattr(accepted, name) == getattr(opened, name)
    assert opened.window == min(one.max_unacked_packet, other.max_unacked_packet)
    for end in (accepted, opened):
        assert 2 * longest_delay_ns(end.session_ack) <= min(accepted.ack_timeout_min_ns, opened.ack_timeout_min_ns)
        shortest_ns = min(accepted.store_ack_timeout_min_ns, opened.store_ack_timeout_min_ns)
        assert 2 * longest_delay_ns(end.store_ack) <= shortest_ns


@given(settings)
def test_a_policy_reads_back(one: SessionSettings) -> None:
    """Every field survives the wire."""
    policy = Policy.of(one)
    assert len(policy.encode()) == POLICY_BYTES
    assert Policy.decode(policy.encode()) == policy


def test_damage_is_read_or_refused() -> None:
    """Flipped bytes make another policy or a ProtocolError, and nothing else."""
    refused = set()
    for at in range(POLICY_BYTES):
        data = bytearray(DEFAULT.encode())
        data[at] ^= 0xFF
        try:
            Policy.decode(bytes(data))
        except ProtocolError as error:
            refused.add(error.reason)
    assert refused == {"bad-hello"}


def test_the_initiator_says_how_and_each_end_keeps_its_timeouts() -> None:
    """A third and a second are in force against half and half a second; patience stays each end's own."""
    stated = Policy.of(SessionSettings(max_unacked_packet=50, ack_trigger=THIRD, ack_timeout_s=20.0))
    accepted = DEFAULT.agreed(stated)
    assert (accepted.window, accepted.session_ack, accepted.store_ack) == (50, THIRD, THIRD)
    assert (accepted.ack_timeout_min_ns, accepted.ack_timeout_max_ns) == (2 * SECOND, 120 * SECOND)
    assert stated.agreed(accepted).ack_timeout_min_ns == 20 * SECOND


def test_the_timeouts_of_either_end_bound_the_delays() -> None:
    """A tenth of a second for store acks, stated or not."""
    hasty = Policy.of(SessionSettings(store_ack_timeout_s=0.1))
    for policy in (hasty.agreed(DEFAULT), DEFAULT.agreed(hasty)):
        assert (policy.session_ack.delay_s, policy.store_ack.delay_s) == (0.5, 0.05)
    assert replace(hasty, window=1).bounded(hasty).window == 1


# ---- between two sessions


@pytest.mark.parametrize(
    ("sender", "receiver", "delay_ns"),
    [
        (SessionSettings(ack_timeout_s=6.0, ack_timeout_max_s=6.0), SessionSettings(idle_ack_delay_s=5.0), 500 * MS),
        (SessionSettings(ack_timeout_s=0.3), SessionSettings(), 150 * MS),
        (SessionSettings(idle_ack_delay_s=5.0), SessionSettings(ack_timeout_s=6.0), SECOND),
        (SessionSettings(), SessionSettings(ack_timeout_s=0.3), 150 * MS),
    ],
    ids=["5 s against 6 s", "300 ms against 500 ms", "the same, called", "the same, called back"],
)
@pytest.mark.parametrize("end", ["a", "b"])
def test_a_healthy_link_stays_up(sender: SessionSettings, receiver: SessionSettings, delay_ns: int, end: str) -> None:
    """However the two ends disagree, and whichever end sends: a packet every two seconds, each acknowledged in time."""
    pair = Pair.opened(sender, peer_settings=receiver)
    for _ in range(50):
        pair.send(end, 1)
        pair.run(2 * SECOND)
    assert pair.a.state is pair.b.state is SessionState.OPEN
    assert reasons(pair, "a") == reasons(pair, "b") == []
    assert pair.unacked[end] == set()
    assert pair.a.ack_sender.terms == pair.b.ack_sender.terms
    assert pair.a.ack_sender.terms.delay_ns == delay_ns


def test_half_of_the_window_that_both_can_bear() -> None:
    """A sender with 16 against a receiver with 64: an ack for every 8, none of them asked for."""
    pair = Pair.opened(
        SessionSettings(max_unacked_packet=16), peer_settings=SessionSettings(max_unacked_packet=64), udp=False
    )
    for _ in range(160):
        pair.run_until(lambda: pair.a.room > 0)
        pair.send("a", 1)
        pair.run(MS)
    pair.run(5 * SECOND)
    assert [ack[1:] for ack in pair.acks("b")] == [("count", 8)] * 20


def test_an_exhausted_congestion_window_does_not_pre_empt_the_half() -> None:
    """On UDP a sender asks when nothing else would bring an ack, and not when the half is in flight."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=64))
    pair.backlog["a"].extend([(Delivery.EXPRESS, b"x" * 1_000)] * 2_000)
    pair.drain()
    pair.run(20 * SECOND)
    acks = pair.acks("b")
    assert sum(pending for _, _, pending in acks) == 2_000
    # The congestion window begins with ten packets, less than the half: there the sender has to ask.
    assert acks[0][1:] == ("request", 11)
    grown = [ack for ack in acks if ack[2] >= 32]
    assert {trigger for _, trigger, _ in grown} == {"count"}
    assert [trigger for _, trigger, _ in acks[acks.index(grown[0]) : -1]] == ["count"] * (len(grown))


@pytest.mark.parametrize("udp", [True, False])
@pytest.mark.parametrize(
    ("window", "packets", "expected"),
    [
        (50, 16, [("count", 16)]),
        (50, 3, [("delay", 3)]),
        (50, 50, [("count", 16), ("count", 16), ("count", 16), ("delay", 2)]),
        (255, 85, [("count", 85)]),
    ],
)
def test_the_numbers_of_solace_on_udp_as_on_tcp(
    window: int, packets: int, expected: list[tuple[str, int]], udp: bool
) -> None:
    """The congestion window holds twice the third of small packets: no packet asks before the policy acknowledges."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=window, ack_trigger=THIRD), udp=udp)
    if udp and window == 255:
        # It begins with ten datagrams, and grows with what is acknowledged: that of 255 needs a round trip or two.
        pair.send("a", 400)
        pair.run(20 * SECOND)
    before = len(pair.acks("b"))
    for _ in range(packets):
        pair.send("a", 1)
        pair.run(MS)
    pair.run(5 * SECOND)
    assert [ack[1:] for ack in pair.acks("b")[before:]] == expected


def test_large_packets_are_asked_for_until_the_congestion_window_has_grown() -> None:
    """A kilobyte every 5 ms: its ten datagrams do not hold twice sixteen, and after a hundred packets they do."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=50, ack_trigger=THIRD, congestion="newreno"))
    for _ in range(400):
        pair.backlog["a"].append((Delivery.EXPRESS, b"x" * 1_000))
        pair.drain()
        pair.run(5 * MS)
    acks = [ack[1:] for ack in pair.acks("b")]
    asked = [pending for trigger, pending in acks if trigger == "request"]
    assert sum(asked) <= 100
    assert acks[len(asked) :] == [("count", 16)] * (len(acks) - len(asked))
    assert len(acks) - len(asked) > 18


@pytest.mark.parametrize("udp", [True, False])
def test_a_trigger_governs_store_acks_as_well(udp: bool) -> None:
    """16 recoverable packets under a third of 50: one session ack, and one store ack."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=50, ack_trigger=THIRD), udp=udp, store_ns=3 * MS)
    for _ in range(16):
        pair.send("a", 1, Delivery.RECOVERABLE)
        pair.run(5 * MS)
    pair.run(10 * SECOND)
    stored = [(sent.store_ack.trigger, sent.store_ack.pending) for _, sent in pair.sent["b"] if sent.store_ack]
    assert [ack[1:] for ack in pair.acks("b")] == [("count", 16)]
    assert stored == [("count", 16)]


def test_three_quarters_of_the_timer_before_an_ack_rides() -> None:
    """A packet that goes back after 374 ms takes no ack along, one after 375 ms does ([MS-MQQB] 3.1.7.11)."""
    for wait_ns, rides in ((374 * MS, False), (375 * MS, True)):
        pair = Pair.opened(SessionSettings(ack_trigger=AckTrigger(piggyback_after=0.75)))
        pair.send("a", 1)
        pair.run(10 * MS + wait_ns)
        pair.send("b", 1)
        assert [trigger for _, trigger, _ in pair.acks("b")] == (["piggyback"] if rides else [])


def test_a_delay_of_eight_round_trips() -> None:
    """187 ms make 1,496 ms, as in the capture of [MS-MQQB] 4.1.5; both ends have measured the same."""
    trigger = AckTrigger(delay_rtts=8, delay_s=0.5, delay_max_s=120)
    pair = Pair.opened(
        SessionSettings(store_ack_trigger=trigger, store_ack_timeout_s=20.0),
        peer_settings=SessionSettings(store_ack_timeout_s=20.0),
        rtt_ns=187 * MS,
    )
    assert pair.a.ack_sender.store_terms.delay_ns == pair.b.ack_sender.store_terms.delay_ns == 1_496 * MS
    pair.send("a", 1, Delivery.RECOVERABLE)
    arrives_ns = pair.now_ns + 187 * MS // 2
    pair.run(3 * SECOND)
    assert [at_ns for at_ns, sent in pair.sent["b"] if sent.store_ack] == [arrives_ns + 1_496 * MS]
