"""What a relay passes back, and what it keeps of it: order acks, rejections, dead letters, ends."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.queues.relays import Relays, by_relay, dead, line, post
from tests.queues.stories.test_queues import pause
from tests.queues.transit.stories.test_lines import make_sync
from tests.queues.transit.stories.test_sealing import say
from tests.queues.world import numbered
from tests.sure import sure
from triack.base.commit import TransitStreamRow
from triack.base.delivery import DURABLE, Ack, Delivery
from triack.base.names import StreamId
from triack.base.news import NoRoute, TransitOverQuota
from triack.base.reasons import DropReason, FreedReason, HoldReason
from triack.base.units import MS, SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import (
    HOPS_MAX,
    MARK_BYTES,
    OnwardAckPacket,
    RelayedEnd,
    RelayedOrderAck,
    RelayedReject,
)
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.messages import NO_DEAD_LETTER, Outgoing
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.packing import pack
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit import return_routes, transit_ends
from triack.queues.transit.pending_dead_letters import PendingDeadLetters
from triack.queues.transit.return_routes import ReturnRoutes
from triack.queues.transit.transit_room import UNKNOWN_MAX, TransitNews, TransitRoom
from triack.session.protocol.settings import SessionSettings


def backlog(net: Relays) -> TransitStream:
    """Five messages of ``a`` wait at ``r``, which has said so."""
    for body in numbered(0, 5):
        post(net["a"], "b", body)
        net.world.run(100 * MS)
    assert net.world.run(30 * SECOND, lambda: bool(net["a"].log("onward_received")))
    (stream,) = net["r"].live.transits.streams
    return stream


@pytest.mark.gate
def test_an_order_ack_that_is_lost_comes_again_with_the_next_session() -> None:
    """And not only after the resend tier of the origin, half a minute later."""
    net, a, r, _ = by_relay()
    post(a, "b", b"1")
    assert net.world.run(5 * SECOND, lambda: bool(r.log("transit_committed")))
    net.world.cut(a, r)
    assert net.world.run(8 * SECOND, lambda: bool(r.log("control_relayed")))
    net.world.run(4 * SECOND)
    assert a.busy
    net.world.heal()
    before = net.world.now_ns
    assert net.world.run(20 * SECOND, lambda: not a.busy)
    assert net.world.now_ns - before < 15 * SECOND


def test_nobody_but_the_next_hop_speaks_about_a_stream() -> None:
    net = Relays("ar rb rc", {"a": [("b", "r")]})
    a, r, c = (net[name] for name in "arc")
    net.world.cut(r, net["b"])
    post(a, "b", *numbered(0, 5))
    c.send(r, "q", b"1")
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") > 0 and not c.busy)
    origin = a.live.node_id
    say(c, "r", RelayedOrderAck(origin, 1, 1, 1, 0, c.live.node_id))
    say(c, "r", RelayedReject(origin, 1, 1, 1, "no-route", 0, c.live.node_id))
    net.world.run(2 * SECOND)
    assert r.live.drops[DropReason.NOT_OUR_PACKET] > 0
    assert a.busy
    assert net.waiting("r") > 0


def test_a_rejection_without_a_session_waits_for_one() -> None:
    """The origin hears of it as soon as it is back, and not only when its tier runs out."""
    net, a, r, _ = by_relay()
    net.allow("b", "r", relays_for=())
    net.world.cut(r, net["b"])
    post(a, "b", b"1")
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 1)
    net.world.cut(a, r)
    for conversation in list(r.live.handshakes.index.with_node(a.live.node_id)):
        r.live.handle_path_lost(conversation.path, net.world.now_ns)
    net.world.heal()
    net.world.cut(a, r)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") == 0)
    net.world.heal()
    assert net.world.run(20 * SECOND, lambda: not a.busy)
    assert dead(a) == ([b"1"], {"access-denied": 1})


def test_a_relay_that_lacks_a_packet_does_not_say_that_the_others_wait() -> None:
    """Its destination has given that back, as one before it is missing: the origin has to close the gap."""
    net, a, r, b = by_relay()
    net.world.cut(r, b)
    stream, transits = backlog(net), r.live.transits
    lowest = stream.sequence.entries[1]
    turn = r.live.jobs.turn(net.world.now_ns)
    r.act(lambda: transits._let_go(stream, [lowest], FreedReason.LET_GO, turn))  # noqa: SLF001
    net.world.run(25 * SECOND)
    assert [word["waits"] for word in a.log("onward_received")] == [True, False]
    net.world.heal()
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 5)
    assert b.read_all("q") == numbered(0, 5)


def test_a_relay_that_has_no_room_for_a_packet_does_not_say_that_those_behind_it_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its origin would not send that one again, and the others would wait for it."""
    net, a, r, b = by_relay()
    net.world.cut(r, b)
    stream, transits = backlog(net), r.live.transits
    lowest = stream.sequence.entries[1]
    r.act(lambda: transits._forget_entries(stream, [lowest], net.world.now_ns))  # noqa: SLF001 - as if it had not come
    monkeypatch.setattr(TransitRoom, "lacks", lambda *_: HoldReason.TRANSIT_FULL)
    monkeypatch.setattr(TransitRoom, "lets_ahead", lambda *_: False)
    a.crash()
    a.restart()
    net.world.run(25 * SECOND)
    assert [word["waits"] for word in a.log("onward_received")][-2:] == [True, False]
    monkeypatch.undo()
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 5)
    assert b.read_all("q") == numbered(0, 5)


def test_a_relay_behind_which_a_packet_is_missing_does_not_say_that_the_others_wait() -> None:
    """It had died before it passed on that the packet was refused; the destination asks for it again and again."""
    net, a, r, b = by_relay()
    post(a, "b", b"opens")
    assert net.world.run(10 * SECOND, lambda: net.is_done("a"))
    r.act(lambda: pause(r, "b/"))
    stream, transits = backlog(net), r.live.transits
    refused = stream.sequence.entries[2]
    r.act(lambda: transits._forget_entries(stream, [refused], net.world.now_ns))  # noqa: SLF001 - as after such a death
    post(b, "r", b"has a session")
    for _ in range(3):
        assert [word["waits"] for word in a.log("onward_received")] == [True]
        say(b, "r", RelayedOrderAck(*stream.id, 1, 1, 0, b.live.node_id))
    assert [word["waits"] for word in a.log("onward_received")] == [True, False]
    assert net.world.run(60 * SECOND, lambda: [word["waits"] for word in a.log("onward_received")][2:] == [True])
    assert min(stream.sequence.entries) == 2


ID = StreamId(b"o" * 16, 1)


def routes() -> ReturnRoutes:
    return ReturnRoutes(b"r" * 16, lambda _: None, StreamRecords(lambda *_, **__: None), Counter[DropReason]())


def test_words_go_back_to_the_neighbour_that_has_brought_the_stream_last() -> None:
    """That is the way which its origin uses now."""
    ways = routes()
    ways.note(ID, "near", "down")
    ways.note(ID, "far", "down")
    ways.note(ID, "near", "down-2")
    back = sure(ways.backs.get(ID))
    assert (list(back.upstreams), list(back.downstreams)) == (["far", "near"], ["down", "down-2"])
    ways.note(StreamId(ID.origin, 2), "near", "down")
    assert ways.brought_by("near") == [ID, StreamId(ID.origin, 2)]
    assert ways.brought_by("down") == []


def rejection(number: int, stream: StreamId = ID) -> RelayedReject:
    return RelayedReject(*stream, 1, number, "no-route", 0, b"d" * 16)


def test_rejections_wait_for_a_session() -> None:
    ways = routes()
    assert not ways.keep(rejection(5), "down")
    ways.note(ID, "up", "down")
    assert not sure(ways.backs.get(ID)).has_words
    for number in (5, 6, 5):
        assert ways.keep(rejection(number), "down")
    back = sure(ways.backs.get(ID))
    assert back.has_words
    assert ways.take_rejections(back) == [(rejection(number), "down") for number in (6, 5)]
    assert (ways.take_rejections(back), back.has_words) == ([], False)


def test_a_neighbour_that_rejects_drives_out_its_own_rejections(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all streams together, and none that another neighbour has sent."""
    monkeypatch.setattr(return_routes, "REJECTIONS_MAX", 10)
    ways = routes()
    streams = [StreamId(ID.origin, number) for number in range(1, 101)]
    for stream in streams:
        ways.note(stream, "up", "down")
    ways.keep(rejection(1, streams[0]), "honest")
    for number in range(2, 300):
        ways.keep(rejection(number, streams[number % 100]), "evil")
    kept = [it for back in map(ways.backs.get, streams) if back is not None for it in back.rejected.values()]
    assert [packet.number for packet, by in kept if by == "honest"] == [1]
    assert sorted(packet.number for packet, by in kept if by == "evil") == list(range(290, 300))


def test_the_stream_that_has_not_passed_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rejections as well: then others have their places."""
    monkeypatch.setattr(return_routes, "STREAMS_MAX", 2)
    monkeypatch.setattr(return_routes, "REJECTIONS_MAX", 2)
    ways, streams = routes(), [StreamId(ID.origin, number) for number in (1, 2, 3)]
    for at in (0, 1, 0):
        ways.note(streams[at], "up", "down")
    for number in (1, 2):
        ways.keep(rejection(number, streams[1]), "down")
    ways.note(streams[2], "up", "down")
    assert [ways.backs.get(stream) is None for stream in streams] == [False, True, False]
    for number in (1, 2):
        ways.keep(rejection(number, streams[2]), "down")
    assert list(sure(ways.backs.get(streams[2])).rejected) == [1, 2]


def test_a_neighbour_drives_out_nothing_that_another_one_has_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams it invents, and also when it claims the other one's as well."""
    monkeypatch.setattr(return_routes, "STREAMS_MAX", 2)
    ways = routes()
    ways.note(ID, "honest", "down")
    for number in range(1, 100):
        ways.note(StreamId(b"e" * 16, number), "evil", "down")
        ways.note(ID, "evil", "down")
        ways.note(StreamId(b"f" * 16, number), "evil", "down")
    back = sure(ways.backs.get(ID))
    assert "honest" in back.upstreams
    assert len(ways.brought_by("evil")) == 2
    assert sum(ways.backs.get(StreamId(b"e" * 16, number)) is not None for number in range(100)) <= 2


# Dead letters of recoverable messages that ended on their way.

HOUR = 3_600 * SECOND


class Desk:
    """Letters alone, and what they wrote."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.written: list[tuple[Outgoing, int]] = []
        self.letters = PendingDeadLetters(
            lambda letter, _o, ordinal, _t: self.written.append((letter, ordinal)), self.drops
        )
        row = TransitStreamRow(1, b"o" * 16, 1, Delivery.RECOVERABLE, 1, "q", "b", "a", "up", 0, 0)
        self.stream = TransitStream(row)
        self.turn = GroupCommit()

    def die(self, *bodies: bytes, sends: int = 1, reason: str = "no-route") -> list[TransitPacket]:
        """Packets with these bodies end."""
        entries = [TransitPacket(at, body, len(body), 1, 0, 0) for at, body in enumerate(bodies, 1)]
        for entry in entries:
            entry.state, entry.sends = StreamPacketState.GIVEN_UP, sends
            self.letters.add(self.stream, entry, reason, certain=False)
        return entries

    def write(self) -> list[TransitPacket]:
        return [entry for ended in self.letters.write(self.turn) for entry in ended.entries]


def bodies_of(*messages: bytes | Outgoing, size: int = 1_000) -> list[bytes]:
    return [it.body for it in pack(list(messages), size, 7, 0, None)[0]]


def test_each_message_of_a_packet_is_a_letter_with_its_id() -> None:
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
    assert letter.properties["dead_part"] == 3_000


def test_refused_fragments_wait_an_hour_for_the_others() -> None:
    """Each that is refused meanwhile prolongs the wait; what came before and is still sent may be one of them."""
    desk = Desk()
    first, second, *_ = bodies_of(bytes(3_000))
    entries = desk.die(first, reason="access-denied")
    assert desk.write() == []
    desk.turn.now_ns = HOUR - 1
    entries += desk.die(second, reason="access-denied")
    assert (desk.write(), desk.letters.next_deadline()) == ([], 2 * HOUR - 1)
    other = TransitPacket(9, b"", 0, 1, 0, HOUR - 1)
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
    other = TransitPacket(9, last, len(last), 1, 0, 0)
    desk.stream.sequence.add([other])
    assert desk.write() == []
    other.state = StreamPacketState.GIVEN_UP
    assert desk.write() == entries


def test_a_fragment_of_an_ended_stream_is_a_letter_when_the_others_have_reached_the_next_hop() -> None:
    """No packet is given up at that time, and none comes."""
    net, _, r, _ = by_relay()
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


@pytest.mark.gate
def test_a_large_message_that_is_refused_midway_leaves_its_relay() -> None:
    net, _, r, _ = by_relay(settings={"r": NodeSettings(session=SessionSettings(max_unacked_packet=2))})
    post(net["a"], "b", bytes(100_000), delivery=Delivery.RECOVERABLE)
    assert net.world.run(10 * SECOND, lambda: bool(r.log("transit_freed")))
    net.allow("b", "r", relays_for=())
    net.world.run(HOUR // 2)
    assert net.waiting("r") > 0
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert dead(r)[1] == {"access-denied": 1}


def test_a_body_that_is_on_the_disk_alone_is_asked_for() -> None:
    """A request leaves no letter: its caller has waited for it, and gets an error."""
    desk = Desk()
    (entry,) = desk.die(*bodies_of(Outgoing(b"?", {NO_DEAD_LETTER: True})))
    entry.body, body = None, entry.body
    assert desk.write() == []
    assert list(desk.letters.missing()) == [(desk.stream, entry)]
    entry.body = body
    assert desk.write() == [entry]
    assert not desk.letters.waiting
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


# END at a relay: who may bring it, where it goes, and what is counted; ``stories.test_ends`` has whole courses.


def joined() -> Relays:
    """A line whose sessions are open."""
    net = line("arb")
    post(net["a"], "b", b"x")
    post(net["b"], "a", b"x")
    assert net.world.run(30 * SECOND, lambda: net.is_done("a", "b"))
    return net


def end_of(net: Relays, name: str, final: str = "b", stream: int = 77) -> RelayedEnd:
    origin = net[name].live.node_id
    return RelayedEnd(origin, stream, 1_000, 1_000, False, 0, b"", origin, final)


def passed(net: Relays, kind: str) -> list[int]:
    return [it["stream"] for it in net["r"].log("control_relayed") if it["kind"] == kind]


def test_it_passes_and_its_answer_comes_back() -> None:
    """It goes neither back nor round for good, and only the next hop may answer."""
    net = joined()
    for end in (end_of(net, "a", final="a"), end_of(net, "a", final="nobody"), end_of(net, "a")):
        say(net["a"], "r", replace(end, trace=bytes(MARK_BYTES * HOPS_MAX) if end.final == "b" else b""))
    say(net["a"], "r", replace(end_of(net, "b"), answer=True))
    drops = net["r"].live.drops
    assert (drops[DropReason.END_ASTRAY], drops[DropReason.NOT_OUR_PACKET]) == (3, 1)
    assert passed(net, "end") == passed(net, "forgotten") == []
    say(net["a"], "r", end_of(net, "a"))
    assert passed(net, "end") == passed(net, "forgotten") == [77]
    assert net["b"].live.inbox.ends.ended.knows(net["a"].live.node_id)


def test_nobody_may_end_the_streams_of_others() -> None:
    net = joined()
    net.allow("r", "a", relays_for=())
    say(net["a"], "r", end_of(net, "b", final="b"))
    assert net["r"].live.drops[DropReason.END_ASTRAY] + net["r"].live.drops[DropReason.FOREIGN_ORIGIN] == 1
    net.allow("r", "a", may_relay=())
    say(net["a"], "r", end_of(net, "a"))
    assert net["r"].live.drops[DropReason.END_ASTRAY] >= 1
    net.allow("r", "a")
    net.allow("b", "r", relays_for=())
    say(net["a"], "r", end_of(net, "a", stream=78))
    assert net["b"].live.drops[DropReason.END_ASTRAY] == 1
    assert not net["b"].live.inbox.ends.ended.knows(net["a"].live.node_id)


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("older", [0, 1])
def test_packets_whose_origin_answers_for_them_no_longer_go_with_the_end(delivery: Delivery, older: int) -> None:
    """Transactional ones have arrived, or are dead letters there: a gap before them is closed by nobody."""
    net = joined()
    net.world.cut(net["r"], net["b"])
    post(net["a"], "b", b"1", queue="other", delivery=delivery)
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    (stream,) = [it for it in net["r"].live.transits.streams if it.sequence.entries]
    sequence = stream.sequence.sequence - older
    say(net["a"], "r", replace(end_of(net, "a", stream=stream.id.number), sequence=sequence, since=sequence))
    assert not net["r"].live.drops[DropReason.BAD_PACKET]
    goes = delivery is Delivery.TRANSACTIONAL and not older
    assert [it["reason"] for it in net["r"].log("transit_freed")].count("stale-sequence") == goes
    assert net.waiting("r") == 1 - goes
    net["r"].crash()
    net["r"].restart()
    assert net.waiting("r") == 1 - goes


def test_a_neighbour_drives_out_no_end_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may say of any number of streams that they have ended; the answer still finds its way to the other one."""
    monkeypatch.setattr(transit_ends, "STREAMS_MAX", 3)
    monkeypatch.setattr(return_routes, "STREAMS_MAX", 3)
    net = Relays("ar er rb", {"a": [("b", "r")], "e": [("b", "r")], "b": [("a", "r"), ("e", "r")]})
    for name in "ae":
        post(net[name], "b", b"x")
    post(net["b"], "a", b"x")
    assert net.world.run(30 * SECOND, lambda: net.is_done("a", "b", "e"))
    net["b"].end()
    say(net["a"], "r", end_of(net, "a"))
    for number in range(20):
        say(net["e"], "r", end_of(net, "e", stream=100 + number))
    assert len(net["r"].live.transits.ends.unanswered) <= 2 * 3
    net["b"].start()
    post(net["a"], "b", b"y")
    net.world.run(60 * SECOND)
    assert 77 in passed(net, "forgotten")


def test_a_destination_without_a_route_is_told_once() -> None:
    net = Relays("ar", {"a": [("*", "r")]})
    a, r = net["a"], net["r"]
    for _ in range(2):
        post(a, "x", b"1", b"2")
        assert net.world.run(5 * SECOND, lambda: not a.busy)
    assert [it for it in r.news if isinstance(it, NoRoute)] == [NoRoute("x", "a")]
    net.reroute("r", ("y", "a"))
    post(a, "x", b"3")
    assert net.world.run(5 * SECOND, lambda: not a.busy)
    assert [it for it in r.news if isinstance(it, NoRoute)] == [NoRoute("x", "a")] * 2


def test_names_that_are_made_up_fill_no_memory() -> None:
    news = TransitNews()
    for number in range(2 * UNKNOWN_MAX):
        news.handle_no_route(f"n{number}", "a")
    assert len(news.news) == UNKNOWN_MAX


@pytest.mark.gate
def test_a_full_quota_is_told_once_until_all_has_left() -> None:
    small = NodeSettings(limits=replace(Limits(), transit_quota=Quota(messages=20)))
    net, a, r, b = by_relay(settings={"r": small})
    for _ in range(2):
        b.crash()
        r.news.clear()
        for body in numbered(0, 30):
            for queue in ("p", "q"):
                post(a, "b", body, queue=queue, delivery=Delivery.RECOVERABLE)
            net.world.run(SECOND // 100)
        net.world.run(20 * SECOND)
        (told,) = [it for it in r.news if isinstance(it, TransitOverQuota)]
        assert told.came_by == "a"
        assert told.messages
        assert told.bytes == told.all_bytes > 0
        b.start()
        assert net.world.run(200 * SECOND, lambda: net.is_done("a"))
        net.world.run(5 * SECOND)


# Streams in transit whose links are synchronous: what a change of mode does with what is here.


def test_routes_make_a_link_synchronous_and_asynchronous_again() -> None:
    net = line("arsb")
    r = net["r"]
    net["b"].crash()
    make_sync(net, "r")
    post(net["a"], "b", *numbered(0, 5), delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.waiting("s") == 1)
    net.world.run(SECOND)
    (stream,) = r.live.transits.streams
    assert (stream.sequence.freed_by, net.waiting("r")) == (Ack.ONWARD, 1)
    r.routes = tuple(replace(it, link="async", downgrade_after_s=None) for it in r.routes)
    r.act(lambda: r.live.set_routes(r.routes, net.world.now_ns))
    assert net.world.run(5 * SECOND, lambda: not net.waiting("r"))
    assert stream.sequence.freed_by is Ack.STORE
    net["b"].start()
    assert net.world.run(30 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == numbered(0, 5)


def test_transactional_packets_leave_a_relay_with_the_store_ack() -> None:
    """Their origin has them in any case; it hears that they were passed on when they were."""
    net = line("arsb")
    make_sync(net, "a", "r", interval_s=0.1)
    net["b"].crash()
    post(net["a"], "b", *numbered(0, 5))
    assert net.world.run(5 * SECOND, lambda: net.waiting("s") == 1 and not net.waiting("r"))
    net.world.run(2 * SECOND)
    assert net["a"].log("onward_ack_received") == []
    net["b"].start()
    assert net.world.run(30 * SECOND, lambda: bool(net["a"].log("onward_ack_received")))


def test_a_word_about_what_nobody_awaits_goes_no_further() -> None:
    """In a circle of relays it would go round without end."""
    net = line("arsb")
    make_sync(net, "a", "r", interval_s=0.1)
    post(net["a"], "b", b"m")
    assert net.world.run(10 * SECOND, lambda: bool(net["r"].log("onward_ack_sent")))
    r = net["r"].live
    (stream,) = r.transits.streams
    conversation = sure(r.outbox.links["s"].conversation)
    again = OnwardAckPacket(*stream.id, stream.sequence.sequence, 99, False, [(1, 1)])
    net["r"].act(lambda: r.transits.handle_onward_ack(conversation, again, r.jobs.turn(net.world.now_ns)))
    net.world.run(SECOND)
    assert len(net["r"].log("onward_ack_received")) == 2
    assert len(net["r"].log("onward_ack_sent")) == 1


def hear(net: Relays, name: str, number: int) -> None:
    """A node hears from the next hop that a packet was passed on."""
    node = net[name].live
    (stream,) = node.transits.streams
    conversation = sure(node.outbox.links[stream.way.via if stream.way else ""].conversation)
    word = OnwardAckPacket(*stream.id, stream.sequence.sequence, 99, False, [(number, number)])
    turn = node.jobs.turn(net.world.now_ns)
    net[name].act(lambda: node.transits.handle_onward_ack(conversation, word, turn))


def opened() -> Relays:
    """Four nodes in a line, with a message that ``s`` may have, and cannot acknowledge to ``r``."""
    net = line("arsb")
    make_sync(net, "a", "r", interval_s=0.1)
    post(net["a"], "b", b"opens", delivery=Delivery.RECOVERABLE)
    assert net.world.run(10 * SECOND, lambda: net.is_done("a"))
    net.world.cut(net["s"], net["r"], both=False)
    post(net["a"], "b", b"m", delivery=Delivery.RECOVERABLE)
    assert net.world.run(SECOND, lambda: len(net["r"].log("transit_committed")) == 2)
    return net


def test_a_packet_that_a_word_does_not_free_is_awaited_as_before() -> None:
    """In a circle of relays the word is about another copy. Were it not awaited, its link would stay synchronous."""
    net = opened()
    hear(net, "r", 2)
    assert net.world.run(15 * SECOND, lambda: bool(net["r"].log("link_downgraded")))
    assert net.waiting("r") == 1


@pytest.mark.gate
def test_a_packet_is_awaited_no_longer_when_its_store_ack_comes_after_the_word() -> None:
    """No other word follows; and the neighbour hears of it then."""
    net = opened()
    hear(net, "r", 2)
    net.world.run(SECOND)
    assert net["r"].log("onward_ack_sent")[-1]["ranges"] == [[1, 1]]
    net.world.heal()
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    assert net["r"].log("onward_ack_sent")[-1]["ranges"] == [[2, 2]]
    net.world.run(10 * SECOND)
    assert net["r"].log("link_downgraded") == []


def test_a_record_names_the_session_that_has_carried_what_is_freed() -> None:
    """When both ends have called, the word about it may come by another session."""
    net = line("arsb")
    net["b"].crash()
    make_sync(net, "r")
    post(net["a"], "b", b"m", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.waiting("s") == 1)
    net.world.run(SECOND)
    r = net["r"].live
    (stream,) = r.transits.streams
    carrier = r.outbox.links["s"].conversation
    assert carrier is not None
    other = replace(carrier)
    other.label = "other"
    word = OnwardAckPacket(*stream.id, stream.sequence.sequence, 99, True, [])
    net["r"].act(lambda: r.transits.handle_onward_ack(other, word, r.jobs.turn(net.world.now_ns)))
    (freed,) = net["r"].log("transit_freed")
    assert (freed["reason"], freed["session"]) == ("store-ack", carrier.label)
