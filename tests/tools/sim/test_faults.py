"""The one record of faults: each share has its effect, independently, and simulation and relay decide alike."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.tools.demo.relay import Direction
from triack.tools.sim.faults import HEADER_BYTES, SHARES, Fates, Faults
from triack.tools.sim.network import Network, Port
from triack.tools.sim.world import World

DATAGRAMS = [b"%06d" % number + bytes(94) for number in range(4_000)]
SHARE = 0.2
Arrivals = list[list[tuple[int, bytes]]]


def chance(seed: str) -> Callable[[str], Random]:
    """A stream of chance for each concern."""
    return lambda concern: Random(f"{seed} {concern}")


def decided(faults: Faults, seed: str = "1") -> Arrivals:
    """What becomes of each datagram."""
    fates = Fates(chance(seed))
    return [fates.decide(faults, datagram) for datagram in DATAGRAMS]


def all_shares() -> Faults:
    """A network on which all that can happen does, each by its share."""
    faults = Faults(jitter_ns=MS)
    for name in SHARES:
        setattr(faults, name, SHARE)
    return faults


def about(count: int, share: float = SHARE) -> bool:
    """Whether ``count`` is that share of all datagrams, give or take a tenth of it."""
    return abs(count / len(DATAGRAMS) - share) < share / 10


def test_nothing_happens_to_a_datagram_on_a_good_network() -> None:
    """It arrives once, as it was, after the delay, and nothing is drawn or counted."""
    fates = Fates(chance("1"))
    for datagram in DATAGRAMS:
        assert fates.decide(Faults(delay_ns=7), datagram) == [(7, datagram)]
    assert not fates.counts


def test_loss_loses_its_share() -> None:
    assert about(sum(not arriving for arriving in decided(Faults(loss=SHARE))))


def test_bursts_are_as_long_as_asked_on_average() -> None:
    """A burst begins at its share of what is not lost in one, and each path has bursts of its own."""
    fates, faults = Fates(chance("1")), Faults(burst=0.02, burst_length=10)
    lost = [fates.is_lost(faults, "a") for _ in range(20_000)]
    begins = sum(here and not before for here, before in zip(lost, [False, *lost], strict=False))
    assert 9 < sum(lost) / begins < 13
    assert 0.015 < begins / lost.count(False) < 0.025
    while not fates.is_lost(faults, "a"):
        pass
    assert not fates.is_lost(Faults(burst=1e-9), "b")
    assert fates.is_lost(Faults(burst=1.0, burst_length=1), "b")
    assert fates.is_lost(Faults(burst_length=1), "b")
    assert not fates.is_lost(Faults(), "b")
    assert fates.is_lost(Faults(), "a")


def test_duplicates_arrive_twice_and_late_ones_late() -> None:
    """The first copy is on time."""
    twice = [arriving for arriving in decided(Faults(duplicate=SHARE)) if len(arriving) == 2]
    assert about(len(twice))
    assert {delay_ns for arriving in twice for delay_ns, _ in arriving} == {5 * MS}
    late = [arriving for arriving in decided(Faults(late_duplicate=SHARE, late_ns=SECOND)) if len(arriving) == 2]
    assert about(len(late))
    assert {arriving[0][0] for arriving in late} == {5 * MS}
    assert 900 * MS < max(arriving[1][0] for arriving in late) <= 5 * MS + SECOND
    assert all(one == other for (_, one), (_, other) in twice + late)


@pytest.mark.parametrize(
    ("faults", "longest_ns"),
    [
        (Faults(reorder=SHARE), 4 * 5 * MS),
        (Faults(reorder=SHARE, reorder_ns=MS), MS),
        (Faults(reorder=SHARE, reorder_ns=MS, delay_ns=0), MS),
        (Faults(spike=SHARE, spike_ns=SECOND), SECOND),
    ],
)
def test_what_is_held_back_is_so_up_to_its_time(faults: Faults, longest_ns: int) -> None:
    """Its share of all, and the others not at all."""
    extra = [arriving[0][0] - faults.delay_ns for arriving in decided(faults)]
    assert about(sum(extra_ns > 0 for extra_ns in extra))
    assert min(extra) == 0
    assert 0.9 * longest_ns < max(extra) <= longest_ns + 1


def test_jitter_is_between_nothing_and_all_of_it() -> None:
    delays = {arriving[0][0] for arriving in decided(Faults(delay_ns=MS, jitter_ns=MS))}
    assert MS <= min(delays) < 1.01 * MS
    assert 1.99 * MS < max(delays) < 2 * MS


def test_corruption_flips_one_bit_anywhere() -> None:
    """Of its share of the datagrams, and of each byte in its turn."""
    flips = []
    for datagram, arriving in zip(DATAGRAMS, decided(Faults(corrupt=SHARE)), strict=True):
        changed = [(at, one ^ other) for at, (one, other) in enumerate(zip(datagram, arriving[0][1], strict=True))]
        flips += [(at, bits) for at, bits in changed if bits]
    assert about(len(flips))
    assert all(bits.bit_count() == 1 for _, bits in flips)
    assert len({at for at, _ in flips}) > 90
    assert {bits for _, bits in flips} == {1 << bit for bit in range(8)}


def test_truncation_leaves_a_beginning() -> None:
    """Never nothing at all; a datagram's whole length may be what is left."""
    arriving = decided(Faults(truncate=SHARE))
    assert all(datagram.startswith(some[0][1]) for datagram, some in zip(DATAGRAMS, arriving, strict=True))
    lengths = [len(some[0][1]) for some in arriving]
    assert about(sum(length < 100 for length in lengths))
    assert min(lengths) == 1


def test_an_empty_datagram_cannot_be_damaged() -> None:
    """There is nothing in it; UDP carries such ones."""
    assert Fates(chance("1")).decide(Faults(corrupt=1.0, truncate=1.0), b"") == [(5 * MS, b"")]


def test_what_is_larger_than_the_path_is_lost() -> None:
    fates = Fates(chance("1"))
    assert [len(fates.decide(Faults(mtu_bytes=100), bytes(size))) for size in (99, 100, 101)] == [1, 1, 0]
    assert fates.counts == {"too-large": 1}


def on_link(faults: Faults, sent_ns: list[int]) -> list[int | None]:
    """When datagrams of 1,000 bytes, headers included, arrive that are sent at these times; None: never."""
    fates, found = Fates(chance("1")), []
    for at_ns in sent_ns:
        arriving = fates.decide(faults, bytes(1_000 - HEADER_BYTES), now_ns=at_ns)
        found.append(at_ns + arriving[0][0] if arriving else None)
    return found


def test_datagrams_wait_for_each_other_on_a_link_with_a_rate_and_then_no_longer() -> None:
    """A millisecond each, besides the delay, and each path has a link of its own."""
    slow = Faults(rate_bps=8_000_000, delay_ns=5 * MS)
    assert on_link(slow, [0, 0, 0, 10 * MS]) == [6 * MS, 7 * MS, 8 * MS, 16 * MS]
    fates = Fates(chance("1"))
    assert [fates.decide(slow, bytes(972), path)[0][0] for path in ("a", "b", "a")] == [6 * MS, 6 * MS, 7 * MS]


def test_what_finds_the_queue_of_a_link_full_is_lost() -> None:
    """Two wait behind the one that leaves; what is lost on the link has taken its time there, and what is not, none."""
    slow = Faults(rate_bps=8_000_000, delay_ns=0, queue_bytes=2_000)
    assert on_link(slow, [0] * 5) == [MS, 2 * MS, 3 * MS, None, None]
    fates = Fates(chance("1"))
    for _ in range(5):
        fates.decide(replace(slow, loss=1.0), bytes(972))
    assert fates.counts == {"lost": 3, "overflowed": 2}


def test_what_happens_is_counted() -> None:
    """By the name that a campaign shows."""
    fates = Fates(chance("1"))
    faults = Faults(loss=0.5, duplicate=1.0, late_duplicate=1.0, spike=1.0, corrupt=1.0, truncate=1.0)
    arrived = sum(len(fates.decide(faults, datagram)) for datagram in DATAGRAMS)
    counts = fates.counts
    assert counts["duplicated"] == counts["duplicated-late"] == len(DATAGRAMS)
    assert counts["spiked"] == 3 * len(DATAGRAMS) == arrived + counts["lost"]
    assert counts["corrupted"] == counts["truncated"] == arrived


def test_the_same_seed_decides_the_same() -> None:
    """And another one does not."""
    rough = all_shares()
    assert decided(rough) == decided(rough) != decided(rough, "2")


def test_more_of_one_fault_leaves_the_others_as_they_were() -> None:
    """Loss only takes away: what a seed duplicates, delays and damages without loss, it does with loss."""
    quiet = decided(Faults(duplicate=SHARE, reorder=SHARE))
    lossy = decided(Faults(duplicate=SHARE, reorder=SHARE, loss=SHARE))
    assert all(set(some) <= set(whole) for some, whole in zip(lossy, quiet, strict=True))
    damaged = decided(Faults(duplicate=SHARE, reorder=SHARE, corrupt=SHARE))
    assert [[at for at, _ in some] for some in damaged] == [[at for at, _ in some] for some in quiet]


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_between_nothing_and_all(name: str, share: float) -> None:
    """When it is made and when it is changed."""
    for fails in (lambda: Faults(**{name: share}), lambda: setattr(Faults(), name, share)):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"^{name} must be between 0 and 1, not {share}$"):
            fails()


@pytest.mark.parametrize(("name", "least"), [("late_ns", 1), ("spike_ns", 2), ("burst_length", 1), ("delay_ns", 0)])
def test_a_number_that_no_datagram_could_be_drawn_with_is_refused(name: str, least: int) -> None:
    setattr(Faults(), name, least)
    for value in (least - 1, float("nan"), "1"):
        with pytest.raises(UsageError, match=f"^{name} must be at least {least}, not {value!r}$"):
            setattr(Faults(), name, value)


async def test_the_relay_and_the_simulated_network_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same chance: the same datagrams arrive, as often, as late and as damaged."""
    faults = replace(all_shares(), burst=0.02, late_ns=SECOND, delay_ns=0)
    world = World(1)
    monkeypatch.setattr(world, "chance", lambda name: Random(f"seed {name.rpartition(' ')[2]}"))
    network = Network(world, faults)
    simulated: list[tuple[int, bytes]] = []
    start_ns = world.now_ns
    port = Port(lambda data, _sender: simulated.append((world.now_ns - start_ns, data)), lambda _address: None)
    network.attach("udp://b:1", port)
    for datagram in DATAGRAMS:
        network.send(datagram, "udp://a:1", "udp://b:1")
    world.run(10 * SECOND)

    relayed: list[tuple[int, bytes]] = []
    direction = Direction(faults, "seed")

    def later(delay: float, _deliver: object, data: bytes, _to: object) -> None:
        relayed.append((round(delay * SECOND), data))

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", later)

    def deliver(data: bytes) -> bool:
        relayed.append((0, data))
        return True

    for datagram in DATAGRAMS:
        direction.pass_on(datagram, deliver)
    assert sorted(simulated) == sorted(relayed)
    assert direction.fates.counts == {name: network.counts[name] for name in direction.fates.counts}
