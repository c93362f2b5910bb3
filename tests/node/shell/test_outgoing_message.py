"""What may be sent, checked before anything is accepted."""

from typing import Any

import pytest

import triack
from triack.node.shell.outgoing_message import DEADLINE_GRAIN_MS, as_bytes, check_size, with_properties

NOW_MS = 1_700_000_000_001
MAX = 4 * 1024 * 1024


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_a_body_is_made_of_bytes(body: object) -> None:
    assert as_bytes("q", body) == b"x"
    with pytest.raises(triack.UsageError, match="send to q: a body is bytes, not str"):
        as_bytes("q", "x")


def test_a_body_may_have_four_mib() -> None:
    check_size("q", bytes(MAX))
    with pytest.raises(triack.MessageTooLarge, match=f"{MAX + 1} bytes"):
        check_size("q", bytes(MAX + 1))


def test_deadlines_count_from_now_and_are_rounded_up() -> None:
    """So that messages sent together share packets, and none dies early."""
    message = with_properties("q", b"x", {"time_to_reach_queue": 2, "time_to_be_received": 0.25, "label": "l"}, NOW_MS)
    assert message.reach_by_ms == 1_700_000_002_100
    assert (message.receive_by_ms, message.properties) == (1_700_000_000_300, {"label": "l"})
    assert message.reach_by_ms % DEADLINE_GRAIN_MS == 0


@pytest.mark.parametrize(
    "properties", [{"colour": "red"}, {"label": 5}, {"time_to_reach_queue": 0}, {"time_to_be_received": float("nan")}]
)
def test_a_property_that_cannot_be_is_named(properties: Any) -> None:
    with pytest.raises(triack.UsageError, match=next(iter(properties))):
        with_properties("q", b"x", properties, NOW_MS)


def test_what_does_not_exist_yet_is_refused_by_name_and_what_does_is_listed() -> None:
    """A slip of the keyboard is found without the documentation."""
    valid = (
        "valid are correlation_id, reply_to, label, headers, time_to_reach_queue, time_to_be_received, key, priority, "
        "ack_now, seal, dead_letter, admin_queue, acks, journal"
    )
    with pytest.raises(triack.UsageError) as refused:
        with_properties("q", b"x", {"lable": "5"}, NOW_MS)  # type: ignore[typeddict-unknown-key]
    assert str(refused.value) == f"send to q: lable is no message property; {valid}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (True, None),
        ("dead-letter", None),
        (None, None),
        (False, {"dead_letter": False}),
        ("mine", {"dead_letter": "mine"}),
    ],
)
def test_a_sender_says_what_becomes_of_a_message_that_ends(said: Any, kept: Any) -> None:
    assert with_properties("q", b"x", {"dead_letter": said}, NOW_MS).properties == kept


@pytest.mark.parametrize("said", [5, "$replies", "a/b", "", ".x"])
def test_a_queue_for_dead_letters_has_a_name_of_a_queue(said: Any) -> None:
    with pytest.raises(triack.UsageError, match=r"^send to q: dead_letter"):
        with_properties("q", b"x", {"dead_letter": said}, NOW_MS)


def test_a_request_for_answers_has_a_queue_and_flags() -> None:
    """A queue of the sending node: by its bare name, or with the name of that node."""
    for queue in ("acks", "plant-a/acks"):
        said: Any = {"admin_queue": queue, "acks": triack.Acks.FULL_RECEIVE}
        message = with_properties("q", b"x", said, NOW_MS, "plant-a")
        assert message.properties == {"admin": {"queue": "acks", "acks": 14}}
    assert with_properties("q", b"x", {"acks": triack.Acks.NONE}, NOW_MS).properties is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"admin_queue": "acks"}, "admin_queue needs acks, too"),
        ({"acks": triack.Acks.FULL_RECEIVE}, "acks needs admin_queue, too"),
        ({"admin_queue": "acks", "acks": 0}, "admin_queue needs acks, too"),
        ({"admin_queue": "acks", "acks": 16}, r"acks must be a triack\.Acks"),
        ({"admin_queue": "acks", "acks": True}, r"acks must be a triack\.Acks"),
        ({"admin_queue": 5, "acks": 1}, "admin_queue must be the name of a queue"),
        ({"admin_queue": "$journal", "acks": 1}, "is a name of the node's own queues"),
        ({"admin_queue": "dead-letter", "acks": 1}, "is a name of the node's own queues"),
        ({"admin_queue": "plant-b/acks", "acks": 1}, "is not a queue of this node, plant-a"),
    ],
)
def test_a_request_for_answers_that_cannot_be_is_refused(said: Any, why: str) -> None:
    with pytest.raises(triack.UsageError, match=why):
        with_properties("q", b"x", said, NOW_MS, "plant-a")


def test_a_life_is_for_messages_without_one() -> None:
    assert with_properties("q", b"x", {}, NOW_MS, life_s=2).reach_by_ms == 1_700_000_002_100
    own: Any = {"time_to_reach_queue": 5}
    assert with_properties("q", b"x", own, NOW_MS, life_s=2).reach_by_ms == 1_700_000_005_100


def test_headers_are_texts_by_name() -> None:
    message = with_properties("q", b"x", {"headers": {"a": "b"}, "label": None}, NOW_MS)
    assert message.properties == {"headers": {"a": "b"}}
    for headers in ("a=b", {"a": 5}, {5: "a"}, [("a", "b")]):
        with pytest.raises(triack.UsageError, match=r"^send to q: headers must be"):
            with_properties("q", b"x", {"headers": headers}, NOW_MS)  # type: ignore[typeddict-item]
