"""What has arrived is read by the run, and what belongs to none by itself."""

from triack.base.delivery import Delivery
from triack.ordering.wire import RelayedPacket, SequenceHeader, decode, encode_order_ack, encode_relayed_run
from triack.queues.mailboxes.incoming_run import IncomingRun, read_runs
from triack.queues.packing import Outgoing, pack
from triack.session.protocol.events import PacketArrived, RunArrived

ORIGIN = b"o" * 16
BATCH = pack([b"1", b"22"], 1_000, 7, 5)[0][0].body
RICH = pack([Outgoing(b"1", {"label": "x"})], 1_000, 7, 5)[0][0].body
FRAGMENT = pack([bytes(2_000)], 1_000, 7, 5)[0][0].body


def packet(
    number: int, previous: int, *, stream: int = 1, queue: str = "q", ack_requested: bool = False, body: bytes = BATCH
) -> bytes:
    return SequenceHeader(ORIGIN, stream, 1, number, previous, queue, ack_requested, body).encode()


def read(*contents: bytes, delivery: Delivery = Delivery.TRANSACTIONAL) -> list[tuple[int, int] | int]:
    """Runs as (packet, length), others as their packet; all of them together are what came."""
    found: list[tuple[int, int] | int] = []
    for item in read_runs(RunArrived(11, delivery, list(contents))):
        if isinstance(item, PacketArrived):
            assert (item.content, item.duplicate) == (contents[item.number - 11], False)
            found.append(item.number)
        else:
            headers = [decode(content) for content in contents[item.packet - 11 :][: len(item.bodies)]]
            ack_requested = {header.ack_requested for header in headers if isinstance(header, SequenceHeader)}
            assert item.ack_requested is (True in ack_requested)
            found.append((item.packet, len(item.bodies)))
    return found


def test_packets_that_name_the_one_before_are_one_run() -> None:
    contents = [packet(number, number - 1, ack_requested=number == 5) for number in (4, 5, 6)]
    (run,) = read_runs(RunArrived(11, Delivery.TRANSACTIONAL, contents))
    assert isinstance(run, IncomingRun)
    assert (run.packet, run.header.number, run.last, run.ack_requested) == (11, 4, 6, True)
    assert (run.counts, run.sent_at_ms, run.bodies) == ([2, 2, 2], [5, 5, 5], [BATCH] * 3)
    assert (run.size_bytes, run.body_bytes) == (sum(map(len, contents)), 3 * len(BATCH))
    assert [header.encode() for header in run.headers()] == [packet(at, at - 1, ack_requested=True) for at in (4, 5, 6)]


def test_packets_that_go_by_relays_are_runs_as_well() -> None:
    """Each keeps the time that it has left."""
    first = SequenceHeader(ORIGIN, 1, 1, 4, 3, "q", False, b"")
    packets = [RelayedPacket(at, at - 1, 1, 1_000 * at, False, BATCH) for at in (4, 5, 6)]
    contents = encode_relayed_run(first, "b", "a", packets)
    (run,) = read_runs(RunArrived(11, Delivery.TRANSACTIONAL, [*contents]))
    assert isinstance(run, IncomingRun)
    assert (run.header.number, run.last, run.lefts_ms) == (4, 6, [4_000, 5_000, 6_000])
    assert list(run.headers()) == [decode(content) for content in contents]
    assert read(*contents, packet(7, 6)) == [(11, 3), (14, 1)]


def test_packets_of_other_classes_say_the_same_floor() -> None:
    """Nobody wants what is below it any more."""
    assert read(packet(4, 2), packet(5, 2), delivery=Delivery.RECOVERABLE) == [(11, 2)]
    assert read(packet(4, 2), packet(5, 4), delivery=Delivery.RECOVERABLE) == [(11, 1), (12, 1)]


def test_what_does_not_follow_begins_a_run_of_its_own() -> None:
    """A gap, another stream, another queue, packets before which some were given up."""
    assert read(packet(1, 0), packet(3, 2)) == [(11, 1), (12, 1)]
    assert read(packet(1, 0), packet(2, 1, stream=2)) == [(11, 1), (12, 1)]
    assert read(packet(1, 0), packet(2, 1, queue="r")) == [(11, 1), (12, 1)]
    assert read(packet(4, 3), packet(5, 3)) == [(11, 1), (12, 1)]


def test_what_is_not_plain_comes_by_itself() -> None:
    """Properties, pieces, control packets, and what nobody can read."""
    plain, ack = packet(1, 0), encode_order_ack(ORIGIN, 1, 1, 1)
    for odd in (
        packet(2, 1, body=RICH),
        packet(2, 1, body=FRAGMENT),
        packet(2, 1, body=b"\x01short"),
        ack,
        b"",
        b"\x01",
    ):
        assert read(plain, odd, packet(3, 2)) == [(11, 1), 12, (13, 1)]
