"""The answer to a ping, as applications see it, and the wait for it."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from triack.base.checks import check_timeout
from triack.base.delivery import Delivery
from triack.base.errors import UsageError, WaitTimeout
from triack.base.paths import address_in
from triack.base.units import SECOND
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.event_loop import settle
from triack.queues.mailboxes.resolver import RemoteQueue
from triack.queues.manager.pings import Pong
from triack.stats.causes import why_no_answer


@dataclass(frozen=True, slots=True)
class PingAnswer:
    """The answer of a peer to a ping.

    Attributes:
        address: the address that answered.
        handshake_s: seconds until a session was open; None if one was open before.
        round_trip_s: seconds from the question to its answer.
        clock_ahead_s: seconds by which the peer's clock is ahead of this node's; negative if it is behind. It is exact
            to half the difference between the times of the two ways.
        datagram_bytes: the largest datagram of the session by now: over UDP the path's limit, less headers of IP and
            UDP, or what was found of it so far.
        by: the relay that has answered, by name, as messages for the peer go through it; empty if the peer itself has.
            A ping says nothing of the way behind the relay, nor of the peer.
    """

    address: str
    handshake_s: float | None
    round_trip_s: float
    clock_ahead_s: float
    datagram_bytes: int
    by: str = ""

    @classmethod
    def of(cls, pong: Pong) -> Self:
        """The same in seconds."""
        return cls(
            address_in(pong.address),
            None if pong.handshake_ns is None else pong.handshake_ns / SECOND,
            pong.round_trip_ns / SECOND,
            pong.clock_ahead_ms / 1_000,
            pong.datagram_bytes,
        )


async def ask(port: EngineHandle, peer: str, timeout: float) -> PingAnswer:
    """Ping a peer, and wait for its answer, or that of the relay on the way to it; see ``Node.ping``."""
    port.check_alive()
    check_timeout(f"ping {peer}", timeout)
    target = port.check_way(f"{peer}/ping", Delivery.EXPRESS)
    if not isinstance(target, RemoteQueue):
        raise UsageError(f"ping {peer}: that is this node")
    link, pings = port.outbox.links[port.routes.way_of(target.peer).via], port.engine.pings
    if link.suspended is not None:
        raise link.suspended.anew()
    answered: asyncio.Future[Pong] = asyncio.get_running_loop().create_future()
    ping = pings.begin(link, partial(settle, answered), port.clock())
    port.wake()
    by = "" if link.peer == target.peer else link.peer
    try:
        async with asyncio.timeout(timeout):
            return replace(PingAnswer.of(await answered), by=by)
    except TimeoutError:
        way = f" by way of {by}" if by else ""
        why = why_no_answer(port.engine, link)
        raise WaitTimeout(f"ping {target.peer}{way}: {why} within {timeout:g} s") from None
    finally:
        pings.end(ping)
