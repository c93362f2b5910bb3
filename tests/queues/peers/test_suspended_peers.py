"""Peers that are spoken to no more: reported once, to everyone whose link leads there; their number is limited."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from triack.base.peers import Directory
from triack.base.reasons import DropReason
from triack.queues.node_settings import Reconnect
from triack.queues.peers import suspended_peers
from triack.queues.peers.introduction import Introduction, RolledBack
from triack.queues.peers.link import Link
from triack.queues.peers.suspended_peers import SuspendedPeers

OWN, OTHER = b"a" * 16, b"b" * 16


class Scene:
    """Suspended peers, and what was written down."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.records: list[dict[str, Any]] = []
        self.suspended = SuspendedPeers(OWN, Directory(), self.drops, self._record)

    def _record(self, event: str, now_ns: int, **fields: Any) -> None:
        self.records.append({"event": event, "at_ns": now_ns, **fields})

    def add(self, node_id: bytes = OTHER, rolled_back: RolledBack = RolledBack.RECEIVER) -> bool:
        return self.suspended.add(Introduction(node_id, "b", "", ""), "b", rolled_back, 5)


def link() -> Link:
    return Link("b", Reconnect(), Random(1))


def test_a_rollback_is_reported_once() -> None:
    scene = Scene()
    assert [scene.add(), scene.add()] == [True, False]
    (error,) = scene.suspended.take_detected()
    assert str(error) == (
        f"the store of node b ({OTHER.hex()}) does not have what this node depends on: "
        "it is an older copy, or runs twice"
    )
    assert scene.suspended.take_detected() == []
    assert scene.records == [
        {"event": "rollback_detected", "at_ns": 5, "peer": OTHER.hex(), "peer_name": "b", "rolled_back": "peer"}
    ]
    assert scene.suspended.sides == {OTHER.hex(): "peer"}


def test_who_has_our_own_id_runs_on_a_copy() -> None:
    """Whatever it says of itself."""
    scene = Scene()
    assert scene.add(OWN, RolledBack.UNKNOWN)
    assert scene.suspended.rolled_back(OWN) is RolledBack.SENDER
    assert str(scene.suspended.take_detected()[0]) == "another process runs on a copy of this node's store"


def test_links_stop_that_lead_to_a_suspended_peer() -> None:
    """Those that led there before, those that turn out to lead there later, and not one that leads elsewhere now."""
    scene, before, later = Scene(), link(), link()
    scene.suspended.lead(before, OTHER)
    scene.add()
    assert before.suspended is None
    scene.suspended.stop_links(OTHER, told=False)
    (error,) = scene.suspended.take_detected()
    scene.suspended.lead(later, OTHER)
    assert before.suspended is later.suspended is error
    scene.suspended.lead(later, b"c" * 16)
    assert later.suspended is None
    scene.suspended.stop_links(OTHER, told=True)
    assert later.suspended is None


def test_what_strangers_invent_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that a link of ours leads to is remembered besides."""
    monkeypatch.setattr(suspended_peers, "SUSPENDED_MAX", 2)
    scene = Scene()
    assert [scene.add(bytes([number]) * 16) for number in range(4)] == [True, True, False, False]
    assert scene.drops == {DropReason.SUSPENDED_OVERFLOW: 2}
    scene.suspended.lead(link(), OTHER)
    assert scene.add()
    assert len(scene.suspended.sides) == 3
