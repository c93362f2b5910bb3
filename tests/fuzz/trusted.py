"""What a peer that is trusted, and keeps to nothing, may do to a whole node: all machines at once, no channel around.

The first byte of an input chooses the node's settings, and which of the two has called. Then come steps, each after its
length in two bytes; the first byte of a step says what happens.
"""

from collections.abc import Callable

from tests.queues.bare import Bare
from tests.queues.hostile import CHANNEL, ORIGIN, Opened, make_hello, open_datagram
from triack.base.datagram import Kind
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.effects import Effect, Send, WriteRecords
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.peers.introduction import Introduction
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PingFrame
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records

ADDRESS = "udp://evil:1"
HERE = 6
"""The connection that the peer lets the node call it by."""
STEPS_MAX = 64
"""More show nothing new, and slow the search."""
ROUNDS_MAX = 20
"""Deadlines that are waited for at once: several of each machine."""
TIGHT = SessionSettings(max_unacked_packet=4, max_datagram_bytes=576, congestion="newreno")
SETTINGS = (
    NodeSettings(),
    NodeSettings(TIGHT, limits=Limits(Quota(2, 500), max_peer_queues=2), max_streams=2, max_redeliveries=1),
    NodeSettings(TIGHT, OrderSettings(max_held_packets=2), limits=Limits(Quota(3, when_full="reject")), max_queues=2),
    NodeSettings(SessionSettings(max_unacked_packet="auto"), limits=Limits(peer_memory_bytes=4_096)),
)
"""As it comes, and with little room, of which the peer may make several uses."""
FOREVER_NS = 3_600 * 24 * 365 * SECOND
"""A deadline that is more than a year away is not waited for."""
COMMITS = 3
"""What may follow from each other: a message, its order ack, and that it is gone."""
THE_PEERS = ("ack_unreceived", "wire")
"""What the node's log tells of its peer: acks of what was not sent, and another packet under the same number."""


def trusted(data: bytes) -> None:
    """Nothing that it says makes the node fail, say what fits into no datagram, or break a promise of its own."""
    calls, choice = divmod(int.from_bytes(data[:1]), len(SETTINGS))
    meeting = Meeting(SETTINGS[choice], calls=calls % 2 == 1)
    for step in parts_of(data[1:])[:STEPS_MAX]:
        if step:
            STEPS[step[0] % len(STEPS)](meeting, step[1:])
            meeting.poll()
    meeting.wait()
    assert meeting.node.engine.failure is None
    log = b"".join(effect.data for effect in meeting.node.effects if isinstance(effect, WriteRecords))
    found = judge_records(parse_records(log))
    # A stream of two classes is judged by one of them.
    if not any(broken.check == "claims" and broken.evidence.startswith("class ") for broken in found):
        assert not [broken for broken in found if broken.check not in THE_PEERS]


def parts_of(data: bytes) -> list[bytes]:
    """Some pieces, each after its length in two bytes."""
    parts = []
    while data:
        end = 2 + int.from_bytes(data[:2])
        parts.append(data[2:end])
        data = data[end:]
    return parts


class Meeting:
    """A node with an open session, of which the other end is whatever the input says.

    Args:
        settings: the node's.
        calls: whether it has called, and not its peer.
    """

    def __init__(self, settings: NodeSettings, *, calls: bool) -> None:
        self.node = Bare("b", settings)
        self._counter = 0
        self._there = 0
        introduction = Introduction(ORIGIN, "", ADDRESS, self.node.address)
        if calls:
            self.submit(b"hello")
            self.poll()
            self.disk(b"")
            connect = next(said for said in self.poll() if said.kind is Kind.CONNECT)
            self._there = connect.hello.connection_id
            self.say(Kind.ACCEPT, BINARY.encode_hello(make_hello(introduction, connect.hello.session_id, HERE)))
        else:
            self.say(Kind.CONNECT, BINARY.encode_hello(make_hello(introduction, 77, HERE)))
            self._there = next(said for said in self.poll() if said.kind is Kind.ACCEPT).hello.connection_id
        self.say(Kind.DATA, BINARY.encode(PingFrame()))
        self.poll()

    def say(self, kind: Kind, *payloads: bytes) -> None:
        burst = []
        for payload in payloads:
            self._counter += 1
            burst.append(CHANNEL.seal(kind, self._there, self._counter, payload, 0))
        self.node.engine.handle_datagrams(burst, ADDRESS, self.node.now_ns)

    def poll(self) -> list[Opened]:
        """The datagrams that the node sends to it now."""
        effects: list[Effect] = self.node.poll()
        sent = [each for effect in effects if isinstance(effect, Send) for each in effect.datagrams]
        limit_bytes = self.node.engine.settings.session.max_datagram_bytes
        assert all(len(datagram) <= limit_bytes for datagram in sent)
        return [open_datagram(datagram) for datagram in sent]

    # ---- steps

    def datagram(self, said: bytes) -> None:
        self.say(Kind.DATA, said)

    def burst(self, said: bytes) -> None:
        self.say(Kind.DATA, *parts_of(said))

    def other(self, said: bytes) -> None:
        self.say(Kind(1 + int.from_bytes(said[:1]) % len(Kind)), said[1:])

    def time(self, said: bytes) -> None:
        self._pass(self.node.now_ns + int.from_bytes(said[:2]) * MS)

    def disk(self, _: bytes) -> None:
        if self.node.job is not None:
            self.node.finish_job()

    def submit(self, body: bytes) -> None:
        self.node.submit(ADDRESS, body)

    def read(self, ways: bytes) -> None:
        """The node's program takes what is in its queues: for each byte one, which it gives back if that is odd."""
        engine = self.node.engine
        for mailbox in list(engine.queues.mailboxes.values()):
            for way in ways:
                lease = engine.take(mailbox, self.node.now_ns)
                if lease is None:
                    break
                if way % 2:
                    engine.give_back(mailbox, lease, Return(failed=True, delay_ms=0), self.node.now_ns)
                else:
                    mailbox.acknowledge(lease)

    # ---- time

    def wait(self) -> None:
        """The disk works, and time passes until nothing is to be done, or for as long as that shows something."""
        for _ in range(COMMITS):
            self.disk(b"")
            self._pass(None)

    def _pass(self, until_ns: int | None) -> None:
        """Let everything happen in its time until then, or until nothing is left to happen."""
        node = self.node
        for _ in range(ROUNDS_MAX):
            self.poll()
            deadline_ns = node.engine.next_deadline()
            if deadline_ns is None or deadline_ns > (FOREVER_NS if until_ns is None else until_ns):
                break
            node.now_ns = max(node.now_ns, deadline_ns)
        node.now_ns = max(node.now_ns, until_ns or 0)


STEPS: tuple[Callable[[Meeting, bytes], None], ...] = (
    Meeting.datagram,
    Meeting.burst,
    Meeting.other,
    Meeting.time,
    Meeting.disk,
    Meeting.submit,
    Meeting.read,
)
"""What the first byte of a step stands for."""
