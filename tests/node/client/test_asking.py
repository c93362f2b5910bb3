"""A verb of a client is one call, written and read by its row."""

import inspect
from typing import Any

import pytest

import triack
from triack.node.client.asking import Asking, asked
from triack.node.control.control_frames import Header
from triack.node.handles.verbs import Verbs


class Desk(Asking):
    """A client that knows its answers."""

    def __init__(self, header: Header, content: bytes = b"") -> None:
        self.called: list[tuple[str, bytes, dict[str, Any]]] = []
        self._answer = header, content

    async def _call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        self.called.append((do, body, fields))
        return self._answer

    purge = asked(Verbs.purge)
    recall = asked(Verbs.recall)
    key = asked(Verbs.key)
    events = asked(Verbs.events, lambda self, header, _: (self, header["watch"]))


async def test_arguments_go_out_and_the_result_comes_back() -> None:
    desk = Desk({"op": "done", "count": 3})
    assert await desk.purge("q", ids=("a",)) == 3
    assert desk.called == [("purge", b"", {"queue": "q", "ids": ["a"]})]


async def test_what_is_a_property_or_waits_for_nothing_at_the_node_is_asked_for_too() -> None:
    assert await Desk({"key": "abc"}).key() == "abc"
    assert await Desk({"known": True}, b"v").recall("k") == b"v"
    assert await Desk({"known": False}).recall("k") is None


async def test_what_stays_at_the_node_is_read_by_the_client() -> None:
    desk = Desk({"watch": 7})
    assert await desk.events() == (desk, 7)


async def test_wrong_arguments_are_not_sent() -> None:
    desk = Desk({})
    with pytest.raises(triack.UsageError, match="ids of messages"):
        await desk.purge("q", "abc")
    with pytest.raises(TypeError, match=r"purge\(\): missing a required argument: 'queue'"):
        await desk.purge()  # type: ignore[call-arg]
    assert desk.called == []


def test_help_says_what_it_says_of_a_node() -> None:
    assert inspect.getdoc(Desk.purge) == inspect.getdoc(Verbs.purge)
    assert inspect.signature(Desk.purge) == inspect.signature(Verbs.purge)
