"""Which packets leave now: in a run the same as one by one."""

import pytest

from tests.session.pair import Pair, make_session
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.congestion.pacing import NetworkShare
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.departing import Departing
from triack.session.path.path_size import PathSize
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketsAcked, PacketsStored
from triack.session.protocol.frames import Ask, PacketFrame
from triack.session.protocol.path_traits import UDP
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.timers import Timers
from triack.tools.sim.faults import Faults

PACKETS = 150


def transfer(settings: SessionSettings, *, loss: float, seed: int, udp: bool, by_run: bool) -> Pair:
    """Packets of two classes, some of which ask, from ``a`` to ``b`` until all are acknowledged and stored."""
    weather = Faults(loss=loss, delay_ns=5 * MS, jitter_ns=MS)
    pair = Pair(settings, weather=weather, seed=seed, udp=udp, store_ns=3 * MS, by_run=by_run)
    pair.backlog["b"].extend((Delivery.EXPRESS, b"back") for _ in range(10))
    durable = 0
    for number in range(PACKETS):
        delivery = Delivery.TRANSACTIONAL if number // 50 % 2 else Delivery.EXPRESS
        durable += delivery in DURABLE
        pair.backlog["a"].append((delivery, bytes(900 + number % 3 * 40)))

    def told(kind: type[PacketsAcked | PacketsStored]) -> int:
        return sum(len(event.packets) for event in pair.events["a"] if isinstance(event, kind))

    pair.run_until(lambda: told(PacketsAcked) == PACKETS and told(PacketsStored) == durable, limit_ns=600 * SECOND)
    return pair


@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize(("udp", "congestion"), [(False, "newreno"), (True, "newreno"), (True, "bbr")])
def test_by_the_run_the_same_leaves_as_one_by_one(udp: bool, congestion: str, loss: float) -> None:
    """The same bytes at the same moments: probes, resends, acks that ride, and requests for acks."""
    settings = SessionSettings(max_unacked_packet=64, congestion=congestion)
    for seed in range(2):
        single, by_run = (transfer(settings, loss=loss, seed=seed, udp=udp, by_run=by_run) for by_run in (False, True))
        for end in ("a", "b"):
            assert [
                (at_ns, sent.counter, sent.payload, sent.packet and sent.packet.number)
                for at_ns, sent in by_run.sent[end]
            ] == [
                (at_ns, sent.counter, sent.payload, sent.packet and sent.packet.number)
                for at_ns, sent in single.sent[end]
            ]
        assert (single.longest_run, by_run.longest_run > 1) == (0, True)


def test_probes_take_none_of_the_credit_of_what_comes_after() -> None:
    """The pacer does not hold them back; a slow flow would need half a minute to earn what twenty of them take."""
    settings, rtt, timers = SessionSettings(max_datagram_bytes=1_200, congestion="newreno"), RoundTrip(), Timers()
    rtt.update(10 * SECOND)
    share = NetworkShare(settings, 1_200, 1, 0)
    window, probing = SendWindow(8, rtt, share.window), Probing()
    ack_sender = AckSender(8, Policy.of(settings), 16)
    path_size = PathSize(
        UDP,
        1_200,
        overhead_bytes=0,
        packet_header_bytes=20,
        share=share,
        window=window,
        rtt=rtt,
        timers=timers,
        tell=lambda _event: None,
    )
    departing = Departing(window, share, probing, ack_sender, rtt, timers, path_size)
    first, second = window.push(Delivery.EXPRESS, [bytes(1_100)] * 2, [None] * 2, [False] * 2, 0)
    departing.handle_sent(first, 1, 0)
    for counter in range(2, 22):
        probing.handle_timer([first], awaits=False)
        assert departing.next_packet(counter * MS) is first
        departing.handle_sent(first, counter, counter * MS)
    assert departing.next_packet(30 * MS) is second


def numbers_that_ask(payloads: list[bytes]) -> list[int]:
    frames = [frame for payload in payloads for frame in BINARY.decode(payload)]
    return [frame.number for frame in frames if isinstance(frame, PacketFrame) and frame.ask]


def test_a_closed_window_is_asked_for_by_the_last_of_a_run() -> None:
    """The window is spent with it, and the peer would wait for as many more; of the others only who wants to asks."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=8, congestion="newreno"), udp=False)
    pair.confirm()
    pair.a.send_packets(Delivery.EXPRESS, [b"x"] * 3, [None] * 3, [False, True, False])
    pair.a.send_packets(Delivery.EXPRESS, [b"x"] * 5, [None] * 5, [False] * 5)
    run = pair.a.poll_run(pair.now_ns)
    assert run is not None
    assert [sent.number for sent in run.packets] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert numbers_that_ask(run.payloads) == [2]  # half a window is acknowledged without being asked
    assert pair.a.poll_run(pair.now_ns) is None


def test_an_ack_that_is_due_goes_before_a_run() -> None:
    """It takes a packet along; the others follow by the run."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=8), udp=False)
    pair.confirm()
    pair.b.send_packets(Delivery.EXPRESS, [b"x"] * 3, [None] * 3, [False] * 3)
    pair.b.ack_sender.session_ack.debt.handle_request()
    assert pair.b.poll_run(pair.now_ns) is None
    first = pair.b.poll_transmit(pair.now_ns)
    assert first is not None
    assert first.ack is not None
    assert first.packet is not None
    run = pair.b.poll_run(pair.now_ns)
    assert run is not None
    assert [sent.number for sent in run.packets] == [2, 3]
    assert run.counter == first.counter + 1


def test_nothing_leaves_by_the_run_before_a_session_is_open() -> None:
    """Hellos and goodbyes are made one by one."""
    assert make_session(1).poll_run(0) is None


def test_a_window_that_is_closed_asks_at_once() -> None:
    """Although its only packet could wait for the store."""
    stuck = SessionSettings(max_unacked_packet=1, ack_trigger=AckTrigger(window_share=None))
    pair = Pair.opened(stuck, udp=False)
    pair.confirm()
    pair.a.send_packets(Delivery.TRANSACTIONAL, [b"x"], [None], [Ask.WITH_STORE])
    run = pair.a.poll_run(pair.now_ns)
    assert run is not None
    (frame,) = BINARY.decode(run.payloads[0])
    assert isinstance(frame, PacketFrame)
    assert frame.ask == Ask.AT_ONCE
