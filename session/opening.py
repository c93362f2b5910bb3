"""The opening of a session: what this end says of itself, and when it says so again.

Promise: our hello is said at once, and again whenever there is something new in it. An initiator repeats it, more and
more patiently, until the session opens or ends; an acceptor repeats itself a few times unasked, then only when asked: a
stranger could have faked the connect, and would make us send to somebody else (RFC 9000 section 8.1).

    DUE --said--> SAID --resend timer | another connect | something new--> DUE
"""

from dataclasses import replace

from triack.base.units import MS
from triack.session.frames import NO_ECHO, Hello

__all__ = ["Opening"]

CONNECT_RESEND_NS = 200 * MS
"""Twice the round trip that is assumed before the first sample (``rtt.INITIAL_RTT_NS``); a lost connect is soon
repaired."""
CONNECT_RESEND_MAX_NS = 500 * MS
"""The wait doubles no further: a peer that starts while we call should not have to wait for us."""
ACCEPT_RESENDS_MAX = 3
"""An acceptor repeats itself this often unasked; after that only another connect makes it speak."""
UNANSWERED_SENDS = 4
"""An initiator that has said its hello so often has waited for a second: several losses in a row, or nobody there."""
_DOUBLINGS_MAX = 8
"""More are beyond the longest wait, and only make large numbers."""


class Opening:
    """What one end says before the session is open.

    Args:
        hello: ours.
        peer: the initiator's when this end accepts, None when it initiates.

    Attributes:
        hello: ours, as it was said last.
        initiator: whether this end began the session.
        due: whether the hello is to be said now.
    """

    __slots__ = ("_echo_ns", "_sends", "due", "hello", "initiator")

    def __init__(self, hello: Hello, peer: Hello | None) -> None:
        self.initiator = peer is None
        self._echo_ns = 0 if peer is None else peer.sent_at_ns
        self.hello = replace(hello, sent_at_ns=self._echo_ns)
        self.due = True
        self._sends = 0

    def introduce(self, introduction: bytes) -> None:
        """There is something new to say."""
        self.hello = replace(self.hello, introduction=introduction)
        self.due = True

    def handle_connect(self, peer: Hello) -> None:
        """The initiator has said its hello once more: echo the latest of its times."""
        self._echo_ns = max(self._echo_ns, peer.sent_at_ns)
        self.hello = replace(self.hello, sent_at_ns=self._echo_ns)
        self.due = True

    def handle_timer(self) -> None:
        """Nobody has answered in time."""
        if not self.initiator and not self.due:
            self.hello = replace(self.hello, sent_at_ns=NO_ECHO)
        self.due = True

    def say(self, now_ns: int) -> Hello:
        """The hello that leaves now."""
        self.due = False
        self._sends += 1
        if self.initiator:
            self.hello = replace(self.hello, sent_at_ns=now_ns)
        return self.hello

    @property
    def wait_ns(self) -> int | None:
        """How long to wait for an answer to what was said last; None for as long as it takes."""
        if not self.initiator and self._sends > ACCEPT_RESENDS_MAX:
            return None
        return min(CONNECT_RESEND_NS << min(self._sends - 1, _DOUBLINGS_MAX), CONNECT_RESEND_MAX_NS)

    @property
    def is_unanswered(self) -> bool:
        """Whether the hello of an initiator was said often enough for people to be told."""
        return self.initiator and self._sends >= UNANSWERED_SENDS

    def normalize(self) -> None:
        """For searches that keep the clock still: how often it was said only sets the wait.

        An acceptor that says hello once more of its own says nothing that is not in the network already.
        """
        self._sends = min(self._sends, 1)
