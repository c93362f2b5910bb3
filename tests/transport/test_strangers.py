"""Strangers: cookies, load of handshakes, invitations."""

import asyncio
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.snapshots import snapshot
from triack.base.datagram import Header, Kind, connection_id_of
from triack.base.errors import UsageError
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.transport.cookies import COOKIE_LIFE_NS, MAC_BYTES, Cookies, mac, mac_fits, mac_key
from triack.transport.handshake_load import CONNECTS_PER_HOST, CONNECTS_PER_SECOND, Admission
from triack.transport.invitation import Invitation, decode_code
from triack.transport.received import BACKLOG_MAX, FEW, Inbox
from triack.transport.strangers import STRANGERS_MAX, STRANGERS_PER_HOST_MAX, Strangers, host_of
from triack.transport.turns import (
    AHEAD_NS,
    BURST_BYTES_MAX,
    BURST_MAX,
    SOURCES_MAX,
    TURN_BYTES,
    TURN_DATAGRAMS,
    Burst,
    Received,
    Turns,
)

# A new connection is always accepted; if necessary, the one that has waited longest ends.


def test_one_host_has_only_its_share() -> None:
    """However often it knocks, it is its own oldest that goes, and others stay."""
    strangers = Strangers[str]()
    assert strangers.admit("honest", "10.0.0.1") is None
    gone = [strangers.admit(f"junk {number}", "10.0.0.2") for number in range(1_024)]
    assert gone[:STRANGERS_PER_HOST_MAX] == [None] * STRANGERS_PER_HOST_MAX
    assert gone[STRANGERS_PER_HOST_MAX:] == [f"junk {number}" for number in range(1_024 - STRANGERS_PER_HOST_MAX)]
    assert "honest" in strangers
    assert len(strangers) == 1 + STRANGERS_PER_HOST_MAX


def test_many_hosts_have_a_share_of_all_places() -> None:
    """A host with one connection is not the one that pays for a crowd."""
    strangers = Strangers[str]()
    strangers.admit("honest", "10.0.0.1")
    for number in range(10_000):
        strangers.admit(f"junk {number}", f"10.1.0.{number % 100}")
    assert "honest" in strangers
    assert len(strangers) == STRANGERS_MAX
    assert strangers.admit("newcomer", "10.0.0.3") not in {None, "honest", "newcomer"}


def test_who_was_vouched_for_takes_no_place() -> None:
    strangers = Strangers[int]()
    for number in range(STRANGERS_PER_HOST_MAX):
        strangers.admit(number, "h")
    strangers.forget(0)
    strangers.forget(0)
    assert (strangers.admit(99, "h"), strangers.admit(100, "h")) == (None, 1)
    assert list(strangers) == [*range(2, STRANGERS_PER_HOST_MAX), 99, 100]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_what_counts_as_one_host(one: str, other: str, same: bool) -> None:
    """An IPv6 host has 2^64 addresses."""
    assert (host_of(one) == host_of(other)) is same


# A cookie is recognised for its address, for two to four minutes, and nothing is kept for it.

ADDRESS = "udp://192.0.2.1:7801"


def shown(cookies: Cookies, now_ns: int = 0) -> bytes:
    return mac(cookies.make(ADDRESS, now_ns), b"data")


def test_a_cookie_is_known_again() -> None:
    cookies, other = Cookies(Random(1).randbytes), Cookies(Random(2).randbytes)
    proof = shown(cookies)
    assert cookies.fits(ADDRESS, b"data", proof, 0)
    assert not cookies.fits("udp://192.0.2.1:7802", b"data", proof, 0)
    assert not cookies.fits(ADDRESS, b"date", proof, 0)
    assert not other.fits(ADDRESS, b"data", proof, 0)
    assert not cookies.fits(ADDRESS, b"data", bytes(MAC_BYTES), 0)


@pytest.mark.parametrize("made_ns", [0, COOKIE_LIFE_NS - 1])
def test_a_cookie_lives_at_least_as_long_as_it_is_sent(made_ns: int) -> None:
    """However old its secret was; not much longer, and not again."""
    cookies = Cookies(Random(1).randbytes)
    shown(cookies)
    proof = shown(cookies, made_ns)
    for age_ns in (0, COOKIE_LIFE_NS // 2, COOKIE_LIFE_NS):
        assert cookies.fits(ADDRESS, b"data", proof, made_ns + age_ns)
    assert not cookies.fits(ADDRESS, b"data", proof, made_ns + 2 * COOKIE_LIFE_NS)


def test_macs_tell_keys_purposes_and_data_apart() -> None:
    keys = [mac_key(label, public) for label in (b"one", b"two") for public in (bytes(32), b"\1" * 32)]
    macs = [mac(key, data) for key in keys for data in (b"", b"data")]
    assert len(set(macs)) == 8
    assert all(len(one) == MAC_BYTES for one in macs)
    assert mac_fits(keys[0], b"data", macs[1])
    assert not mac_fits(keys[1], b"data", macs[1])


# Without load every connect is taken; under load each host has its share, whatever the others do.


def admitted(admission: Admission, address: str, now_ns: int, tries: int = 1_000) -> int:
    return sum(admission.admits(address, now_ns) for _ in range(tries))


def test_load_begins_above_a_number_of_connects_a_second() -> None:
    admission, step_ns = Admission(bytes(32)), SECOND // CONNECTS_PER_SECOND
    loaded = [admission.is_loaded(0) for _ in range(CONNECTS_PER_SECOND + 2)]
    assert loaded == [False] * CONNECTS_PER_SECOND + [True] * 2
    assert [admission.is_loaded(step_ns) for _ in range(2)] == [False, True]
    assert not any(admission.is_loaded(10 * SECOND + number * step_ns) for number in range(1_000))


def test_each_host_has_its_share() -> None:
    """Whatever ports it uses, and however much it asks for; it has it again a second later."""
    admission = Admission(bytes(32))
    assert sum(admission.admits(f"udp://192.0.2.1:{port}", 0) for port in range(1, 1_000)) == CONNECTS_PER_HOST
    assert admitted(admission, "udp://192.0.2.2:1", 0) == CONNECTS_PER_HOST
    assert admitted(admission, "tcp://192.0.2.1:1", SECOND // 2) == CONNECTS_PER_HOST // 2
    assert admitted(admission, "udp://192.0.2.1:1", 2 * SECOND) == CONNECTS_PER_HOST


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("udp://[2001:db8::1]:7801", "udp://[2001:db8::ffff:1:2:3]:7801", True),
        ("udp://[2001:db8::1]:7801", "udp://[2001:db8:0:1::1]:7801", False),
        ("udp://[::ffff:192.0.2.1]:7801", "udp://192.0.2.1:7801", True),
        ("udp://[::ffff:192.0.2.1]:7801", "udp://[::ffff:192.0.2.2]:7801", False),
        ("udp://[fe80::1%eth0]:7801", "udp://[fe80::2%eth0]:7801", True),
        ("udp://192.0.2.1:7801?at=127.0.0.2", "udp://192.0.2.1:7802", True),
        ("memory://a", "memory://b", False),
    ],
)
def test_what_counts_as_one_host_of_handshakes(one: str, other: str, share: bool) -> None:
    """An IPv6 network of 64 bits has one owner."""
    admission = Admission(bytes(32))
    assert admitted(admission, one, 0) == CONNECTS_PER_HOST
    assert (admitted(admission, other, 0) == 0) is share


@pytest.mark.gate
def test_it_never_grows() -> None:
    """Hosts that fall on the same place share one."""
    admission = Admission(bytes(32))
    hosts = 20_000
    taken = sum(admission.admits(f"udp://10.{n >> 16}.{n >> 8 & 255}.{n & 255}:1", 0) for n in range(hosts))
    places = snapshot(admission)
    assert isinstance(places, dict)
    assert len(places["_hosts_ns"]) == 1_024
    assert taken <= 1_024 * CONNECTS_PER_HOST


# A code is read in the forms in which people write it, and no other text passes for one.

INVITATION = Invitation.make(Random(1).randbytes, 5 * SECOND)


def test_an_invitation_is_128_random_bits_for_an_hour() -> None:
    """And nothing that prints it shows them."""
    assert (INVITATION.secret, INVITATION.expires_at_ns) == (Random(1).randbytes(16), 3_605 * SECOND)
    assert repr(INVITATION) == "Invitation(expires_at_ns=3605000000000)"


@given(st.binary(min_size=16, max_size=16))
def test_every_secret_comes_back(secret: bytes) -> None:
    code = Invitation(secret, 0).code
    for text in (code, code.upper(), code.replace("-", " "), f" {code.replace('-', '')}\n"):
        assert decode_code(text) == secret


def test_every_single_typo_is_noticed() -> None:
    code = INVITATION.code
    for at, right in enumerate(code):
        for letter in "abcdefghijklmnopqrstuvwxyz234567":
            if right not in ("-", letter):
                with pytest.raises(UsageError, match="mistyped"):
                    decode_code(code[:at] + letter + code[at + 1 :])


@pytest.mark.parametrize(
    "text", ["", "abcd", "1" * 32, "ä" * 32, "=" * 32, INVITATION.code + "a", INVITATION.code[:-1]]
)
def test_what_is_no_code_is_refused_without_repeating_it(text: str) -> None:
    """It may be a secret in the wrong place."""
    with pytest.raises(UsageError, match="32 letters") as caught:
        decode_code(text)
    assert not text or text not in str(caught.value)


# The inbox is bounded, and counts every datagram that it drops.


async def test_overflow_is_counted() -> None:
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("memory://a", drops)
    for number in range(BACKLOG_MAX + 3):
        inbox.offer(b"%d" % number, "s")
    assert await inbox.take() == [Received(b"%d" % number, "s") for number in range(BURST_MAX)]
    assert drops == {"receive-overflow": 3}


async def test_a_burst_is_bounded_in_bytes() -> None:
    inbox, size = Inbox("memory://a", Counter()), BURST_BYTES_MAX // 4
    sent = [bytes([number]) * size for number in range(9)] + [bytes(2 * BURST_BYTES_MAX)]
    for data in sent:
        inbox.offer(data, "s")
    bursts = [await inbox.take() for _ in range(3)]
    assert [len(burst) for burst in bursts] == [4, 4, 2]
    assert [received.data for burst in bursts for received in burst] == sent


async def test_streams_wait_for_room() -> None:
    inbox, total = Inbox("memory://a", Counter()), BACKLOG_MAX * 2
    feeding = asyncio.create_task(inbox.offer_all([b"x"] * total, "s"))
    feeding.add_done_callback(lambda _: inbox.path_gone("s"))
    found: list[Received] = []
    while len(found) <= total:
        found += await inbox.take()
    assert found == [Received(b"x", "s")] * total + [Received(b"", "s")]


async def test_a_burst_is_offered_as_its_datagrams_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("udp://a:1", drops)
    for burst in ([b"1", b"2"], [b"", b"3"]):
        inbox.offer_burst(burst, "b")
    assert [received.data for received in await inbox.take()] == [b"1", b"2", b"3"]
    monkeypatch.setattr("triack.transport.received.BACKLOG_MAX", 2)
    inbox.offer_burst([b"4", b"5", b"6"], "b")
    assert [received.data for received in await inbox.take()] == [b"4", b"5"]
    assert drops == {DropReason.EMPTY: 1, DropReason.RECEIVE_OVERFLOW: 1}


async def test_an_owner_takes_a_few_in_place_of_the_task_that_waits() -> None:
    """The task hears of more of them, and of what its owner leaves to it; nothing comes twice, or to nobody."""
    inbox, told = Inbox("udp://a:1", Counter()), list[int]()
    inbox.on_arrived = lambda: told.append(inbox.turns.count)
    task = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.offer(b"1", "b")
    assert (told, inbox.take_few()) == ([1], [Received(b"1", "b")])
    await asyncio.sleep(0)
    assert not task.done()
    inbox.offer(b"2", "b")
    inbox.hand_over()
    assert (inbox.take_few(), await task) == (None, [Received(b"2", "b")])
    task = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.offer_burst([b"3"] * (FEW + 1), "b")
    inbox.handle_read()
    assert (inbox.take_few(), len(await task), told) == (None, FEW + 1, [1, 1])


async def test_an_owner_takes_what_was_read_once_for_all_of_it() -> None:
    inbox, taken = Inbox("udp://a:1", Counter()), list[Burst | None]()
    inbox.on_read = lambda: taken.append(inbox.take_few())
    task = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.offer_burst([b"1"], "b")
    inbox.offer_burst([b"2", b"3"], "b")
    assert taken == []
    inbox.handle_read()
    assert taken == [[Received(b"1", "b"), Received(b"2", "b"), Received(b"3", "b")]]
    assert not task.done()
    task.cancel()


async def test_each_connection_in_a_burst_has_its_own_turn() -> None:
    inbox = Inbox("udp://a:1", Counter())
    inbox.source_of = connection_id_of
    burst = [Header(Kind.DATA, connection_id, counter).encode() for counter in range(3) for connection_id in (7, 9)]
    inbox.offer_burst(burst, "b")
    inbox.offer_burst([data for data in burst if connection_id_of(data) == 9], "b")
    taken = await inbox.take()
    assert taken.turns == [(7, 3), (9, 6)]
    assert sorted(received.data for received in taken) == sorted([*burst, *burst[1::2]])


async def test_a_flood_of_one_source_takes_no_room_from_others() -> None:
    """When all is full, its newest datagram makes room for one of theirs; and theirs do not wait for it."""
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("udp://a:1", drops)
    inbox.source_of = lambda data: data[:1]
    for _ in range(BACKLOG_MAX + 10):
        inbox.offer(b"flood", "evil")
    inbox.offer_burst([b"1", b"2"], "b")
    assert drops == {DropReason.RECEIVE_OVERFLOW: 12}
    burst = await inbox.take()
    assert {received.data for received in burst if received.sender == "b"} == {b"1", b"2"}


async def test_a_stream_that_brings_much_makes_nobody_wait_but_itself() -> None:
    """It is not read while much of it waits; others are."""
    inbox = Inbox("tcp://a:1", Counter())
    inbox.source_of = lambda data: data[:1]
    flooding = asyncio.create_task(inbox.offer_all([b"flood"] * BACKLOG_MAX, "evil"))
    await asyncio.sleep(0)
    await inbox.offer_all([b"1"] * 3, "b")
    burst = await inbox.take()
    assert sum(received.sender == "b" for received in burst) == 3
    assert not flooding.done()
    flooding.cancel()


async def test_others_in_the_loop_have_their_turn_before_each_burst() -> None:
    """However much there is: a node that takes burst after burst works through no backlog in one go."""
    inbox, turns = Inbox("memory://a", Counter()), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    inbox.offer_burst([b"x"] * 10 * BURST_MAX, "s")
    beside = asyncio.create_task(other())
    for _ in range(10):
        await inbox.take()
    assert turns >= 10
    beside.cancel()


# Which source's datagrams come next: each source has its turn of processor time, regardless of the others.


def waiting(**counts: int) -> Turns:
    turns = Turns()
    for source, count in counts.items():
        add(turns, source, count)
    return turns


def add(turns: Turns, source: str, count: int, size_bytes: int = 10) -> None:
    turns.add(source, [Received(bytes(size_bytes), source)] * count, count * size_bytes)


def test_a_source_alone_has_the_whole_burst() -> None:
    turns, sent = Turns(), [Received(b"%d" % number, "a") for number in range(BURST_MAX + 1)]
    turns.add("a", sent, sum(len(it.data) for it in sent))
    first, second = turns.take(0), turns.take(0)
    assert [*first, *second] == sent
    assert (first.turns, second.turns) == ([("a", BURST_MAX)], [("a", 1)])
    assert (turns.count, turns.held_bytes) == (0, 0)


def test_everybody_has_a_turn_in_each_burst() -> None:
    """The few of one source come before the many that another one had there first."""
    turns = waiting(many=5_000, few=3)
    burst = turns.take(0)
    assert burst.turns[:2] == [("many", TURN_DATAGRAMS), ("few", 3)]
    assert len(burst) == BURST_MAX


def test_who_has_cost_more_waits_until_the_others_have_had_as_much() -> None:
    """The processor is shared, not the number of datagrams."""
    turns, spent_ns = waiting(dear=5_000, cheap=5_000), {"dear": 0, "cheap": 0}
    for _ in range(200):
        for source, count in turns.take(0).turns:
            cost_ns = count * (200_000 if source == "dear" else 2_000)
            spent_ns[str(source)] += cost_ns
            turns.charge(source, cost_ns)
        add(turns, "cheap", max(0, 5_000 - turns.waiting_of("cheap")[0]))
    assert spent_ns["dear"] <= spent_ns["cheap"] + AHEAD_NS + BURST_MAX * 200_000


def test_a_rest_saves_nothing_up() -> None:
    """A source that comes back begins where the others are, so that it cannot stay ahead of them for long."""
    turns = waiting(busy=50 * BURST_MAX)
    for _ in range(20):
        turns.take(0)
        turns.charge("busy", 10 * MS)
    add(turns, "rested", 1_000)
    for first in ("rested", "busy"):
        assert turns.take(0).turns[0][0] == first
        turns.charge(first, 10 * MS)


def test_a_turn_is_bounded_in_bytes() -> None:
    turns = Turns()
    for source in ("a", "b"):
        add(turns, source, 20, TURN_BYTES)
    assert turns.take(0).turns[:2] == [("a", 1), ("b", 1)]


def test_the_end_of_a_path_comes_last() -> None:
    turns, end = Turns(), Received(b"", "here")
    turns.add("a", [Received(b"1", "here"), Received(b"2", "here")], 2)
    add(turns, "b", 1)
    turns.add_behind(end)
    assert [it for it in turns.take(0) if it.sender == "here"][-1] == end
    turns.add_behind(end)
    assert turns.take(0) == [end]


def test_the_longest_gives_way() -> None:
    turns = waiting(long=10, short=1)
    assert [turns.drop_longest(than=source) for source in ("short", "long")] == [True, False]
    assert (turns.waiting_of("long"), turns.waiting_of("short"), turns.count) == ((9, 90), (1, 10), 10)


def test_sources_that_rest_take_little_room() -> None:
    turns = Turns()
    for number in range(3 * SOURCES_MAX):
        add(turns, str(number), 1)
        turns.take(0)
    assert len(turns) <= SOURCES_MAX + 1


def test_who_is_alone_for_a_moment_has_no_more_than_a_share() -> None:
    """While the process is busy with datagrams of others; when it has nothing else to do, no source waits."""
    turns = waiting(evil=10**6, honest=1, other=1)
    turns.take(0)
    turns.charge("evil", 10 * MS)
    had_ns = 0
    for now_ns in range(MS, 90 * MS, MS):
        for source, count in turns.take(now_ns, busy_ns=MS).turns:
            had_ns += count * MS // 50
            turns.charge(source, count * MS // 50)
    assert had_ns <= 90 * MS // 2
    assert turns.take(90 * MS, busy_ns=0).turns, "nobody wants the processor"
    turns.charge("evil", 10 * MS)
    assert turns.take(1_000 * MS, busy_ns=MS).turns, "the others have gone"
