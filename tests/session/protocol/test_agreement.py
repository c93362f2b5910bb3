"""What both ends agree on: policy, settings, states, timers, events."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.base.refusals import refuse_wrong_values
from tests.session.pair import Pair, cut, make_session, reasons, unprobed
from triack.base.ack_trigger import AckTrigger, longest_delay_ns
from triack.base.delivery import Delivery
from triack.base.errors import UsageError
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import (
    AcksRequested,
    Event,
    PacketArrived,
    PacketDropped,
    PieceArrived,
    RunArrived,
    SessionClosed,
    SessionIdle,
    SessionOpened,
    SizeChanged,
    WindowChanged,
)
from triack.session.protocol.frames import Ask, CloseFrame, PacketFrame, PieceFrame, ProbeFrame
from triack.session.protocol.path_traits import MEMORY, TCP, UDP, PathTraits
from triack.session.protocol.policy import POLICY_BYTES, Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.protocol.timers import Timer, Timers

# The policy that two ends agree on although they are configured apart.

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
    ack_trigger=triggers,
    store_ack_trigger=st.none() | triggers,
    ack_timeout_s=st.none() | st.sampled_from([0.3, 6.0, 60.0]),
    store_ack_timeout_s=st.none() | st.sampled_from([0.1, 6.0]),
    ack_timeout_min_s=st.sampled_from([0.2, 2.0, 20.0]),
)


@pytest.mark.gate
@given(settings, settings)
def test_both_ends_have_the_same_in_force(one: SessionSettings, other: SessionSettings) -> None:
    """By what was stated and echoed; no delay is longer than half of any timeout, and the window fits both.

    Every field of a policy survives the wire.
    """
    initiator, acceptor = Policy.of(one), Policy.of(other)
    assert (len(initiator.encode()), Policy.decode(initiator.encode())) == (POLICY_BYTES, initiator)
    accepted = acceptor.agreed(initiator)
    opened = initiator.agreed(Policy.decode(accepted.encode()))
    for name in ("window", "session_ack", "store_ack"):
        assert getattr(accepted, name) == getattr(opened, name)
    assert opened.window == min(one.max_unacked_packet, other.max_unacked_packet)
    for end in (accepted, opened):
        assert 2 * longest_delay_ns(end.session_ack) <= min(accepted.ack_timeout_min_ns, opened.ack_timeout_min_ns)
        shortest_ns = min(accepted.store_ack_timeout_min_ns, opened.store_ack_timeout_min_ns)
        assert 2 * longest_delay_ns(end.store_ack) <= shortest_ns


@pytest.mark.parametrize(
    ("sender", "receiver", "delay_ns"),
    [
        ({"ack_timeout_s": 6.0, "ack_timeout_max_s": 6.0}, {"ack_trigger": AckTrigger(delay_s=5.0)}, 500 * MS),
        ({"ack_timeout_s": 0.3}, {}, 150 * MS),
        ({"ack_trigger": AckTrigger(delay_s=5.0)}, {"ack_timeout_s": 6.0}, SECOND),
        ({}, {"ack_timeout_s": 0.3}, 150 * MS),
    ],
    ids=["5 s against 6 s", "300 ms against 500 ms", "the same, called", "the same, called back"],
)
@pytest.mark.parametrize("end", ["a", "b"])
def test_a_healthy_link_stays_up(sender: dict[str, Any], receiver: dict[str, Any], delay_ns: int, end: str) -> None:
    """However the two ends disagree, and whichever end sends: a packet every two seconds, each acknowledged in time."""
    pair = Pair.opened(SessionSettings(**sender), peer_settings=SessionSettings(**receiver))
    for _ in range(50):
        pair.send(end, 1)
        pair.run(2 * SECOND)
    assert pair.a.state is pair.b.state is SessionState.OPEN
    assert reasons(pair, "a") == reasons(pair, "b") == []
    assert pair.unacked[end] == set()
    assert pair.a.ack_sender.terms == pair.b.ack_sender.terms
    assert pair.a.ack_sender.terms.delay_ns == delay_ns


@pytest.mark.gate
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


@pytest.mark.parametrize("kind", [AckTrigger, SessionSettings])
def test_a_value_that_cannot_be_is_refused(kind: type) -> None:
    refuse_wrong_values(kind)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"max_unacked_packet": 0}, 'must be 1 to 65535 or "auto", not 0'),
        ({"max_unacked_packet": 65_536}, 'must be 1 to 65535 or "auto", not 65536'),
        ({"max_unacked_packet": True}, 'must be 1 to 65535 or "auto", not True'),
        ({"max_unacked_packet": "path"}, "must be 1 to 65535 or \"auto\", not 'path'"),
        ({"auto_window_max": 65_536}, "auto_window_max must be 1 to 65535, not 65536"),
        ({"max_datagram_bytes": 575}, "must be 576 to 65535, not 575"),
        ({"max_datagram_bytes": None}, "at least 1, not None"),
        ({"ack_timeout_min_s": 2, "ack_timeout_max_s": 1}, "is 2, more than ack_timeout_max_s, 1"),
        ({"ack_timeout_s": 0}, "ack_timeout_s must be a number of seconds above 0, not 0"),
    ],
)
def test_limits(values: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        SessionSettings(**values)  # type: ignore[arg-type]


def test_every_reason_has_a_sentence() -> None:
    sentences = [reason.sentence for reason in CloseReason]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)


def test_their_codes_on_the_wire_stay() -> None:
    """Other versions know them by number: what is new comes last."""
    names = ["ack-timeout", "store-ack-timeout", "path-lost", "superseded", "connect-timeout", "peer-closed", "drained"]
    names += ["idle", "local-stop", "store-failed", "protocol-error", "rollback", "revoked", "too-many-forgeries"]
    codes = {reason.value: BINARY.encode(CloseFrame(reason)) for reason in CloseReason}
    assert codes == {name: bytes([5, code]) for code, name in enumerate(names, 1)}
    assert all(BINARY.decode(codes[reason.value]) == [CloseFrame(reason)] for reason in CloseReason)


def test_a_timer_runs_out_once_at_its_moment() -> None:
    """Not one nanosecond early, and not twice; of two the lower goes first, whatever their deadlines.

    An ack that is due leaves before its session closes.
    """
    timers = Timers()
    timers[Timer.PROBE] = 30
    assert [timers.poll_expired(at_ns) for at_ns in (29, 30, 31)] == [None, Timer.PROBE, None]
    assert Timer.PROBE not in timers
    timers[Timer.ACK_LIMIT] = 10
    timers[Timer.ACK_DELAY] = 20
    assert [timers.poll_expired(20), timers.poll_expired(20)] == [Timer.ACK_DELAY, Timer.ACK_LIMIT]


# The events that a session gives its owner, and the records of its datagrams.


def piece(number: int, offset: int) -> bytes:
    return BINARY.encode(PieceFrame(number, Delivery.EXPRESS, Ask.NO, 10, offset, b"x"))


def test_every_kind_of_event_happens() -> None:
    """In a life of two ends, and of nothing else: the end is reported with the number of unacknowledged packets."""
    pair = Pair.opened(udp=False)
    pair.send("a", 2, Delivery.RECOVERABLE, ack_requested=True)
    pair.run(SECOND)
    pair.inject("b", BINARY.encode(PacketFrame(2, Delivery.RECOVERABLE, False, b"2")))
    pair.inject("b", BINARY.encode(PacketFrame(10_000, Delivery.EXPRESS, False, b"far")))
    pair.drain()
    pair.inject("b", BINARY.encode(ProbeFrame(1, 100)))
    pair.inject("b", piece(5, 0))
    pair.a.ping()
    pair.drain()
    pair.run(3 * SECOND)
    cut(pair)
    pair.send("a", 3)
    pair.a.close(CloseReason.LOCAL_STOP)
    pair.drain()
    run = [BINARY.encode(PacketFrame(number, Delivery.EXPRESS, False, b"next")) for number in (3, 4)]
    pair.b.handle_datagrams(run, [100, 101], pair.now_ns)
    pair.drain()
    told = {type(event) for event in pair.events["a"] + pair.events["b"]}
    assert told == set(get_args(Event)) - {SizeChanged, WindowChanged, SessionIdle}, "nothing is idle for long enough"
    for end in ("a", "b"):
        assert (pair.events[end][0], pair.events[end].count(SessionOpened())) == (SessionOpened(), 1)
    assert pair.events["b"].count(AcksRequested()) == 1
    assert pair.events["a"][-1] == SessionClosed(CloseReason.LOCAL_STOP, unacked=3)


def test_packets_that_came_together_are_reported_together() -> None:
    pair = Pair.opened()
    packets = [BINARY.encode(PacketFrame(number, Delivery.EXPRESS, False, b"%d" % number)) for number in (1, 2, 4)]
    pair.b.handle_datagrams([*packets[:2], b"?", packets[2]], [90, 91, 92, 93], pair.now_ns)
    assert pair.b.events == [
        RunArrived(1, Delivery.EXPRESS, [b"1", b"2"]),
        PacketDropped(DropReason.BAD_FRAME),
        PacketArrived(4, Delivery.EXPRESS, b"4", duplicate=False),
    ]


def test_pieces_in_a_row_are_reported_once() -> None:
    pair = Pair.opened()
    packet = BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"1"))
    pair.b.handle_datagrams([piece(2, 0), piece(2, 1), packet, piece(1, 0), piece(2, 2)], [*range(90, 95)], pair.now_ns)
    assert [type(event) for event in pair.b.events] == [PieceArrived, RunArrived, PieceArrived]


SATELLITE = PathTraits(paced=True, reliable=False, base_bytes=600)
"""A path that no endpoint of Triack has."""


@pytest.mark.parametrize(
    ("traits", "name", "size"),
    [(UDP, "bbr", 1_200), (TCP, "stream", 9_000), (MEMORY, None, 9_000), (SATELLITE, "bbr", 600)],
)
def test_a_session_controls_congestion_where_nothing_below_it_does(
    traits: PathTraits, name: str | None, size: int
) -> None:
    """And begins with the largest datagram that needs no probe."""
    session = make_session(1, unprobed(SessionSettings(max_datagram_bytes=9_000)), traits=traits)
    congestion = session.window.congestion
    assert (congestion and congestion.name, session.path_size.size_bytes) == (name, size)
