"""The answer to a ping, as applications see it, and the wait for it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from triack.base.errors import TriackError, WaitTimeout
from triack.base.paths import address_in
from triack.base.units import SECOND
from triack.queues.manager.pings import Pings, Pong
from triack.queues.peers.dialer import WaitsFor
from triack.queues.peers.link import Link

__all__ = ["PingAnswer", "ask"]


@dataclass(frozen=True, slots=True)
class PingAnswer:
    """The answer of a peer to a ping.

    Attributes:
        address: the address that answered.
        handshake_s: seconds until a session was open; None if one was open before.
        round_trip_s: seconds from the question to its answer.
        clock_ahead_s: seconds by which the peer's clock is ahead of this node's; negative if it is behind. It is exact
            to half the difference of the times that the two ways take.
        datagram_bytes: the largest datagram of the session by now: over UDP the path's limit, less headers of IP and
            UDP, or what was found of it so far.
        by: the relay that has answered, by name, as messages for the peer go by it; empty if the peer itself has. Of
            the way behind the relay, and of the peer, a ping says nothing.
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


async def ask(
    peer: str,
    pings: Pings,
    link: Link,
    missing_of: Callable[[Link], WaitsFor | None],
    wake: Callable[[], None],
    timeout: float,
    now_ns: int,
) -> PingAnswer:
    """Ping a peer, and wait for its answer; or that of the relay by which messages for it go.

    Args:
        peer: the peer, by name.
        pings: of the engine.
        link: the link to the peer, or to the relay.
        missing_of: what a link lacks before it has a session.
        wake: lets the engine work.
        timeout: seconds to wait.
        now_ns: the monotonic clock.

    Raises:
        WaitTimeout: no answer in that time; with the last known cause.
        TriackError: the node has ended.
    """
    answered: asyncio.Future[Pong] = asyncio.get_running_loop().create_future()

    def handle_answer(answer: Pong | TriackError) -> None:
        if answered.done():
            return
        if isinstance(answer, TriackError):
            answered.set_exception(answer)
        else:
            answered.set_result(answer)

    ping = pings.begin(link, handle_answer, now_ns)
    wake()
    try:
        async with asyncio.timeout(timeout):
            answer = PingAnswer.of(await answered)
            return answer if link.peer == peer else replace(answer, by=link.peer)
    except TimeoutError:
        missing = missing_of(link)
        why = link.silent or (f"no session, as there is no {missing.value}" if missing else "no answer")
        by = "" if link.peer == peer else f" by way of {link.peer}"
        raise WaitTimeout(f"ping {peer}{by}: {why} within {timeout:g} s") from None
    finally:
        pings.end(ping)
