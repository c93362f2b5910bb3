"""Counts and durations for monitoring, and acknowledgements for applications."""

from typing import Any

import pytest

from tests.sure import sure
from triack.base.units import MS, SECOND
from triack.queues.ack_latency import AckLatency
from triack.queues.admin_acks import Told, ack_of, answers_to, class_in, class_of, request_of, wanted_by, write_request
from triack.queues.histogram import Histogram
from triack.queues.message_classes import Acks, MessageClass
from triack.queues.messages import Outgoing, Properties
from triack.queues.packing import Unpacked, pack, unpack_pieces

# One packet of each stream is measured at a time, and a stream that does not move is known.


def test_one_packet_is_measured_and_then_the_next_that_starts() -> None:
    """One that is not freed yet is not counted."""
    seen = AckLatency()
    seen.handle_started("s", 1, 1 * SECOND)
    seen.handle_started("s", 2, 2 * SECOND)
    for seconds, waiting, counted in ((3, {1: 0, 2: 0}, (0, 0)), (4, {2: 0}, (1, 3)), (5, {}, (1, 3))):
        seen.handle_freed("s", waiting, seconds * SECOND, busy=bool(waiting))
        assert (sum(seen.durations.counts), seen.durations.sum_ns // SECOND) == counted
    seen.handle_started("s", 3, 6 * SECOND)
    seen.handle_freed("s", {}, 7 * SECOND, busy=False)
    assert (sum(seen.durations.counts), seen.durations.sum_ns) == (2, 4 * SECOND)


def test_a_stream_has_stalled_since_it_moved_last() -> None:
    """Or since it began to wait; one that was in the store, since its first packet was sent, whatever is sent then."""
    seen = AckLatency()
    seen.handle_restored("restored", SECOND)
    seen.handle_started("restored", 9, 3 * SECOND)
    seen.handle_started("s", 1, 2 * SECOND)
    for name, seconds in (("restored", 4), ("s", 5)):
        assert seen.stalled_ns(name, seconds * SECOND) == 3 * SECOND
        seen.handle_freed(name, {9: 0}, (seconds - 1) * SECOND, busy=True)
        assert seen.stalled_ns(name, seconds * SECOND) == SECOND


def test_nothing_is_kept_of_streams_with_nothing_to_send() -> None:
    seen = AckLatency()
    for name in ("freed", "forgotten"):
        seen.handle_started(name, 1, 0)
    seen.handle_freed("freed", {}, 1, busy=False)
    seen.forget("forgotten")
    seen.handle_freed("unknown", {}, 1, busy=False)
    assert seen._streams == {}  # noqa: SLF001 - nothing else shows it


def test_each_duration_is_in_the_first_bucket_that_takes_it() -> None:
    """A bound belongs to its bucket, as Prometheus has it (le)."""
    seen = Histogram((0.001, 0.01))
    for duration_ns, times in ((0, 1), (MS, 1), (MS + 1, 2), (10 * MS, 1), (SECOND, 3), (-5, 1)):
        seen.observe(duration_ns, times)
    assert seen.counts == [3, 3, 3]
    assert seen.sum_ns == MS + 2 * (MS + 1) + 10 * MS + 3 * SECOND


# Which messages ask for administration messages, and what these say.

ASKS = {"admin": write_request("acks", Acks.FULL_RECEIVE), "label": "l"}


def told(message_class: MessageClass, *properties: Properties, indices: list[int] | None = None) -> Told:
    bodies = [b"%d" % index for index in range(len(properties))]
    content = Unpacked(100, 0, 0, bodies, list(properties))
    wanted = range(len(bodies)) if indices is None else indices
    return Told(b"o" * 16, 1, 2, 3, 2, "b/q", content, wanted, message_class)


NO_REQUESTS = ["acks", {"queue": 5, "acks": 1}, {"queue": "acks", "acks": True}, {"queue": "acks"}]
ANSWER = {"admin": {"queue": "acks", "acks": 1}, "class": 2}


@pytest.mark.parametrize("properties", [{}, *({"admin": said} for said in NO_REQUESTS), ANSWER])
def test_what_is_no_request_asks_for_nothing(properties: Any) -> None:
    """Nor is a message that is an answer itself ever answered."""
    assert request_of(properties) is None


def test_only_those_that_asked_for_it_are_answered() -> None:
    other = {"admin": write_request("others", Acks.POSITIVE_RECEIVE)}
    received = told(MessageClass.ACK_RECEIVE, ASKS, {}, other, ASKS, indices=[0, 1, 2])
    assert wanted_by(received) == {"acks": [0], "others": [2]}
    assert wanted_by(told(MessageClass.ACK_REACH_QUEUE, ASKS, other)) == {}


def test_a_negative_answer_has_the_body_of_its_message() -> None:
    answer = ack_of(told(MessageClass.RECEIVE_TIMEOUT, ASKS, ASKS), 1)
    about = {"correlation_id": f"{(b'o' * 16).hex()}-101", "reply_to": "b/q", "label": "l"}
    assert (answer.body, answer.properties) == (b"1", {"class": 0xC002, **about})


@pytest.mark.parametrize("message_class", [MessageClass.ACK_RECEIVE, MessageClass.RECEIVE_REJECTED])
@pytest.mark.parametrize("limit_bytes", [400, 1_000])
def test_answers_for_many_say_what_each_alone_would(message_class: MessageClass, limit_bytes: int) -> None:
    """Whatever form they take on the way, and however few bytes a packet has."""
    ones: list[Properties] = [ASKS, ASKS, {**ASKS, "label": "x" * 350}, {}, ASKS, {**ASKS, "label": 5}]
    about, indices = told(message_class, *ones), [0, 1, 2, 4, 5]
    packed, _ = pack(answers_to(about, indices), limit_bytes, 7, 9)
    found: list[tuple[bytes, Properties]] = []
    pieces: list[bytes] = []
    at = 7
    for item in packed:
        pieces.append(item.body)
        if not item.messages:
            continue
        content, pieces = unpack_pieces(pieces), []
        assert content.first_ordinal == at
        assert {class_in(content.properties, index) for index in range(item.messages)} == {message_class}
        found += zip(content.bodies, sure(content.properties), strict=True)
        at += item.messages
    alone = [ack_of(about, index) for index in indices]
    assert found == [(it.body, it.properties) for it in alone]


def test_answers_of_one_packet_share_one() -> None:
    packed, _ = pack(answers_to(told(MessageClass.ACK_REACH_QUEUE, *[ASKS] * 50), list(range(50))), 1_000, 1, 1)
    assert [item.messages for item in packed] == [50]
    assert len(packed[0].body) < 120 + 2 * 50


@pytest.mark.parametrize("number", [7, 0x4001, "2", None, 2.0])
def test_an_unknown_class_is_none(number: object) -> None:
    assert class_of({"class": number}) is MessageClass.NORMAL
    assert class_of({"class": 0x4000}) is MessageClass.ACK_RECEIVE
    assert class_in(None, 0) is MessageClass.NORMAL
    assert Outgoing(b"").properties is None
