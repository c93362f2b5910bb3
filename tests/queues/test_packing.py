"""Messages in packets: layout, heads of bodies, stages, classes."""

import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triack.base.commit import HEAD_BYTES
from triack.base.errors import ProtocolError, UsageError
from triack.base.reasons import DeadReason, RejectReason
from triack.queues import body_head
from triack.queues.body_head import (
    RICH,
    SEAL_ADDS_BYTES,
    SEALED_BYTES,
    cares_of,
    count_of,
    fragment_range,
    is_sealed,
    mark_opened,
    messages_in,
    move_times,
    ordinal_of,
    priority_of,
    receive_by_of,
    was_sealed,
)
from triack.queues.message_classes import Acks, MessageClass, as_acks, class_at_queue, class_on_the_way
from triack.queues.messages import (
    CARING,
    JOURNAL,
    MAX_BODY_BYTES,
    MAX_PROPERTIES_BYTES,
    USER_PROPERTIES_BYTES,
    Outgoing,
    Passed,
    write_properties,
)
from triack.queues.packing import (
    PIECE_MIN_BYTES,
    PacketBody,
    Unpacked,
    check,
    join_pieces,
    pack,
    pack_one,
    read_batch,
    read_opened,
    split_to_seal,
    topic_of,
    unpack,
    unpack_pieces,
)

NAMES = st.sampled_from(["label", "reply_to", "x", "dead_letter"])
PROPERTIES = st.dictionaries(NAMES, st.text(max_size=30), max_size=3)
ENDS = {"reach_by_ms": st.sampled_from([0, 0, 0, 100, 200]), "receive_by_ms": st.sampled_from([0, 0, 0, 100, 300])}
RICH_ONES = st.builds(Outgoing, st.binary(max_size=900), PROPERTIES, **ENDS)
MESSAGES = st.lists(st.one_of(st.binary(max_size=120), RICH_ONES), max_size=40)


def content_of(message: bytes | Outgoing) -> tuple[bytes, dict[str, Any]]:
    if isinstance(message, bytes):
        return message, {}
    return message.body, message.properties or {}


def unpack_all(packed: list[PacketBody]) -> list[tuple[int, bytes, dict[str, Any]]]:
    """Ordinal, body and properties of every message in a run of packets, fragments put together."""
    found: list[tuple[int, bytes, dict[str, Any]]] = []
    pieces: list[bytes] = []
    for item in packed:
        body = item.body
        if fragment_range(body[:HEAD_BYTES], len(body)) is not None:
            pieces.append(body)
            if not item.messages:
                continue
            body, pieces = join_pieces(pieces), []
        content = unpack(body)
        for index, one in enumerate(content.bodies):
            properties = content.properties[index] if content.properties else {}
            found.append((content.first_ordinal + index, one, properties))
    return found


@pytest.mark.gate
@given(MESSAGES, st.integers(320, 1_200), st.integers(0, 1 << 60))
def test_messages_come_back_as_they_were(messages: list[bytes | Outgoing], limit_bytes: int, ordinal: int) -> None:
    """Bodies, properties and ordinals survive, in order, whatever mixture of batches and fragments they became."""
    packed, next_ordinal = pack(messages, limit_bytes, ordinal, 1_700_000_000_000)
    assert next_ordinal == ordinal + len(messages)
    assert unpack_all(packed) == [(ordinal + index, *content_of(message)) for index, message in enumerate(messages)]


@pytest.mark.gate
@given(MESSAGES, st.integers(320, 1_200))
def test_packets_keep_to_the_limit_and_count_right(messages: list[bytes | Outgoing], limit_bytes: int) -> None:
    """No body is over the limit, and the completed messages add up; the head tells the same as the whole."""
    packed, _ = pack(messages, limit_bytes, 1, 1)
    assert all(len(item.body) <= limit_bytes for item in packed)
    assert sum(item.messages for item in packed) == len(messages)
    assert [messages_in(item.body) for item in packed] == [item.messages for item in packed]
    for item in packed:
        check(item.body)
        assert count_of(item.body[:HEAD_BYTES]) == item.tickets


@pytest.mark.gate
@given(MESSAGES)
def test_messages_with_different_deadlines_never_share_a_packet(messages: list[bytes | Outgoing]) -> None:
    """A packet expires as a whole."""
    packed, _ = pack(messages, 400, 1, 1)
    deadlines = [message.expiry if isinstance(message, Outgoing) else (0, 0) for message in messages]
    at = 0
    for item in packed:
        assert {(item.reach_by_ms, receive_by_of(item.body[:HEAD_BYTES]))} == set(deadlines[at : at + item.tickets])
        at += item.messages


@pytest.mark.gate
@given(MESSAGES)
def test_messages_that_care_share_no_packet_with_others(messages: list[bytes | Outgoing]) -> None:
    """The first byte says which packets a node must look into, fragments included."""
    packed, _ = pack(messages, 400, 1, 1)
    caring = [isinstance(it, Outgoing) and not CARING.isdisjoint(it.properties or {}) for it in messages]
    at = 0
    for item in packed:
        assert {item.cares} == {cares_of(item.body[:HEAD_BYTES])} == set(caring[at : at + item.tickets])
        at += item.messages
        assert not item.cares or read_batch(item.body) is None  # it comes singly, not in a run


@given(st.binary(max_size=200_000), PROPERTIES)
@example(b"x" * 65_535, {"label": "at the edge"})
@example(b"x" * 65_536, {"label": "over the edge"})
@example(b"x", {"label": "\ud800 lone"})
def test_one_message_of_any_size_fits_one_body(body: bytes, properties: dict[str, Any]) -> None:
    """Queues of this node take a message whole."""
    packed = pack_one(Outgoing(body, properties), 7, 9)
    content = unpack(packed)
    assert (content.first_ordinal, content.sent_at_ms, list(content.bodies)) == (7, 9, [body])
    assert (content.properties or [{}]) == [properties]


def few(count: int, *places: int) -> list[bytes | Outgoing]:
    """Messages of which a few have properties of their own."""
    return [Outgoing(b"%d" % at, {"label": str(at)}) if at in places else b"%d" % at for at in range(count)]


@pytest.mark.parametrize("places", [(0,), (7,), (99,), (0, 1, 50, 99), tuple(range(0, 100, 2))])
@pytest.mark.parametrize("limit_bytes", [60, 300, 5_000])
def test_a_few_messages_with_properties_among_many(places: tuple[int, ...], limit_bytes: int) -> None:
    messages = few(100, *places)
    packed, _ = pack(messages, limit_bytes, 1, 9)
    assert all(len(one.body) <= limit_bytes for one in packed)
    found = unpack_all(packed)
    assert found == [(1 + at, *content_of(message)) for at, message in enumerate(messages)]


def test_messages_without_properties_take_no_bytes_for_those_of_others() -> None:
    """One of a hundred belongs to a trace."""
    (plain,), _ = pack(few(100), 5_000, 1, 9)
    (traced,), _ = pack(few(100, 40), 5_000, 1, 9)
    assert len(traced.body) - len(plain.body) == len(write_properties({"label": "40"})) + 3 * 4


def test_properties_that_a_few_neighbours_share_are_there_once() -> None:
    shared = {"label": "x" * 400}
    (packed,), _ = pack([*few(50), *[Outgoing(b"x", shared)] * 3, *few(50)], 2_000, 1, 9)
    assert [properties for _, _, properties in unpack_all([packed])] == [{}] * 50 + [shared] * 3 + [{}] * 50


def rich(*said: tuple[int, int], count: int = 3, text: bytes = b"{}") -> bytes:
    """Messages of one byte, and such properties: of how many messages, and how long they say that they are."""
    shared = b"".join([struct.pack("!HH", *one) + text for one in said])
    return struct.pack("!BHQQQ", RICH, count, 1, 9, 0) + shared + struct.pack("!H", 1) * (count - 1) + b"abc"[:count]


WRONG = [[(4, 2)], [(2, 2), (2, 2)], [(1, 2), (0, 2), (2, 2)], [(1, 2), (1, 2)], [(3, 60)], [(0, 2)], []]


@pytest.mark.parametrize("said", WRONG)
def test_properties_that_are_not_as_they_say_are_refused(said: list[tuple[int, int]]) -> None:
    """Of too many messages, of none, of too few, too long; answers that are cut off."""
    with pytest.raises(ProtocolError, match="bad-body"):
        unpack(rich(*said))
    assert list(unpack(rich((1, 2), (2, 2))).bodies) == [b"a", b"b", b"c"]


def test_largest_message_with_largest_properties_is_readable() -> None:
    """The largest message of a user, with what the dead-letter queue adds, is within the limits of the reader."""
    own = {"label": "\U0001f600" * (USER_PROPERTIES_BYTES // 12 - 10)}
    added = {"dead_reason": "reach-queue-timeout", "dead_destination": "udp://host:1/" + "q" * 124}
    assert len(write_properties(own)) <= USER_PROPERTIES_BYTES
    message = Outgoing(b"x" * MAX_BODY_BYTES, {**own, **added})
    assert list(unpack(pack_one(message, 1, 1)).bodies) == [message.body]
    packed, _ = pack([message], 60_000, 1, 1)
    assert unpack_all(packed) == [(1, message.body, message.properties)]


def readable(body: bytes) -> Unpacked | None:
    """The result of ``unpack`` for a body; anything but a value or ProtocolError fails the test."""
    try:
        check(body)
        return unpack(body)
    except ProtocolError as error:
        if error.reason != "bad-body":
            raise
        return None


EXAMPLES = [
    pack([b"a", b"", b"ccc"], 400, 5, 6)[0][0].body,
    pack([b"a", Outgoing(b"b", {"label": "l"})], 400, 5, 6)[0][0].body,
    pack([b"x" * 500], 400, 5, 6)[0][0].body,
    pack([b"x" * 500], 400, 5, 6)[0][1].body,
    pack_one(Outgoing(b"y" * 70_000, {"label": "l"}), 5, 6),
]


@pytest.mark.parametrize("body", EXAMPLES)
def test_a_body_that_is_cut_off_or_goes_on_differs_in_its_last_message_only(body: bytes) -> None:
    """It is as long as what is left, which a packet, a row, a seal and a large message say by themselves."""
    whole = readable(body)
    for length in {*range(min(len(body), 600)), len(body) - 1}:
        if (found := readable(body[:length])) is not None:
            assert whole is not None
            assert ([*found.bodies[:-1]], found.properties) == ([*whole.bodies[:-1]], whole.properties)
            assert whole.bodies[-1].startswith(found.bodies[-1])
    more = readable(body + b"more")
    assert more is None or (whole is not None and more.bodies[-1] == whole.bodies[-1] + b"more")


@pytest.mark.parametrize("body", EXAMPLES[2:4])
def test_a_piece_is_no_message(body: bytes) -> None:
    check(body)
    for other in (body, body[:-1], body + b"x", body[:HEAD_BYTES]):
        assert readable(other) is None
    with pytest.raises(ProtocolError, match="not a whole message"):
        join_pieces([body])


@pytest.mark.parametrize("body", EXAMPLES)
def test_no_flipped_bit_surprises_the_reader(body: bytes) -> None:
    """Every bit of the head and many others: a value or ``bad-body``."""
    for at in range(min(len(body), 120) * 8):
        flipped = bytearray(body)
        flipped[at // 8] ^= 1 << at % 8
        readable(bytes(flipped))


@given(st.binary(max_size=300))
@example(b"")
@example(b"\x01")
@example(rich((1, 2), count=1, text=b"[]"))
@example(rich((1, 2), count=1, text=b"\xff\xff"))
def test_arbitrary_bytes_never_surprise_the_reader(body: bytes) -> None:
    """Only a value or ``bad-body``; what ``check`` lets pass can be asked for its count and range."""
    readable(body)
    try:
        check(body)
    except ProtocolError:
        return
    assert count_of(body[:HEAD_BYTES]) >= 1
    fragment_range(body[:HEAD_BYTES], len(body))
    messages_in(body)


BAD_TEXTS = ["[" * 50_000, "[" * 16_000, '{"a":' * 3_000, "[1]", '"text"', "{", "9" * 5_000]
TOO_LONG = '{"label":"' + "x" * MAX_PROPERTIES_BYTES + '"}'


@pytest.mark.parametrize("text", [*BAD_TEXTS, TOO_LONG], ids=len)
def test_properties_that_are_no_object_or_over_the_limit_are_refused(text: str) -> None:
    """Nesting without end, other JSON and half of an object are the peer's fault, never an exception of ours."""
    raw = text.encode()
    with pytest.raises(ProtocolError, match="properties over the limit" if text == TOO_LONG else "properties"):
        unpack(rich((1, len(raw) % (1 << 16)), count=1, text=raw))


def piece(total_bytes: int, offset: int, length: int) -> bytes:
    """The piece of a large message at that place."""
    return struct.pack("!BHQQQII", 0, 0, 1, 9, 0, total_bytes, offset) + bytes(length)


LARGEST_BYTES = MAX_BODY_BYTES + MAX_PROPERTIES_BYTES + 4 + 256
BAD_PLACES = [(LARGEST_BYTES + 1, 0, PIECE_MIN_BYTES), (10, 10, 1), (10, 9, 2), (1_000, 0, 1_000)]


def test_a_piece_lies_in_its_message_and_only_the_last_is_small() -> None:
    """So the memory that pieces may claim is bounded: each takes some hundred bytes beside its own."""
    check(piece(LARGEST_BYTES, 0, PIECE_MIN_BYTES))
    check(piece(1_000, 1_000 - 1, 1))
    bad = [*((place, "out of range") for place in BAD_PLACES), ((10, 0, 0), "too short")]
    for place, why in [*bad, ((1_000, 0, PIECE_MIN_BYTES - 1), "too small")]:
        with pytest.raises(ProtocolError, match=why):
            check(piece(*place))


def test_the_priority_is_in_the_first_byte_whatever_the_kind_is() -> None:
    """Batches, batches with properties, large messages, and messages by themselves."""
    large = Outgoing(bytes(2_000), {"label": "x"})
    bodies = [item.body for item in pack([b"x", Outgoing(b"x", {"label": "x"}), large], 500, 1, 1, priority=5)[0]]
    assert {priority_of(body) for body in bodies} == {5}
    whole = join_pieces(bodies[1:])
    for body in (bodies[0], whole, pack_one(Outgoing(b"x", priority=5), 1, 1), move_times(bodies[0], 9)):
        assert (priority_of(body), unpack(body).priority) == (5, 5)


def test_the_other_bits_of_the_first_byte_change_nothing() -> None:
    """They belong to others."""
    (item,) = pack([b"x", b"y"], 500, 1, 1, priority=2)[0]
    marked = bytes([item.body[0] | 0b1000_0000]) + item.body[1:]
    assert unpack(marked) == unpack(item.body)
    assert read_batch(marked) == read_batch(item.body)
    check(marked)


def published(*topics: str, body: bytes = b"x") -> list[bytes]:
    """The packets of messages for topics, by what their names have below the root."""
    packed, _ = pack([Outgoing(body, topic=topic) for topic in topics], 500, 1, 1)
    return [item.body for item in packed]


def test_messages_of_one_packet_have_one_topic() -> None:
    bodies = published("", "", "Cricket", "Cricket", "Cricket.Scores", "")
    found = [(unpack(body).topic, topic_of(body), count_of(body)) for body in bodies]
    names = [("", 2), ("Cricket", 2), ("Cricket.Scores", 1), ("", 1)]
    assert found == [(name, name, count) for name, count in names]
    for body in bodies:
        check(body)


def test_a_large_message_has_its_topic_before_its_first_piece() -> None:
    bodies = published("Cricket", body=b"x" * 2_000)
    assert len(bodies) > 1
    assert [topic_of(body) for body in bodies] == ["Cricket"] + [None] * (len(bodies) - 1)
    whole = unpack(join_pieces(bodies))
    assert (whole.topic, list(whole.bodies)) == ("Cricket", [b"x" * 2_000])


@pytest.mark.parametrize("name", [b"a..b", b"a.", b"a*", b"#", b"\xff", b"a" * 130])
def test_a_body_with_no_name_of_a_topic_is_refused(name: bytes) -> None:
    (body,) = published("Cricket")
    at = body.index(b"\x07Cricket")
    wrong = body[:at] + bytes([len(name)]) + name + body[at + 8 :]
    with pytest.raises(ProtocolError, match="bad-body"):
        check(wrong)


def test_a_transactional_message_with_a_priority_is_refused() -> None:
    """Its sender keeps no order: such messages would pass each other."""
    (item,) = pack([b"x"], 500, 1, 1, priority=5)[0]
    check(item.body)
    with pytest.raises(ProtocolError, match="a transactional message with a priority"):
        check(item.body, may_have_priority=False)


def passed(first: int, count: int, *, publisher: bytes = bytes(16), size_bytes: int = 3) -> list[bytes | Outgoing]:
    """Successive messages of one publisher."""
    body = b"x" * size_bytes
    return [
        Passed(body, None, topic="Games.Chess", publisher=publisher, ordinal=first + at, sent_at_ms=5)
        for at in range(count)
    ]


def test_what_is_passed_on_says_who_published_it_in_each_body() -> None:
    """Also in a body that begins because the one before it was full, and in each large message."""
    other = b"o" * 16
    messages = [*passed(7, 300), *passed(900, 2, publisher=other), *passed(40, 2, size_bytes=5_000)]
    packed, _ = pack(messages, 600, 1, 99)
    batches = [it.body for it in packed if fragment_range(it.body[:HEAD_BYTES], len(it.body)) is None]
    told = [(it.publisher, it.first_ordinal, len(it.bodies), it.sent_at_ms, it.topic) for it in map(unpack, batches)]
    assert sum(count for _, _, count, _, _ in told) == 302
    assert next(first for publisher, first, *_ in told if publisher != other) == 7
    at = 7
    for publisher, first, count, sent_at_ms, topic in told[:-1]:
        assert (publisher, first, sent_at_ms, topic) == (bytes(16), at, 5, "Games.Chess")
        at += count
    assert told[-1] == (other, 900, 2, 5, "Games.Chess")
    pieces = [it.body for it in packed if it.body not in batches]
    whole = unpack_pieces(pieces[: len(pieces) // 2])
    assert (whole.first_ordinal, whole.publisher, list(whole.bodies)) == (40, bytes(16), [b"x" * 5_000])


BATCH, LARGE = (pack([body], 1_000, 1, 50)[0][0].body for body in (b"1", bytes(3_000)))


def seal(body: bytes) -> bytes:
    """A body as if it was sealed, with zeros for what hides it."""
    head, text = split_to_seal(body)
    return head + bytes(SEAL_ADDS_BYTES) + text


def opened(sealed: bytes) -> bytes:
    head, text = sealed[:HEAD_BYTES], sealed[HEAD_BYTES + SEAL_ADDS_BYTES :]
    return read_opened(head, text)


@given(MESSAGES, st.integers(600, 2_000), st.integers(0, 7))
def test_a_sealed_body_shows_how_many_messages_end_in_it_and_nothing_else(
    messages: list[bytes | Outgoing], limit_bytes: int, priority: int
) -> None:
    """It is opened as it was, with a mark; until then nobody reads it."""
    for packet in pack(messages, limit_bytes, 1, 50, None, priority)[0]:
        body, sealed = packet.body, seal(packet.body)
        check(sealed)
        assert (is_sealed(sealed), was_sealed(sealed)) == (True, False)
        assert len(sealed) == len(body) + SEALED_BYTES - (body_head.is_piece(body) and body_head.PLACE.size)
        assert messages_in(sealed) == messages_in(body) == packet.messages
        assert fragment_range(sealed[:HEAD_BYTES], len(sealed)) == fragment_range(body[:HEAD_BYTES], len(body))
        assert (priority_of(sealed), receive_by_of(sealed)) == (priority_of(body), receive_by_of(body))
        assert ordinal_of(sealed) == ordinal_of(body)
        assert not cares_of(sealed)
        assert read_batch(sealed) is None
        with pytest.raises(ProtocolError, match="bad-body"):
            unpack(sealed)
        again = opened(sealed)
        assert again == mark_opened(body)
        assert (is_sealed(again), was_sealed(again), messages_in(again)) == (False, True, packet.messages)


def test_a_large_message_that_came_sealed_says_so() -> None:
    pieces = [packet.body for packet in pack([bytes(3_000)], 1_000, 1, 50)[0]]
    content = unpack(join_pieces([opened(seal(piece)) for piece in pieces]))
    assert (content.sealed, content.bodies[0]) == (True, bytes(3_000))
    assert not unpack(join_pieces(pieces)).sealed


def test_a_mark_that_travels_is_refused() -> None:
    """A sender cannot say that a message came sealed; and what it may show of a sealed one is checked."""
    sealed, piece = seal(BATCH), seal(LARGE)
    for damaged in (
        mark_opened(BATCH),
        mark_opened(LARGE),
        sealed[: HEAD_BYTES + SEAL_ADDS_BYTES],
        bytes([sealed[0] | 0x80]) + sealed[1:],
        bytes([sealed[0] | 0x08]) + sealed[1:],
        sealed[:27] + b"\1" + sealed[28:],
        piece[:27] + bytes(8) + piece[35:],
        piece[:31] + b"\xff" * 4 + piece[35:],
    ):
        with pytest.raises(ProtocolError, match="bad-body"):
            check(damaged)
        assert read_batch(damaged) is None


def test_inside_and_outside_of_a_sealed_body_must_agree() -> None:
    head, text = split_to_seal(BATCH)
    for wrong_head, wrong_text in (
        (head, b""),
        (head, bytes([text[0] | 0x10]) + text[1:]),
        (head, bytes([text[0] | body_head.SEAL]) + text[1:]),
        (head, bytes([text[0] | RICH]) + text[1:]),
        (split_to_seal(LARGE)[0], text),
        (head[:2] + b"\2" + head[3:], text),
    ):
        with pytest.raises(ProtocolError, match="bad-body"):
            read_opened(wrong_head, wrong_text)


# What the first bytes of a body say, of each kind; the bodies are those of ``queues.packing``.


def heads(*messages: Outgoing, limit_bytes: int = 1_000, priority: int = 0) -> list[tuple[bytes, int]]:
    """The first bytes of the bodies of these messages, and the size of each body."""
    packed, _ = pack(list(messages), limit_bytes, 7, 50, None, priority)
    return [(packet.body[:HEAD_BYTES], len(packet.body)) for packet in packed]


def test_the_head_of_a_batch_says_how_many_messages_it_has_and_from_when() -> None:
    ((head, size_bytes),) = heads(Outgoing(b"1", receive_by_ms=90), Outgoing(b"2", receive_by_ms=90), priority=5)
    assert (count_of(head), ordinal_of(head), body_head.sent_at_of(head)) == (2, 7, 50)
    assert (priority_of(head), receive_by_of(head), fragment_range(head, size_bytes)) == (5, 90, None)
    assert (body_head.large_of(head), cares_of(head)) == (0, False)


def test_times_move_and_a_copy_for_a_journal_has_no_consequences() -> None:
    ((head, _),) = heads(Outgoing(b"1", {JOURNAL: True}, receive_by_ms=90))
    moved, kept = move_times(head, 5), body_head.kept_until(head, 1_000)
    assert (body_head.sent_at_of(moved), receive_by_of(moved)) == (55, 95)
    assert (cares_of(head), cares_of(kept), receive_by_of(kept)) == (True, False, 1_000)


# The classes of messages and the flags that ask for them have MSMQ's numbers.


def test_each_class_is_asked_for_by_one_flag() -> None:
    """As the upper bits of its number say."""
    for message_class in MessageClass:
        asked_by = {0x0000: 0, 0x4000: 2, 0x8000: 4, 0xC000: 8}[message_class & 0xC000]
        assert message_class.asked_by == (1 if message_class == 0x0002 else asked_by)
        assert message_class.is_negative == (asked_by > 2)
    assert MessageClass.ACK_REACH_QUEUE.label == "ack-reach-queue"


def test_the_flags_of_dot_net_are_sums() -> None:
    assert Acks.FULL_REACH_QUEUE == Acks.POSITIVE_ARRIVAL | Acks.NOT_ACKNOWLEDGE_REACH_QUEUE
    assert Acks.NOT_ACKNOWLEDGE_RECEIVE == Acks.NOT_ACKNOWLEDGE_REACH_QUEUE | Acks.NEGATIVE_RECEIVE
    assert Acks.FULL_RECEIVE == Acks.NOT_ACKNOWLEDGE_RECEIVE | Acks.POSITIVE_RECEIVE


@pytest.mark.parametrize("value", [-1, 16, True, "5", None])
def test_what_is_no_flag_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"^send to q: acks must be"):
        as_acks("send to q", value)


def test_each_end_of_a_message_has_a_class() -> None:
    """On its way 0x8000 and further, in its queue 0xC000 and further."""
    for reason in (*RejectReason, *DeadReason):
        assert 0x8000 <= class_on_the_way(reason) <= 0x8005
        assert 0xC001 <= class_at_queue(reason) <= 0xC004
    assert class_on_the_way(RejectReason.HOP_COUNT_EXCEEDED) == 0x8005
    assert class_on_the_way(DeadReason.PURGED) == 0x8001
    assert class_at_queue(DeadReason.READER_REFUSED) == 0xC004
    assert class_at_queue(DeadReason.PURGED) == 0xC001
