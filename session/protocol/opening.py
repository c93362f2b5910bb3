"""The opening of a session: what this end says of itself, and when it says so again.

Promise: an initiator says its hello at once, again whenever there is something new in it, and repeats it, more and more
patiently, until the session opens or ends. An acceptor speaks when a connect has come, once for each, never unasked: a
stranger could have faked the connect, and would make us send to somebody else (RFC 9000 section 8.1).

    DUE --said--> SAID --initiator: resend timer | something new; acceptor: another connect--> DUE

An initiator that opens has heard the acceptor, which does not know that yet, and will not open before it does. So the
initiator asks until it hears again. Where delays are reckoned in round trips, it says until then in each datagram what
the echo of its connect has measured: an acceptor that was asked more than once cannot tell which time was answered.
MSMQ's initiator sends the same figure in its connection parameters ([MS-MQQB] 3.1.5.3.2).
"""

from dataclasses import replace

from triack.base.units import MS
from triack.session.protocol.frames import Hello, RoundTripFrame

__all__ = ["Opening"]

CONNECT_RESEND_NS = 200 * MS
"""Twice the round trip that is assumed before the first sample (``rtt.INITIAL_RTT_NS``); a lost connect is soon
repaired."""
CONNECT_RESEND_MORE_NS = 20 * MS
"""By so much each wait is longer than the one before: slowly, as losses come in bursts. Where they come three in a row
and take a third of all, ninety-nine of a hundred sessions are open within five seconds."""
CONNECT_RESEND_MAX_NS = 500 * MS
"""The wait grows no further by itself: a peer that starts while we call should not have to wait for us. Who knows that
it has been away for long asks for longer ones."""
UNANSWERED_SENDS = 4
"""An initiator that has said its hello so often has waited for nearly a second: several losses, or nobody there."""


class Opening:
    """What one end says before the session is open.

    Args:
        hello: ours.
        peer: the initiator's when this end accepts, None when it initiates.
        spacing_ns: how long an initiator waits for each answer at least.

    Attributes:
        hello: ours, as it was said last.
        initiator: whether this end began the session.
        due: whether the hello is to be said now.
        unconfirmed: whether the session is open here, and nothing shows that it is so at the other end.
        times_said: how often the hello was said.
        said_at_ns: when it was said last.
    """

    __slots__ = ("_figure", "_spacing_ns", "due", "hello", "initiator", "said_at_ns", "times_said", "unconfirmed")

    def __init__(self, hello: Hello, peer: Hello | None, spacing_ns: int = 0) -> None:
        self.initiator = peer is None
        self._figure: RoundTripFrame | None = None
        self._spacing_ns = spacing_ns
        self.hello = hello if peer is None else replace(hello, sent_at_ns=peer.sent_at_ns)
        self.due = True
        self.unconfirmed = False
        self.times_said = 0
        self.said_at_ns = 0

    def introduce(self, introduction: bytes) -> None:
        """There is something new to say; an acceptor says it when it is asked."""
        self.hello = replace(self.hello, introduction=introduction)
        self.due = self.due or self.initiator

    def handle_connect(self, peer: Hello) -> None:
        """The initiator has said its hello once more: echo the time of this one."""
        self.hello = replace(self.hello, sent_at_ns=peer.sent_at_ns)
        self.due = True

    def hasten(self, wait_ns: int) -> bool:
        """Wait no longer than that for an answer from now on. Returns whether it would have been longer."""
        is_longer = self._spacing_ns > wait_ns
        self._spacing_ns = min(self._spacing_ns, wait_ns)
        return is_longer

    def repeat(self) -> None:
        """Nobody has answered in time, or somebody wants to hear it once more."""
        self.due = True

    def say(self, now_ns: int) -> Hello:
        """The hello that leaves now."""
        self.due = False
        self.times_said += 1
        self.said_at_ns = now_ns
        if self.initiator:
            self.hello = replace(self.hello, sent_at_ns=now_ns)
        return self.hello

    @property
    def wait_ns(self) -> int | None:
        """How long to wait for an answer to what was said last; None for as long as it takes."""
        if not self.initiator:
            return None
        wait_ns = min(CONNECT_RESEND_NS + (self.times_said - 1) * CONNECT_RESEND_MORE_NS, CONNECT_RESEND_MAX_NS)
        return max(wait_ns, self._spacing_ns)

    def handle_measured(self, rtt_ns: int, *, tells: bool) -> None:
        """An accept has come for this initiator, so long after the connect that it answers.

        Args:
            rtt_ns: how long.
            tells: whether the acceptor has to know it.
        """
        self.unconfirmed = True
        self._figure = RoundTripFrame(rtt_ns) if tells else None

    @property
    def figure(self) -> RoundTripFrame | None:
        """The frame that stands in each datagram that leaves now, or None."""
        return self._figure if self.unconfirmed else None

    def handle_opened(self, now_ns: int) -> int:
        """The session is open here: the introduction is not said again.

        Returns:
            How long what was said took to be answered now; 0 when nobody knows which time it was.
        """
        self.hello = replace(self.hello, introduction=b"")
        return now_ns - self.said_at_ns if self.times_said == 1 else 0

    @property
    def is_unanswered(self) -> bool:
        """Whether the hello of an initiator was said often enough for people to be told."""
        return self.initiator and self.times_said >= UNANSWERED_SENDS
