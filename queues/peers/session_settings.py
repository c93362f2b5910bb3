"""Makes the sessions of a node: with which settings, and how the node introduces itself in each."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from triack.base.checks import DATAGRAM_BASE_BYTES, LONGEST_LIFE_S
from triack.base.datagram import Channel
from triack.base.peers import Directory
from triack.base.units import SECOND, in_ns
from triack.queues.mailboxes.mailbox import EXPRESS_OVERHEAD_BYTES
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.history import History, Peers
from triack.queues.peers.introduction import Introduction
from triack.queues.peers.link import Link, Links
from triack.session.congestion.auto_window import LEAST_PACKETS
from triack.session.path.path_size import FLIGHT_PACKETS
from triack.session.protocol.codec import Codec
from triack.session.protocol.frames import Hello
from triack.session.protocol.path_traits import MEMORY, TCP, UDP, PathTraits
from triack.session.protocol.settings import SessionSettings
from triack.session.session import Session

if TYPE_CHECKING:
    from random import Random

TRAITS = {"udp": UDP, "tcp": TCP, "memory": MEMORY}
"""Traits of a path by the scheme of its address."""

PEER_PARTS = 4
"""A node asks a peer to stop when a quarter of its memory share is full, and still accepts packets in flight."""


def session_settings(
    settings: NodeSettings,
    address: str,
    try_ns: int | None = None,
    *,
    direct: bool = False,
    ack_factor: int = 1,
    store_factor: int = 1,
) -> SessionSettings:
    """The settings of a session with the peer at an address.

    ``try_ns``: the longest time to connect, None for that of the settings. ``direct``: the peer is called by an
    address, not by a name. The factors multiply a fixed ack timeout and the store ack timeout.
    """
    session = _patient(settings.session) if direct else settings.session
    if not traits_of(address).paced:
        session = replace(session, max_datagram_bytes=settings.stream_datagram_bytes)
    elif (most_bytes := _room_bytes(settings)) < session.max_datagram_bytes:
        session = replace(session, max_datagram_bytes=most_bytes)
    if session.max_unacked_packet == "auto":
        session = replace(session, auto_window_max=largest_window(settings))
    if ack_factor > 1 and session.ack_timeout_s is not None:
        session = replace(session, ack_timeout_s=_longer_s(session.ack_timeout_s, ack_factor, session))
    if store_factor > 1 and session.store_ack_timeout_s is not None:
        session = replace(session, store_ack_timeout_s=_longer_s(session.store_ack_timeout_s, store_factor, session))
    elif store_factor > 1:
        store_s = min(store_factor * session.store_ack_timeout_min_s, session.ack_timeout_max_s)
        session = replace(session, store_ack_timeout_min_s=store_s)
    if try_ns is not None and try_ns < in_ns(session.connect_timeout_s):
        session = replace(session, connect_timeout_s=try_ns / SECOND)
    return session


def traits_of(address: str) -> PathTraits:
    """The traits of the path to an address; those of a path in memory when its scheme is none of ``TRAITS``."""
    return TRAITS.get(address.partition(":")[0], MEMORY)


def _longer_s(fixed_s: float, factor: int, session: SessionSettings) -> float:
    """A fixed timeout times a factor, up to the longest ack timeout."""
    return max(fixed_s, min(factor * fixed_s, session.ack_timeout_max_s))


def _room_bytes(settings: NodeSettings) -> int:
    """The largest datagrams of which a peer may have a window in flight."""
    window = min(largest_window(settings), FLIGHT_PACKETS)
    return max(DATAGRAM_BASE_BYTES, _flight_bytes(settings) // window - EXPRESS_OVERHEAD_BYTES)


def largest_window(settings: NodeSettings) -> int:
    """The largest window of the node's sessions, in packets; an automatic one fits datagrams of the base size."""
    session = settings.session
    if session.max_unacked_packet != "auto":
        return session.max_unacked_packet
    room = _flight_bytes(settings) // (DATAGRAM_BASE_BYTES + EXPRESS_OVERHEAD_BYTES)
    return min(session.auto_window_max, max(room, LEAST_PACKETS))


def _flight_bytes(settings: NodeSettings) -> int:
    return settings.limits.peer_memory_bytes // PEER_PARTS


def _patient(session: SessionSettings) -> SessionSettings:
    """Session settings for a peer that is called by its address."""
    times = session.direct_ack_timeouts
    if times == 1:
        return session
    return replace(
        session,
        ack_timeout_s=None if session.ack_timeout_s is None else min(times * session.ack_timeout_s, LONGEST_LIFE_S),
        ack_timeout_min_s=min(times * session.ack_timeout_min_s, LONGEST_LIFE_S),
        ack_timeout_max_s=min(times * session.ack_timeout_max_s, LONGEST_LIFE_S),
    )


@dataclass(eq=False, repr=False)
class SessionMaker:
    """Makes sessions, and the introductions that they begin with.

    Args:
        own: what this node says of itself to all peers.
    """

    own: Introduction
    settings: NodeSettings
    directory: Directory
    random: "Random"
    links: Links
    history: History
    peers: Peers
    codec: Codec

    def introduce(self, dialled: str, receiver: bytes) -> Introduction:
        """The introduction to a node, by the name that the initiator has dialled."""
        point, remembered = self.history.point, self.peers.of(receiver)
        return replace(self.own, dialled=dialled, point=point, receiver=receiver, remembered=remembered)

    def answer(self, peer: Introduction) -> Introduction:
        """The introduction to a node that has connected."""
        return self.check(self.introduce(peer.dialled, peer.node_id), peer)

    def check(self, own: Introduction, peer: Introduction) -> Introduction:
        """An introduction that says what was checked for a node, if that meant to connect to this one."""
        return replace(own, checked=peer.remembered) if peer.receiver == self.own.node_id else own

    def connection_id(self) -> int:
        """A new connection id."""
        return self.random.getrandbits(63) + 1

    def draw(self, size_bytes: int) -> bytes:
        """Random bytes."""
        return self.random.getrandbits(8 * size_bytes).to_bytes(size_bytes, "big")

    def make(
        self,
        own: Introduction,
        named: tuple[str, str],
        node_id: bytes,
        channel: Channel,
        now_ns: int,
        *,
        peer: Hello | None = None,
        try_ns: int | None = None,
        spacing_ns: int = 0,
    ) -> Session:
        """A session with a node, by the name and the path of its peer.

        ``peer``: its hello, if it has connected; else this node connects, and tries that for ``try_ns``.
        """
        name, path = named
        link = self.links.get(name)
        return Session(
            session_settings(
                self.settings,
                path,
                try_ns,
                direct="://" in name,
                ack_factor=self.peers.ack_factor(node_id),
                store_factor=1 if link is None else link.patience.store_factor,
            ),
            self.codec,
            session_id=self.random.getrandbits(64) if peer is None else peer.session_id,
            connection_id=self.connection_id(),
            introduction=own.encode(),
            peer=peer,
            overhead_bytes=channel.overhead_bytes,
            traits=traits_of(path),
            now_ns=now_ns,
            spacing_ns=spacing_ns,
            keep_alive_ns=0 if link is None or peer is not None else self.keep_alive_ns(link, path),
        )

    def keep_alive_ns(self, link: Link, path: str) -> int:
        """How long a session of ours may be silent; 0 for no limit. The system keeps TCP connections alive."""
        if not traits_of(path).paced:
            return 0
        known = self.directory.named(link.peer)
        if known is not None and known.keep_alive_s is not None:
            return in_ns(known.keep_alive_s)
        return in_ns(self.settings.keep_alive_s) if self.links.calls else 0
