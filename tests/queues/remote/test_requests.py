"""Requests about subscriptions, to bytes and back."""

import json

import pytest

from triack.base.delivery import Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.reasons import DropReason
from triack.queues.remote.requests import (
    Answer,
    Live,
    Subscribe,
    Unknown,
    Unsubscribe,
    check_remote_name,
    decode,
)

ASK = Subscribe("audit", 7, "Games.#", True, Delivery.RECOVERABLE, 10)
MESSAGES = [
    ASK,
    Unsubscribe("audit", 7),
    Live({"audit": 7, "$1.1": 8}),
    Answer("accepted", "audit", 7),
    Answer("refused", "audit", 7, "access-denied", "no"),
    Answer("ended", "audit", 7),
    Unknown({"audit": 7}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda it: type(it).__name__)
def test_each_message_is_read_as_it_was_written(message: Subscribe) -> None:
    assert decode(message.encode()) == message


@pytest.mark.parametrize(
    "changed",
    [
        {"do": "receive"}, {"do": None}, {"name": "a/b"}, {"name": ""}, {"name": "x" * 124}, {"name": 1},
        {"number": 0}, {"number": True}, {"number": 1 << 70}, {"pattern": "x" * 2_000}, {"pattern": None},
        {"durable": 1}, {"delivery": "certain"}, {"max_unacked": 0}, {"max_unacked": "9"},
    ],
)  # fmt: skip
def test_a_request_that_is_wrong_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode(json.dumps(json.loads(ASK.encode()) | changed).encode())
    assert raised.value.reason is DropReason.BAD_REQUEST


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"7", b"[" * 100_000, b'{"do": "live", "names": [1]}'])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(body)


def test_the_name_of_a_subscription_leaves_room_for_that_of_its_queue() -> None:
    assert check_remote_name("x" * 119) == "x" * 119
    with pytest.raises(AddressError, match="too long"):
        check_remote_name("x" * 120)
