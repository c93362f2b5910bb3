"""The simulated disk and its faults."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import apsw
import pytest

from tests.machine import PATIENCE_S
from tests.tools.sim.files import crash_at, open_database, rows, written
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.tools.demo.relay import Direction
from triack.tools.sim.disk import Disk, Kept, ProcessCrashed, sectors
from triack.tools.sim.faults import HEADER_BYTES, SHARES, Fates, Faults
from triack.tools.sim.network import Network, Port
from triack.tools.sim.world import World


def test_exactly_what_is_chosen_survives_in_the_chosen_order(disk: Disk) -> None:
    file = written(disk, b"")
    file.xSync(2)
    file.xWrite(b"aaaa", 0)
    file.xWrite(b"bbbb", 2)
    file.xTruncate(5)
    before = disk.snapshot()
    for kept, content in (
        ([], b""),
        ([Kept(0)], b"aaaa"),
        ([Kept(0), Kept(1)], b"aabbbb"),
        ([Kept(1), Kept(0)], b"aaaabb"),
        ([Kept(1), Kept(2)], b"\0\0bbb"),
        ([Kept(0, 1, 3)], b"\0aa"),
        ([Kept(0), Kept(1, 3)], b"aaaa\0b"),
    ):
        disk.restore(before)
        disk.lose_power_with(kept)
        assert disk.files() == {"log": content}, kept


def test_power_loss_leaves_nothing_everything_prefixes_parts_and_torn_writes() -> None:
    """Each of them is seen within some seeds, and without tearing no write is torn."""
    seen: dict[bool, set[bytes]] = {}
    for tears in (False, True):
        for seed in range(300):
            disk = Disk(Random(seed))
            disk.tears = tears
            file = written(disk)
            file.xSync(2)
            for number in range(3):
                file.xWrite(bytes([65 + number]) * 600, number * 600)
            disk.lose_power()
            seen.setdefault(tears, set()).add(disk.files()["log"])
            disk.close()
    whole = [bytes([65 + number]) * 600 for number in range(3)]
    nothing, everything, prefix, part = b"", b"".join(whole), whole[0] + whole[1], bytes(600) + whole[1]
    assert {nothing, everything, prefix, part} <= seen[False]
    assert len(seen[False]) == 8
    assert seen[False] < seen[True]
    assert any(content.count(b"A") == 512 for content in seen[True])
    assert any(content.count(b"A") % 256 for content in seen[True] - seen[False])


def test_sectors_are_those_of_the_disk(disk: Disk) -> None:
    """Not those of the write: one that begins in the middle of a sector is cut where the sector ends."""
    file = written(disk)
    file.xWrite(b"x" * 1_000, 500)
    assert sectors(disk.unsynced[-1]) == [(0, 12), (12, 524), (524, 1000)]


def test_bytes_rot_as_seen_and_as_kept(disk: Disk) -> None:
    """A damaged file stays so without power; as many bits flip as were asked for."""
    file = written(disk, bytes(1_000))
    file.xSync(2)
    disk.rot(5)
    content = disk.files()["log"]
    assert sum(byte.bit_count() for byte in content) == 5
    disk.damage("log", 10, b"xyz")
    disk.cut("log", 500)
    disk.lose_power_with([])
    assert disk.files()["log"] == content[:10] + b"xyz" + content[13:500]


def test_sqlite_keeps_what_it_synced_and_no_more(disk: Disk) -> None:
    """Committed with a sync: there. Without: not there, so this disk does lose."""
    database = open_database(disk)
    database.execute("INSERT INTO rows VALUES (1)")
    database.pragma("synchronous", "OFF")
    database.execute("INSERT INTO rows VALUES (2)")
    seen = disk.snapshot()
    disk.kill()
    assert rows(disk) == [1, 2]
    disk.restore(seen)
    disk.lose_power_with([])
    assert rows(disk) == [1]


SCRIPT = """
import gc, sys
gc.disable() if sys.argv[1] == "off" else gc.set_threshold(1)
from random import Random
from tests.tools.sim.test_disk import lived
print(lived(7))
"""


def lived(seed: int) -> str:
    """The bytes that some work, some faults and a loss of power leave."""
    disk = Disk(Random(seed))
    disk.faults.write = disk.faults.sync = 0.01
    for number in range(60):
        try:
            database = open_database(disk)
            database.execute("INSERT INTO rows VALUES (?)", (number,))
        except apsw.Error:
            pass
        if number % 7 == 0:
            disk.lose_power()
        else:
            disk.kill()
    found = disk.fingerprint()
    disk.close()
    return found


@pytest.mark.slow
def test_the_same_seed_leaves_the_same_bytes() -> None:
    """In this process twice, in others with other hash seeds and collectors; another seed leaves others."""
    first = lived(7)
    assert lived(7) == first != lived(8)
    for hash_seed, collector in (("0", "off"), ("1", "eager")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, collector],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stdout.strip() == first, done.stderr


def test_a_crash_comes_out_of_the_call_and_nothing_happens_after_it() -> None:
    """At every effect of a transaction; closing the dead process' database changes nothing and says nothing."""
    for effect in range(100):
        disk = Disk(Random(effect))
        database: apsw.Connection | None = None
        crash_at(disk, effect)
        try:
            database = open_database(disk)
            database.execute("BEGIN; INSERT INTO rows VALUES (1); INSERT INTO rows VALUES (2); COMMIT")
        except ProcessCrashed:
            disk.on_effect = None
            before = disk.fingerprint()
            database = None
            gc.collect()
            assert disk.fingerprint() == before
            disk.kill()
            assert rows(disk) in ([], [1, 2])
            disk.close()
        else:
            assert effect > 10
            disk.kill()
            disk.close()
            return
    raise AssertionError("the transaction has no end")


def test_time_and_chance_are_the_disks(disk: Disk) -> None:
    """SQLite on it reads no clock and no randomness of the real machine."""
    database = open_database(disk)
    assert database.execute("SELECT datetime('now')").get == "1970-01-01 00:00:00"
    drawn = database.execute("SELECT hex(randomblob(8))").get
    again = Disk(Random(1))
    assert open_database(again).execute("SELECT hex(randomblob(8))").get == drawn
    again.close()


DATAGRAMS = [b"%06d" % number + bytes(94) for number in range(4_000)]
SHARE = 0.2
Arrivals = list[list[tuple[int, bytes]]]


def chance(seed: str) -> Callable[[str], Random]:
    return lambda concern: Random(f"{seed} {concern}")


def decided(faults: Faults, seed: str = "1") -> Arrivals:
    fates = Fates(chance(seed))
    return [fates.decide(faults, datagram) for datagram in DATAGRAMS]


def about(count: int, share: float = SHARE) -> bool:
    """Whether ``count`` is that share of all datagrams, give or take a tenth of it."""
    return abs(count / len(DATAGRAMS) - share) < share / 10


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
    extra = [arriving[0][0] - faults.delay_ns for arriving in decided(faults)]
    assert about(sum(extra_ns > 0 for extra_ns in extra))
    assert min(extra) == 0
    assert 0.9 * longest_ns < max(extra) <= longest_ns + 1


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


def test_loss_loses_its_share_and_jitter_is_between_nothing_and_all_of_it() -> None:
    arriving = decided(Faults(loss=SHARE, delay_ns=MS, jitter_ns=MS))
    assert about(sum(not some for some in arriving))
    delays = {some[0][0] for some in arriving if some}
    assert MS <= min(delays) < 1.01 * MS
    assert 1.99 * MS < max(delays) < 2 * MS


def test_truncation_leaves_a_beginning() -> None:
    """Never nothing at all; a datagram's whole length may be what is left."""
    arriving = decided(Faults(truncate=SHARE))
    assert all(datagram.startswith(some[0][1]) for datagram, some in zip(DATAGRAMS, arriving, strict=True))
    lengths = [len(some[0][1]) for some in arriving]
    assert about(sum(length < 100 for length in lengths))
    assert min(lengths) == 1


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


def test_more_of_one_fault_leaves_the_others_as_they_were() -> None:
    """Loss only takes away: what a seed duplicates, delays and damages without loss, it does with loss."""
    quiet = decided(Faults(duplicate=SHARE, reorder=SHARE))
    lossy = decided(Faults(duplicate=SHARE, reorder=SHARE, loss=SHARE))
    assert all(set(some) <= set(whole) for some, whole in zip(lossy, quiet, strict=True))
    damaged = decided(Faults(duplicate=SHARE, reorder=SHARE, corrupt=SHARE))
    assert [[at for at, _ in some] for some in damaged] == [[at for at, _ in some] for some in quiet]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_between_nothing_and_all(share: float) -> None:
    for name in SHARES:
        for fails in (partial(Faults, **{name: share}), partial(setattr, Faults(), name, share)):  # type: ignore[arg-type]
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
    faults = Faults(jitter_ns=MS, burst=0.02, late_ns=SECOND, delay_ns=0)
    for name in (name for name in SHARES if name != "burst"):
        setattr(faults, name, SHARE)
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
