"""How much may wait at a relay: of all neighbours, of one, and of one stream."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.base.reasons import HoldReason
from triack.ordering.transit import TransitPacket
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.mailboxes.quotas import Account
from triack.queues.node_settings import Limits, Quota
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit import transit_room
from triack.queues.transit.transit_room import TransitRoom

BY_UP: Any = SimpleNamespace(peer_id=b"u" * 16)


def stream(
    number: int = 1, via: str = "up", delivery: Delivery = Delivery.RECOVERABLE, queue: str = "q"
) -> TransitStream:
    return TransitStream(
        number, StreamId(b"o" * 16, number), delivery, 1, queue=queue, final="b", from_name="a", via=via
    )


def packets(count: int, size_bytes: int, via: str = "up") -> list[TransitPacket]:
    return [TransitPacket(at, b"", size_bytes, 1, 0, 0, 0, via, 0) for at in range(1, count + 1)]


def room(*, store_low: bool = False, waiting: Account | None = None, **limits: Any) -> TransitRoom:
    admission = SimpleNamespace(store_low=store_low, waiting=waiting or Account(1_000, 8_000))
    return TransitRoom(Limits(**limits), cast("Any", admission))


@pytest.mark.parametrize("quota", [Quota(messages=100), Quota(size_bytes=10_000)])
def test_a_stream_may_have_as_much_as_is_left_for_others(quota: Quota) -> None:
    """Half of all room at most; another one then half of the rest. It goes on when it has half of its share."""
    found, first, second = room(transit_quota=quota), stream(), stream(2)
    taken = packets(50, 100)
    found.count(first, taken[:49])
    assert found.lacks(first, BY_UP) is None
    found.count(first, taken[49:])
    assert found.lacks(first, BY_UP) is HoldReason.TRANSIT_FULL
    assert found.lacks(second, BY_UP) is None
    found.count(first, taken[:10], -1)
    assert found.lacks(first, BY_UP) is HoldReason.TRANSIT_FULL
    found.count(first, taken[10:30], -1)
    assert found.lacks(first, BY_UP) is None


@pytest.mark.parametrize("quota", [Quota(messages=90), Quota(size_bytes=9_000)])
def test_room_is_scarce_when_a_stream_has_half_of_its_share(quota: Quota) -> None:
    found, some = room(transit_quota=quota), stream()
    taken = packets(30, 100)
    found.count(some, taken[:29])
    assert not found.is_scarce(some)
    found.count(some, taken[29:])
    assert found.is_scarce(some)


def test_a_neighbour_has_a_quota_of_its_own() -> None:
    """Others are not held for its sake."""
    found, busy, other = room(peer_transit_bytes=1_000), stream(), stream(2, "other")
    found.count(busy, packets(10, 100))
    assert (found.lacks(busy, BY_UP), found.lacks(other, BY_UP)) == (HoldReason.TRANSIT_FULL, None)


def test_a_full_relay_takes_what_its_packets_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before all others of an ordered stream; as a neighbour may send them backwards, up to a bound."""
    monkeypatch.setattr(transit_room, "AHEAD_BYTES", 500)
    found = room(transit_quota=Quota(size_bytes=1_000))
    ordered, unordered, empty = stream(1, delivery=Delivery.TRANSACTIONAL), stream(2), stream(3)
    for it in (ordered, unordered):
        it.sequence.add(
            [TransitPacket(7, b"", 500, 1, 0, 0, 0, "up", 0), TransitPacket(5, b"", 1, 1, 0, 0, 0, "up", 0)]
        )
    found.count(ordered, packets(10, 100))
    full = HoldReason.TRANSIT_FULL
    assert [found.lets_ahead(ordered, number, 1, full) for number in (4, 6, 8)] == [True, False, False]
    assert not found.lets_ahead(ordered, 4, 1, HoldReason.STORE_LOW)
    assert not found.lets_ahead(unordered, 4, 1, full)
    assert not found.lets_ahead(empty, 4, 1, full)
    found.count(ordered, packets(5, 100))
    assert not found.lets_ahead(ordered, 4, 1, full)


def test_what_is_refused_looks_at_no_backlog() -> None:
    """Whatever came first, and however many bytes are there: one look at the least number."""
    looks = 0

    class Looked(dict[int, TransitPacket]):
        def __iter__(self) -> Any:
            nonlocal looks
            for number in super().__iter__():
                looks += 1
                yield number

        def __contains__(self, number: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(number)

    found, ordered = room(), stream(delivery=Delivery.TRANSACTIONAL)
    for number in (*range(1_001, 2_001), 1):
        ordered.sequence.add([TransitPacket(number, b"", 1, 1, 0, 0, 0, "up", 0)])
    ordered.sequence.entries = Looked(ordered.sequence.entries)
    assert [found.lets_ahead(ordered, number, 1, HoldReason.TRANSIT_FULL) for number in range(2, 12)] == [False] * 10
    assert looks <= 10


def test_packets_on_the_disk_alone_are_charged_to_the_neighbour_that_brought_them() -> None:
    """At its limit its streams wait, and no other's; up to twice the limit comes what all others wait for."""
    found, busy, other = room(peer_memory_bytes=40_000), stream(delivery=Delivery.TRANSACTIONAL), stream(2, "other")
    run = cast("IncomingRun", SimpleNamespace(body_bytes=500, counts=[5], bodies=[b""]))

    def grow(size_bytes: int) -> None:
        at = busy.sequence.highest
        while busy.away_bytes < size_bytes:
            at += 2
            entries = [TransitPacket(at, b"", 1, 1, 0, 0, 0, "up", at**2 % 7_919 * 2**20)]
            busy.sequence.add(entries)
            busy.sequence.put_away(entries)
            found.charge(busy)

    assert found.takes(busy, BY_UP, run)
    grow(10_000)
    assert (found.lacks(busy, BY_UP), found.lacks(other, BY_UP)) == (HoldReason.TRANSIT_FULL, None)
    assert (found.takes(busy, BY_UP, run), found.takes(other, BY_UP, run)) == (False, True)
    assert found.lets_ahead(busy, 1, 1, HoldReason.TRANSIT_FULL)
    grow(20_000)
    assert not found.lets_ahead(busy, 1, 1, HoldReason.TRANSIT_FULL)


@pytest.mark.parametrize("reason", [HoldReason.TRANSIT_FULL, HoldReason.STORE_LOW])
def test_a_relay_without_room_takes_words_that_may_make_some(reason: HoldReason) -> None:
    """Of the end of a large body or of a subscription, a few at a time; nothing else, and no more than a few."""
    found, words, other = room(store_low=True), stream(queue="$large.q"), stream(2)
    assert found.lets_ahead(words, 1, 200, reason)
    assert found.lets_ahead(stream(3, queue="$subscriptions"), 1, 200, reason)
    assert not found.lets_ahead(words, 1, 60_000, reason)
    assert not found.lets_ahead(other, 1, 200, reason)
    assert not found.lets_ahead(words, 1, 200, HoldReason.STORE_BUSY)
    found.count(words, packets(5, 200))
    assert not found.lets_ahead(words, 6, 200, reason)


def test_what_all_arrivals_share_holds_for_packets_in_transit() -> None:
    """The disk, and the memory of packets that wait for it."""
    assert room(store_low=True).lacks(stream(), BY_UP) is HoldReason.STORE_LOW
    waiting = Account(1_000, 8_000)
    found = room(waiting=waiting)
    waiting.add(BY_UP.peer_id, 1_000)
    assert found.lacks(stream(), BY_UP) is HoldReason.STORE_BUSY


def test_express_packets_fill_memory() -> None:
    """Those under way are taken, up to twice the limit."""
    found, express = room(peer_memory_bytes=16_000), stream(delivery=Delivery.EXPRESS)
    found.count(express, packets(4, 500))
    assert (found.lacks(express, BY_UP), found.is_over(express)) == (HoldReason.PEER_MEMORY, False)
    found.count(express, packets(4, 500))
    assert found.is_over(express)
    assert not found.is_over(stream())


def test_a_run_is_taken_as_a_whole_when_nothing_comes_near_a_limit() -> None:
    """Else its packets are looked at one by one."""
    found = room(transit_quota=Quota(size_bytes=10_000))
    run = cast("IncomingRun", SimpleNamespace(body_bytes=500, counts=[5], bodies=[b""]))
    assert found.takes(stream(), BY_UP, run)
    large = cast("IncomingRun", SimpleNamespace(body_bytes=5_000, counts=[5], bodies=[b""]))
    assert not found.takes(stream(), BY_UP, large)
    many = cast("IncomingRun", SimpleNamespace(body_bytes=5, counts=[10_000_000], bodies=[b""]))
    assert not found.takes(stream(), BY_UP, many)
    assert found.takes(stream(delivery=Delivery.EXPRESS), BY_UP, run)
