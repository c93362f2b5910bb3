"""Dead letters of recoverable messages that ended on their way."""

from collections import Counter

import pytest

from tests.queues.relays import dead, line, post
from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.transit import TransitPacket, TransitState
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import NO_DEAD_LETTER, Outgoing, pack
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_letters import TransitLetters
from triack.session.protocol.settings import SessionSettings

HOUR = 3_600 * SECOND


class Desk:
    """Letters alone, and what they wrote."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.written: list[tuple[Outgoing, int]] = []
        self.letters = TransitLetters(
            lambda letter, _o, ordinal, _t: self.written.append((letter, ordinal)), self.drops
        )
        self.stream = TransitStream(
            1, StreamId(b"o" * 16, 1), Delivery.RECOVERABLE, 1, queue="q", final="b", from_name="a", via="up"
        )
        self.turn = GroupCommit()

    def die(self, *bodies: bytes, sends: int = 1, reason: str = "no-route") -> list[TransitPacket]:
        """Packets with these bodies end."""
        entries = [TransitPacket(at, body, len(body), 1, 0, 0, 0, "up", 0) for at, body in enumerate(bodies, 1)]
        for entry in entries:
            entry.state, entry.sends = TransitState.DEAD, sends
            self.letters.add(self.stream, entry, reason, certain=False)
        return entries

    def write(self) -> list[TransitPacket]:
        return [entry for ended in self.letters.write(self.turn) for entry in ended.entries]


def bodies_of(*messages: bytes | Outgoing, size: int = 1_000) -> list[bytes]:
    return [it.body for it in pack(list(messages), size, 7, 0, None)[0]]


def test_each_message_of_a_packet_is_a_letter_with_its_id() -> None:
    """It says where it was to go, why it ended, and whether it may have arrived."""
    desk = Desk()
    entries = desk.die(*bodies_of(b"1", b"2"))
    assert desk.write() == entries
    assert [(letter.body, ordinal) for letter, ordinal in desk.written] == [(b"1", 7), (b"2", 8)]
    assert desk.written[0][0].properties == {
        "dead_reason": "no-route",
        "dead_destination": "b/q",
        "dead_attempts": 1,
        "dead_maybe_delivered": True,
    }


def test_a_large_message_is_one_letter_when_all_of_it_has_ended() -> None:
    """Whatever the order of its fragments; until then they stay."""
    desk = Desk()
    last, *others = reversed(bodies_of(bytes(3_000)))
    desk.die(last)
    assert desk.write() == []
    desk.die(*others)
    assert len(desk.write()) == 1 + len(others)
    assert [letter.body for letter, _ in desk.written] == [bytes(3_000)]


def test_a_fragment_whose_time_has_run_out_goes_on_if_others_have_left() -> None:
    """They were in time, and the message arrives."""
    desk = Desk()
    entries = desk.die(bodies_of(bytes(3_000))[-1], reason="reach-queue-timeout")
    assert desk.write() == []
    assert [late.entries for late in desk.letters.take_late()] == [entries]
    assert (desk.letters.take_late(), desk.letters.next_deadline()) == ([], None)


def test_a_fragment_that_was_purged_after_others_had_left_is_a_letter_of_its_own() -> None:
    """It says how large the message was, and that its body is the bytes that came."""
    desk = Desk()
    *_, last = bodies_of(bytes(3_000))
    entries = desk.die(last, reason="purged")
    assert (desk.write(), desk.letters.next_deadline()) == (entries, None)
    ((letter, ordinal),) = desk.written
    assert (letter.body, ordinal) == (last, 7)
    assert letter.properties is not None
    assert (letter.properties["dead_reason"], letter.properties["dead_unread"]) == ("purged", 1)
    assert letter.properties["dead_part"] == 3_000 + 4  # the length of its properties, of which it has none


def test_refused_fragments_wait_an_hour_for_the_others() -> None:
    """Each that is refused meanwhile prolongs the wait; what came before and is still sent may be one of them."""
    desk = Desk()
    first, second, *_ = bodies_of(bytes(3_000))
    entries = desk.die(first, reason="access-denied")
    assert desk.write() == []
    desk.turn.now_ns = HOUR - 1
    entries += desk.die(second, reason="access-denied")
    assert (desk.write(), desk.letters.next_deadline()) == ([], 2 * HOUR - 1)
    other = TransitPacket(9, b"", 0, 1, 0, 0, 0, "up", HOUR - 1)
    desk.stream.sequence.add([other])
    desk.turn.now_ns = 2 * HOUR - 1
    assert (desk.write(), desk.letters.next_deadline()) == ([], 3 * HOUR - 1)
    desk.stream.sequence.remove([other])
    desk.turn.now_ns = 3 * HOUR - 1
    assert desk.write() == entries
    assert [letter.body for letter, _ in desk.written] == [first + second]


def test_fragments_of_an_ended_stream_are_a_letter_when_all_of_it_is_refused() -> None:
    """Its destination has taken the others before it forgot the stream; what is here may still complete a message."""
    desk = Desk()
    first, *_, last = bodies_of(bytes(3_000))
    entries = desk.die(first, reason="stale-sequence")
    other = TransitPacket(9, last, len(last), 1, 0, 0, 0, "up", 0)
    desk.stream.sequence.add([other])
    assert desk.write() == []
    other.state = TransitState.DEAD
    assert desk.write() == entries


def test_a_fragment_of_an_ended_stream_is_a_letter_when_the_others_have_reached_the_next_hop() -> None:
    """No packet is given up at that time, and none comes."""
    net = line("arb")
    r = net["r"]
    net.world.cut(r, net["b"])
    post(net["a"], "b", bytes(3_000), delivery=Delivery.RECOVERABLE)
    assert net.world.run(10 * SECOND, lambda: not net["a"].busy)
    (stream,) = r.live.transits.streams
    first, turn = stream.sequence.entries[1], r.live.jobs.turn(net.world.now_ns)
    r.live.transits._give_up(stream, [first], "stale-sequence", turn)  # noqa: SLF001 - as if a refusal had come
    r.drain()
    assert first in stream.sequence.entries.values()
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: net.waiting("r") == 0)
    assert dead(r)[1] == {"stale-sequence": 1}


@pytest.mark.slow
@pytest.mark.gate
def test_a_large_message_that_is_refused_midway_leaves_its_relay() -> None:
    """The destination has taken a part of it, and then takes nothing of its relay any more."""
    net = line("arb", settings={"r": NodeSettings(session=SessionSettings(max_unacked_packet=2))})
    r = net["r"]
    post(net["a"], "b", bytes(100_000), delivery=Delivery.RECOVERABLE)
    assert net.world.run(10 * SECOND, lambda: bool(r.log("transit_freed")))
    net.allow("b", "r", relays_for=())
    net.world.run(HOUR // 2)
    assert net.waiting("r") > 0
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert dead(r)[1] == {"access-denied": 1}


def test_a_body_that_is_on_the_disk_alone_is_asked_for() -> None:
    """Nothing overtakes it."""
    desk = Desk()
    (entry,) = desk.die(*bodies_of(b"1"))
    entry.body, body = None, entry.body
    assert desk.write() == []
    assert list(desk.letters.missing()) == [(desk.stream, entry)]
    entry.body = body
    assert desk.write() == [entry]
    assert not desk.letters.waiting


def test_a_request_leaves_no_letter() -> None:
    """Its caller has waited for it, and gets an error."""
    desk = Desk()
    desk.die(*bodies_of(Outgoing(b"?", {NO_DEAD_LETTER: True})))
    assert len(desk.write()) == 1
    assert (desk.written, desk.drops[DropReason.REQUEST_ENDED]) == ([], 1)


def test_letters_outlive_a_crash_before_their_commit() -> None:
    """The packet is found again, sent, refused, and becomes one letter."""
    net = line("arb")
    net.allow("b", "r", relays_for=())
    post(net["a"], "b", b"1", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: bool(net["r"].log("transit_freed")))
    net["r"].restart()
    assert net.world.run(20 * SECOND, lambda: net["r"].length(DEAD_LETTER_QUEUE) == 1)
    assert not net.waiting()
