"""The opening of a session: the hello of this end, and when it is resent.

Promise: an initiator sends its hello at once and whenever its content changes, and repeats it at growing intervals
until the session opens or ends. An acceptor sends one hello for each connect that it gets, and none unasked: a stranger
could have forged the connect, to make us send to another host (RFC 9000 section 8.1).

    DUE --said--> SAID --initiator: resend timer | something new; acceptor: another connect--> DUE

An initiator that opens has heard the acceptor. The acceptor does not know that yet, and opens only when it does. So the
initiator asks until it hears the acceptor again. If it has sent several connects, or delays are given in round trips,
each datagram until then carries the round trip that the echo of its connect has shown: an acceptor that got several
connects cannot tell which accept was answered, and would take a long way for a short one. MSMQ's initiator sends the
same figure in its connection parameters ([MS-MQQB] 3.1.5.3.2).
"""

from dataclasses import replace

from triack.base.units import MS
from triack.session.protocol.frames import Hello, RoundTripFrame

CONNECT_RESEND_NS = 200 * MS
"""Twice the round trip that is assumed before the first sample (``rtt.INITIAL_RTT_NS``); a lost connect is soon
repaired."""
CONNECT_RESEND_MORE_NS = 20 * MS
"""By this each wait exceeds the one before: little, as losses come in bursts. Where a third of all datagrams is lost,
three in a row, ninety-nine of a hundred sessions are open within five seconds."""
CONNECT_RESEND_MAX_NS = 500 * MS
"""The wait grows no further by itself, so that a peer that starts meanwhile gets a connect soon. An owner whose peer
has been away for long sets a longer one (``spacing_ns``)."""
CONNECTS_OPEN = 32
"""An initiator takes an answer to any of its last connects, up to this number. Where it may try for long, the wait
grows until they span all of that time, as the answer to the first may come late."""
UNANSWERED_SENDS = 4
"""After this number of hellos an initiator has waited for nearly a second: several were lost, or no peer is there."""


class Opening:
    """The hellos of one end before the session is open.

    Attributes:
        initiator: whether this end began the session.
        due: whether the hello must be sent now.
        unconfirmed: whether the session is open here, but not known to be open at the peer.
        spacing_ns: as given, or shorter since (``hasten``).
    """

    __slots__ = (
        "_figure",
        "_most_ns",
        "due",
        "hello",
        "initiator",
        "said_at_ns",
        "spacing_ns",
        "times_said",
        "unconfirmed",
    )

    def __init__(self, hello: Hello, peer: Hello | None, spacing_ns: int = 0, limit_ns: int = 0) -> None:
        self._most_ns = max(CONNECT_RESEND_MAX_NS, limit_ns // CONNECTS_OPEN)
        self.initiator = peer is None
        self._figure: RoundTripFrame | None = None
        self.spacing_ns = spacing_ns
        self.hello = hello if peer is None else replace(hello, sent_at_ns=peer.sent_at_ns)
        self.due = True
        self.unconfirmed = False
        self.times_said = 0
        self.said_at_ns = 0

    def introduce(self, introduction: bytes) -> None:
        """Replace the introduction; an acceptor sends it with the answer to the next connect."""
        self.hello = replace(self.hello, introduction=introduction)
        self.due = self.due or self.initiator

    def handle_connect(self, peer: Hello) -> None:
        """The initiator has resent its hello: echo the time of this one."""
        self.hello = replace(self.hello, sent_at_ns=peer.sent_at_ns)
        self.due = True

    def hasten(self, wait_ns: int) -> bool:
        """Wait at most ``wait_ns`` for each answer from now on. Returns whether the wait was longer."""
        is_longer = self.spacing_ns > wait_ns
        self.spacing_ns = min(self.spacing_ns, wait_ns)
        return is_longer

    def repeat(self) -> None:
        """Resend the hello: no answer came in time, or the acceptor wants it again."""
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
        """How long to wait for an answer to the last hello; None: without limit."""
        if not self.initiator:
            return None
        wait_ns = min(CONNECT_RESEND_NS + (self.times_said - 1) * CONNECT_RESEND_MORE_NS, self._most_ns)
        return max(wait_ns, self.spacing_ns)

    def handle_measured(self, rtt_ns: int, *, tells: bool) -> None:
        """An accept has come for this initiator.

        Args:
            rtt_ns: the time since the connect that it answers.
            tells: whether the acceptor must know just that. It measures it by itself, too, after a single connect.
        """
        self.unconfirmed = True
        self._figure = RoundTripFrame(rtt_ns) if tells or self.times_said > 1 else None

    @property
    def figure(self) -> RoundTripFrame | None:
        """The frame that goes into each datagram that leaves now, or None."""
        return self._figure if self.unconfirmed else None

    def handle_opened(self, now_ns: int) -> int:
        """The session is open here: the introduction is not sent again.

        Returns:
            How long the answer to our hello took; 0 when the hello was sent several times.
        """
        self.hello = replace(self.hello, introduction=b"")
        return now_ns - self.said_at_ns if self.times_said == 1 else 0

    @property
    def is_unanswered(self) -> bool:
        """Whether an initiator has sent its hello often enough to notify the user."""
        return self.initiator and self.times_said >= UNANSWERED_SENDS
