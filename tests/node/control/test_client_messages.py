"""Messages on their way between a node and a process that uses it."""

from typing import Any

import pytest

import triack
from triack.node.control.client_messages import ClientHolder, frames_of, message_of, name_of
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.queues.packing import MAX_BODY_BYTES, Outgoing, pack_one


class Told:
    """A client that remembers what it told the node."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    async def call(self, do: str, body: bytes = b"", **fields: Any) -> Any:
        raise AssertionError((do, body, fields))

    def post(self, op: str, *, epoch: int | None = None, **fields: Any) -> None:
        self.said.append((op, fields))

    async def connected(self, end: float | None = None, *, patient: bool = False) -> int:
        raise AssertionError((end, patient))

    async def lost(self, epoch: int) -> None:
        raise AssertionError(epoch)


def arrived(client: Told) -> triack.Message:
    header = {
        "origin": "ab" * 16,
        "queue": "q",
        "redelivered": True,
        "topic": "",
        "sealed": False,
        "failures": 2,
        "sender": "shop",
        "large": False,
    }
    return message_of(
        header, pack_one(Outgoing(b"12 valves", {"label": "l"}), 7, 1_000), ClientHolder(client, None, 3), client
    )


def test_bodies_share_a_frame_up_to_its_limits() -> None:
    """A body of the largest size has one to itself, and a batch fills one; no bodies are one empty frame."""
    large = b"x" * MAX_BODY_BYTES
    frames = frames_of("q", [b"1", large, b"22", b""], ["a", "b", "c", "d"])
    assert [frame["bodies"] for frame in frames] == [[b"1"], [large], [b"22", b""]]
    assert [frame["keys"] for frame in frames] == [["a"], ["b"], ["c", "d"]]
    assert [len(frame["bodies"]) for frame in frames_of("q", [b"x"] * (BATCH_MESSAGES + 1))] == [BATCH_MESSAGES, 1]
    assert frames_of("q", []) == [{"bodies": []}]
    with pytest.raises(triack.UsageError, match=r"^send to q: 1 keys for 2 messages$"):
        frames_of("q", [b"1", b"2"], ["a"])
    with pytest.raises(triack.UsageError, match="a body is bytes"):
        frames_of("q", [b"x", "text"])  # type: ignore[list-item]


def test_a_message_is_what_it_is_at_the_node() -> None:
    message = arrived(Told())
    assert (message.body, message.label, message.queue, message.sender) == (b"12 valves", "l", "q", "shop")
    assert (message.redelivered, message.failures) == (True, 2)
    assert message.id.startswith("ab" * 16)


def test_the_fate_of_a_message_is_sent_once() -> None:
    client = Told()
    message = arrived(client)
    message.reject(failed=False, delay=1.5)
    message.ack()
    assert client.said == [("reject", {"message": 3, "failed": False, "delay_ms": 1_500, "dead": False})]


def test_wrong_types_are_refused_before_anything_is_sent() -> None:
    assert name_of("q", triack.EXPRESS) == "EXPRESS"
    wrong = ((5, triack.EXPRESS, "a destination is text"), ("q", "EXPRESS", "a class is a triack.Delivery"))
    for destination, delivery, told in wrong:
        with pytest.raises(triack.UsageError, match=told):
            name_of(destination, delivery)  # type: ignore[arg-type]
