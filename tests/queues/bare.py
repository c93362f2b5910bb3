"""An engine alone: what it wants done is looked at, and done when the test says so."""

import json
from random import Random
from typing import Any

from tests.queues.keyed import key_of
from triack.base.commit import StoreContent
from triack.base.delivery import Delivery
from triack.base.log_lines import LineReader
from triack.base.peers import Directory
from triack.base.units import SECOND
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.manager.effects import Effect, Job, Send, StartJob, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.messages import Outgoing, Properties
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import unpack
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.tools.replay.log.files import parse_records
from triack.transport.insecure import InsecureChannels
from triack.transport.secure import SecureChannels


class Bare:
    """One engine at ``memory://name``, with a key or without, and the bodies that its commits have held.

    Attributes:
        job: what the store has in hand.
        effects: everything that the engine has wanted since its start.
    """

    def __init__(self, name: str = "a", settings: NodeSettings | None = None, *, keyed: bool = False) -> None:
        self.address = f"memory://{name}"
        self.directory = Directory()
        self.now_ns = SECOND
        self.job: Job | None = None
        self.effects: list[Effect] = []
        self._bodies: dict[int, bytes] = {}
        self._lines = LineReader()
        self.engine = Engine(
            StoreContent(name.encode() * 16, 1, start=1),
            name=name,
            address=self.address,
            settings=settings or NodeSettings(),
            queues=None,
            channels=SecureChannels([key_of(name)], self.directory, entropy=Random(name).randbytes)
            if keyed
            else InsecureChannels(),
            directory=self.directory,
            random=Random(name),
            now_ns=self.now_ns,
            wall_offset_ns=0,
            recording=True,
        )

    def submit(
        self, to: str, *bodies: bytes, delivery: Delivery = Delivery.TRANSACTIONAL, reach_by_ms: int = 0
    ) -> OutgoingStream:
        """Submit messages for a queue ``q``; nothing else happens."""
        outgoing = self.engine.outgoing_stream(to, "q", delivery)
        for body in bodies:
            self.engine.submit(outgoing, Outgoing(body, None, reach_by_ms), len(body))
        return outgoing

    def poll(self, later_ns: int = 0) -> list[Effect]:
        """The effects that the engine wants, that much later."""
        self.now_ns += later_ns
        effects = self.engine.poll(self.now_ns)
        for effect in effects:
            if isinstance(effect, StartJob):
                assert self.job is None
                self.job = effect.job
            if isinstance(effect, WriteRecords):
                _SAID[id(effect)] = effect, [self._lines.read(it)["event"] for it in map(json.loads, lines(effect))]
        self.effects += effects
        return effects

    def finish_job(self) -> None:
        """The store has done what it has in hand."""
        job, self.job = self.job, None
        assert job is not None
        if isinstance(job, GroupCommit):
            self._bodies |= {row.key: row.body for row in job.commit.outgoing}
            self._bodies |= {row.key: row.bodies[0] for some in job.commit.messages for row in some.packets()}
        else:
            job.bodies.update({key: self._bodies[key] for key in job.keys})
        self.engine.handle_done(job, self.now_ns)

    def hear(self, effects: list[Effect], sender: "Bare") -> None:
        """Take what another engine sends."""
        for effect in effects:
            if isinstance(effect, Send) and effect.address == self.address:
                for datagram in effect.datagrams:
                    self.engine.handle_datagram(datagram, sender.address, self.now_ns)


def settle(one: Bare, other: Bare) -> None:
    """Let both do everything that they want, at once, until neither wants anything."""
    busy = True
    while busy:
        busy = False
        for node, peer in ((one, other), (other, one)):
            effects = node.poll()
            peer.hear(effects, node)
            if node.job is not None:
                node.finish_job()
            busy = busy or bool(effects)


def rest(one: Bare, other: Bare) -> None:
    """Settle, and let every short delay run out until nothing is owed."""
    for _ in range(6):
        settle(one, other)
        one.now_ns += SECOND
        other.now_ns += SECOND
    settle(one, other)


def leases(node: Bare) -> list[Lease]:
    """Hand out all that waits in its queue ``q``."""
    return list(iter(lambda: node.engine.take(node.engine.queues.mailboxes["q"], node.now_ns), None))


def kinds(effects: list[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def records(effects: list[Effect]) -> list[dict[str, Any]]:
    """The records of the session log that they write; the node's first ones must be among them."""
    data = b"".join(effect.data for effect in effects if isinstance(effect, WriteRecords))
    return parse_records(data)


def events(effects: list[Effect]) -> list[str]:
    return [event for effect in effects if isinstance(effect, WriteRecords) for event in _SAID[id(effect)][1]]


def lines(effect: WriteRecords) -> list[bytes]:
    return effect.data.splitlines()


_SAID: dict[int, tuple[WriteRecords, list[str]]] = {}
"""The events in what was polled: most lines say theirs by those before them. The effects stay, so that ids do, too."""


def letters(node: Bare) -> list[Properties]:
    """The properties of the dead letters that the commit in hand holds."""
    assert isinstance(node.job, GroupCommit)
    bodies = [body for row in node.job.commit.messages for body in row.bodies]
    return [found for body in bodies for found in unpack(body).properties or []]


def submitted(node: Bare, *messages: Outgoing) -> OutgoingStream:
    """Messages for a peer that is not there, on the disk."""
    outgoing = node.engine.outgoing_stream("memory://nobody", "q", Delivery.TRANSACTIONAL)
    for message in messages:
        node.engine.submit(outgoing, message, len(message.body))
    node.poll()
    node.finish_job()
    return outgoing
