"""What a node's settings come to for a session with one of its peers."""

from dataclasses import replace

from triack.base.units import SECOND, in_ns
from triack.queues.settings import NodeSettings
from triack.session.settings import SessionSettings

__all__ = ["session_settings"]


def session_settings(
    settings: NodeSettings, address: str, try_ns: int | None = None, *, direct: bool = False
) -> SessionSettings:
    """The settings of a session.

    Args:
        settings: of the node.
        address: with whom.
        try_ns: how long a connection may take, None for what the settings say.
        direct: whether the peer is called by an address, and not by a name.
    """
    session = _patient(settings.session) if direct else settings.session
    if not address.startswith("udp:"):
        session = replace(session, max_datagram_bytes=settings.stream_datagram_bytes)
    if try_ns is not None and try_ns < in_ns(session.connect_timeout_s):
        session = replace(session, connect_timeout_s=try_ns / SECOND)
    return session


def _patient(session: SessionSettings) -> SessionSettings:
    """The same for a peer that is called by its address."""
    times = session.direct_ack_timeouts
    if times == 1:
        return session
    return replace(
        session,
        ack_timeout_s=None if session.ack_timeout_s is None else times * session.ack_timeout_s,
        ack_timeout_min_s=times * session.ack_timeout_min_s,
        ack_timeout_max_s=times * session.ack_timeout_max_s,
    )
