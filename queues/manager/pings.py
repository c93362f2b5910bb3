"""Pings: how long a peer needs to answer, and what its clock shows.

A ping is a challenge (``queues.peers.path``) to the address in use: eight random bytes under the session's keys, which
the peer sends back immediately, with its time of day. If there is no session, one is opened first. A ping proves
nothing about queues and changes nothing; a lost one is not repeated.

    WANTED --a session is open--> ASKED --answered--> (told)
    WANTED, ASKED --given up by its caller, or the node ends--> (forgotten)
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from triack.base.clock import WallClock
from triack.base.errors import ProtocolError, TriackError
from triack.base.reasons import DropReason
from triack.base.units import MS
from triack.queues.peers.link import Conversation, Link
from triack.queues.peers.path import CHALLENGE_BYTES

if TYPE_CHECKING:
    from random import Random

CLOCK = Struct("!Q")
"""The time of day behind a challenge and its response, in milliseconds since 1970; 0 in a challenge."""
CLOCK_BYTES = CLOCK.size


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping.

    Attributes:
        address: the address that answered.
        handshake_ns: how long it lasted until a session was open; None if one was open before.
        round_trip_ns: from the challenge to its response.
        clock_ahead_ms: how far the peer's clock is ahead of this node's, if both ways last as long as each other.
        datagram_bytes: the largest datagram of the session by now.
    """

    address: str
    handshake_ns: int | None
    round_trip_ns: int
    clock_ahead_ms: float
    datagram_bytes: int


Waiter = Callable[[Pong | TriackError], None]


@dataclass(slots=True, eq=False)
class Ping:
    """A ping that was not answered yet.

    Attributes:
        waiter: called with the answer, or with the error that ended the node.
        began_ns: when it was wanted.
        question: the challenge; empty before it has left.
        was_open: whether a session was open when it was wanted.
    """

    link: Link
    waiter: Waiter
    began_ns: int
    was_open: bool
    question: bytes = b""
    sent_ns: int = 0


class Pings:
    """The pings of a node.

    Args:
        wall: the time of day.
        random: for the challenges.

    Attributes:
        waiting: those that are not answered.
    """

    def __init__(self, wall: WallClock, random: "Random") -> None:
        self._wall = wall
        self._random = random
        self.waiting: dict[Ping, None] = {}

    def begin(self, link: Link, waiter: Waiter, now_ns: int) -> Ping:
        """Ping a peer. The caller ends the ping, after an answer as well."""
        is_open = link.conversation is not None and link.conversation.is_open
        ping = Ping(link, waiter, now_ns, is_open)
        self.waiting[ping] = None
        link.pings += 1
        link.wake()
        return ping

    def end(self, ping: Ping) -> None:
        """Forget a ping; a second call does nothing."""
        if ping in self.waiting:
            del self.waiting[ping]
            ping.link.pings -= 1

    def fail(self, error: TriackError) -> None:
        """The node ends: no ping is answered any more."""
        for ping in list(self.waiting):
            self.end(ping)
            ping.waiter(error)

    def poll(self, conversation: Conversation, now_ns: int) -> list[bytes]:
        """The challenges that leave now in a session."""
        asked = [it for it in self.waiting if not it.question and it.link.conversation is conversation]
        if not conversation.is_open:
            return []
        for ping in asked:
            ping.question = self._random.getrandbits(8 * CHALLENGE_BYTES).to_bytes(CHALLENGE_BYTES, "big")
            ping.sent_ns = now_ns
        return [ping.question for ping in asked]

    def handle_response(self, conversation: Conversation, answer: bytes, clock_ms: int, now_ns: int) -> bool:
        """A peer has answered a challenge. Returns whether that was a ping."""
        ping = next((it for it in self.waiting if it.question == answer and it.link.conversation is conversation), None)
        if ping is None:
            return False
        round_trip_ns = now_ns - ping.sent_ns
        pong = Pong(
            conversation.path,
            None if ping.was_open else ping.sent_ns - ping.began_ns,
            round_trip_ns,
            clock_ms - (self._wall.ms(now_ns) - round_trip_ns / 2 / MS),
            conversation.session.stats().datagram_bytes,
        )
        self.end(ping)
        ping.waiter(pong)
        return True


def clock_of(payload: bytes) -> tuple[bytes, int]:
    """Divide a challenge or a response into its content and the clock behind it. Raises ProtocolError."""
    if len(payload) < CLOCK_BYTES:
        raise ProtocolError(DropReason.BAD_FRAME, f"a challenge of {len(payload)} bytes")
    return payload[:-CLOCK_BYTES], CLOCK.unpack(payload[-CLOCK_BYTES:])[0]
