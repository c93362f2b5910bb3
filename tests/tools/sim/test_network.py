"""The simulated network follows its settings, and nothing else."""

import pytest

from triack.base.units import MS, SECOND
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import STREAM_PATIENCE_NS, Network, Port
from triack.tools.sim.world import World

A, B = "udp://a:1", "udp://b:1"
TCP_A, TCP_B = "tcp://a:1", "tcp://b:1"


class Net:
    """Two ends, and what arrived at each."""

    def __init__(self, faults: Faults | None = None, *, a: str = A, b: str = B, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = Network(self.world, faults)
        self.got: dict[str, list[tuple[bytes, str]]] = {a: [], b: []}
        self.gone: dict[str, list[str]] = {a: [], b: []}
        for address in (a, b):
            self.listen(address)

    def listen(self, address: str) -> None:
        got, gone = self.got[address], self.gone[address]
        self.network.attach(address, Port(lambda data, sender: got.append((data, sender)), gone.append))

    def send(self, count: int, sender: str = A, to: str = B, size_bytes: int = 100) -> None:
        for number in range(count):
            self.network.send(b"%06d" % number + b"." * size_bytes, sender, to)
            self.world.run(MS)

    def numbers(self, address: str = B) -> list[int]:
        return [int(data[:6]) for data, _ in self.got[address]]


def test_a_good_network_carries_everything_once_in_order() -> None:
    """After its delay, with the sender's address."""
    net = Net(Faults(delay_ns=5 * MS))
    net.send(1)
    assert not net.got[B]
    net.send(99)
    net.world.run(10 * MS)
    assert len(net.got[B]) == 100
    assert net.got[B][0][1] == A


@pytest.mark.parametrize(
    ("faults", "fewest", "most"),
    [(Faults(loss=0.3), 620, 780), (Faults(duplicate=0.3), 1220, 1380), (Faults(burst=0.05), 700, 920)],
    ids=["loss", "duplicates", "bursts"],
)
def test_chances_are_about_what_was_asked(faults: Faults, fewest: int, most: int) -> None:
    """Of a thousand datagrams."""
    net = Net(faults)
    net.send(1_000)
    net.world.run(SECOND)
    assert fewest <= len(net.got[B]) <= most


def test_bursts_lose_runs_and_single_losses_do_not() -> None:
    """As many losses come in far fewer runs."""

    def runs(faults: Faults) -> tuple[int, int]:
        net = Net(faults)
        net.send(2_000)
        net.world.run(SECOND)
        lost = sorted(set(range(2_000)) - set(net.numbers()))
        return len(lost), sum(number - 1 not in lost for number in lost)

    burst_lost, burst_runs = runs(Faults(burst=0.02, burst_length=10))
    lost, single_runs = runs(Faults(loss=0.17))
    assert burst_lost / burst_runs > 3 * lost / single_runs


def test_reordering_and_spikes_let_others_pass() -> None:
    """Nothing is lost, and not everything is in order."""
    for faults in (Faults(reorder=0.3), Faults(spike=0.05, spike_ns=50 * MS)):
        net = Net(faults)
        net.send(200)
        net.world.run(SECOND)
        assert sorted(net.numbers()) == list(range(200))
        assert net.numbers() != list(range(200))


def test_late_duplicates_come_much_later() -> None:
    """Up to the time that was asked."""
    net = Net(Faults(late_duplicate=1.0, late_ns=100 * SECOND))
    net.send(20)
    net.world.run(SECOND)
    soon = len(net.got[B])
    net.world.run(110 * SECOND)
    assert 20 <= soon < 40 == len(net.got[B])


def test_corruption_flips_one_bit_and_truncation_cuts_the_end() -> None:
    """Of what was sent nothing else changes."""
    net = Net(Faults(corrupt=1.0))
    net.network.send(bytes(50), A, B)
    net.world.run(SECOND)
    assert sum(byte.bit_count() for byte in net.got[B][0][0]) == 1
    net = Net(Faults(truncate=1.0))
    net.send(20)
    net.world.run(SECOND)
    assert len({len(data) for data, _ in net.got[B]}) > 5
    assert all(0 < len(data) <= 106 for data, _ in net.got[B])


def test_what_is_too_large_is_lost() -> None:
    """As with a path whose MTU is smaller."""
    net = Net(Faults(mtu_bytes=500))
    net.send(1, size_bytes=494)
    net.send(1, size_bytes=495)
    net.world.run(SECOND)
    assert len(net.got[B]) == 1


@pytest.mark.parametrize(("a", "b", "arrived"), [(A, B, 3), (TCP_A, TCP_B, 5)])
def test_a_slow_link_takes_its_time_and_loses_what_finds_its_queue_full(a: str, b: str, arrived: int) -> None:
    """A second for each datagram, with its headers; a TCP connection waits for its turn."""
    net = Net(Faults(rate_bps=8_000, queue_bytes=2_000, delay_ns=0), a=a, b=b)
    for _ in range(5):
        net.network.send(bytes(972), a, b)
    for seconds in range(5):
        net.world.run(SECOND - MS)
        assert len(net.got[b]) == min(seconds, arrived)
        net.world.run(MS)
    assert len(net.got[b]) == arrived


def test_a_narrow_path_loses_what_is_longer_one_way_and_for_good() -> None:
    """Wherever the two hosts are, until it carries something else."""
    net = Net(Faults())
    net.network.narrow(A, B, 100)
    for size in (100, 101):
        net.network.send(bytes(size), A, B)
        net.network.send(bytes(size), B, A)
    net.network.heal()
    net.network.send(bytes(101), A, B)
    net.world.run(SECOND)
    assert [len(data) for data, _ in net.got[B]] == [100]
    assert [len(data) for data, _ in net.got[A]] == [100, 101]
    net.network.narrow(A, B, 0)
    net.network.send(bytes(60_000), A, B)
    net.world.run(SECOND)
    assert len(net.got[B]) == 2


def test_a_cut_has_a_direction() -> None:
    """The other way works, until both do again."""
    net = Net()
    net.network.cut(A, B)
    net.send(3)
    net.send(3, B, A)
    net.world.run(SECOND)
    assert (len(net.got[B]), len(net.got[A])) == (0, 3)
    net.network.heal()
    net.send(3)
    net.world.run(SECOND)
    assert len(net.got[B]) == 3


def test_a_clog_holds_and_lets_go() -> None:
    """Everything arrives, after it."""
    net = Net()
    net.network.clog(A, B)
    net.send(5)
    net.world.run(10 * SECOND)
    assert not net.got[B]
    net.network.unclog(A, B)
    net.world.run(SECOND)
    assert net.numbers() == list(range(5))


def test_a_rebound_host_is_seen_elsewhere_and_answers_must_follow() -> None:
    """Datagrams to the address seen before are lost."""
    net = Net()
    net.network.rebind(A)
    net.send(1)
    net.world.run(SECOND)
    seen = net.got[B][0][1]
    assert seen != A
    net.network.send(b"to the new", B, seen)
    net.network.rebind(A)
    net.network.send(b"to the old", B, seen)
    net.world.run(SECOND)
    assert [data for data, _ in net.got[A]] == [b"to the new"]


def test_a_hidden_host_is_reached_by_its_own_flows_only() -> None:
    """Not at its own address, and not any more when it has been silent for too long; and cuts find it there, too."""
    net = Net()
    net.network.hide(A, 100 * MS)
    net.send(1, B, A)
    net.send(1)
    net.world.run(10 * MS)
    seen = net.got[B][0][1]
    net.network.send(b"in time", B, seen)
    net.network.cut(B, A)
    net.network.send(b"cut", B, seen)
    net.network.heal()
    net.world.run(SECOND)
    net.network.send(b"too late", B, seen)
    net.world.run(SECOND)
    assert [data for data, _ in net.got[A]] == [b"in time"]
    assert net.network.counts["forgotten"] == 2


def test_a_stream_keeps_order_and_loses_nothing() -> None:
    """Loss only makes it late."""
    net = Net(Faults(loss=0.3, reorder=0.5, duplicate=0.5, jitter_ns=20 * MS), a=TCP_A, b=TCP_B)
    net.send(200, TCP_A, TCP_B)
    net.world.run(60 * SECOND)
    assert net.numbers(TCP_B) == list(range(200))


def test_what_a_stream_holds_follows_when_the_loss_ends() -> None:
    """However much has gathered behind it; and nothing of it outlives the process that it was for."""
    net = Net(Faults(loss=0.9), a=TCP_A, b=TCP_B)
    for restarted in (False, True):
        net.network.faults = Faults(loss=0.9)
        net.send(500, TCP_A, TCP_B)
        net.world.run(SECOND)
        before = net.numbers(TCP_B)
        assert len(before) < 50
        if restarted:
            net.network.detach(TCP_B)
            net.listen(TCP_B)
        net.network.faults = Faults()
        net.world.run(30 * SECOND)
        assert net.numbers(TCP_B) == (before if restarted else list(range(500)))
        net.got[TCP_B].clear()


def test_a_stream_survives_a_short_cut_and_ends_with_a_long_one() -> None:
    """Both ends learn that the path is gone, and what was held is lost."""
    net = Net(a=TCP_A, b=TCP_B)
    net.network.cut(TCP_A, TCP_B)
    net.send(3, TCP_A, TCP_B)
    net.world.run(STREAM_PATIENCE_NS // 2)
    net.network.heal()
    net.world.run(SECOND)
    assert net.numbers(TCP_B) == [0, 1, 2]
    net.network.cut(TCP_A, TCP_B)
    net.send(3, TCP_A, TCP_B)
    net.world.run(2 * STREAM_PATIENCE_NS)
    assert TCP_B in net.gone[TCP_A]
    assert TCP_A in net.gone[TCP_B]
    net.network.heal()
    net.world.run(SECOND)
    assert net.numbers(TCP_B) == [0, 1, 2]


def test_the_same_seed_loses_the_same() -> None:
    """And another one does not."""
    outcomes = []
    for seed in (1, 1, 2):
        net = Net(Faults(loss=0.5, reorder=0.5, corrupt=0.5), seed=seed)
        net.send(100)
        net.world.run(SECOND)
        outcomes.append(net.got[B])
    assert outcomes[0] == outcomes[1] != outcomes[2]


# Addresses of both transports.


def test_who_calls_an_address_of_the_other_transport_is_answered_where_it_calls_from() -> None:
    """By a stream, in order and without loss, though it listens for datagrams itself; its next process calls anew."""
    net = Net(Faults(loss=0.5), b=TCP_B)
    net.send(20, A, TCP_B)
    net.world.run(60 * SECOND)
    assert net.numbers(TCP_B) == list(range(20))
    (caller,) = {sender for _, sender in net.got[TCP_B]}
    assert caller.startswith("tcp://a:")
    net.send(20, TCP_B, caller)
    net.world.run(60 * SECOND)
    assert net.got[A] == [(data, TCP_B) for data, _ in net.got[A]]
    assert net.numbers(A) == list(range(20))
    net.network.detach(A)
    net.listen(A)
    net.world.run(SECOND)
    assert net.gone[TCP_B] == [caller]
    net.send(1, TCP_B, caller)
    net.send(1, A, TCP_B)
    net.world.run(10 * SECOND)
    assert len(net.got[A]) == 20
    assert net.gone[TCP_B] == [caller, caller]
    assert net.got[TCP_B][-1][1] not in (caller, A)


def test_a_stream_calls_by_datagrams_too() -> None:
    """They can be lost."""
    net = Net(Faults(loss=0.5), a=TCP_A)
    net.send(100, TCP_A, B)
    net.world.run(SECOND)
    assert 20 < len(net.got[B]) < 80
    assert {sender.partition(":")[0] for _, sender in net.got[B]} == {"udp"}


def test_a_cut_is_between_hosts_wherever_they_call_from() -> None:
    """Bytes that a stream held go on when it is healed soon; later both ends know that it is gone."""
    net = Net(Faults(delay_ns=MS), b=TCP_B)
    net.send(1, A, TCP_B)
    net.world.run(SECOND)
    caller = net.got[TCP_B][0][1]
    net.network.cut(A, TCP_B)
    net.network.cut(TCP_B, A)
    net.send(2, A, TCP_B)
    net.send(2, TCP_B, caller)
    net.world.run(STREAM_PATIENCE_NS // 2)
    assert (len(net.got[A]), len(net.got[TCP_B])) == (0, 1)
    net.network.heal()
    net.world.run(SECOND)
    assert (len(net.got[A]), len(net.got[TCP_B])) == (2, 3)
    net.network.cut(A, TCP_B)
    net.world.run(STREAM_PATIENCE_NS + SECOND)
    assert (net.gone[A], net.gone[TCP_B]) == ([TCP_B], [caller])
