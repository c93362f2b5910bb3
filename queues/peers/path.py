"""Path validation: a new address of a peer is used only after the peer has answered a challenge from there.

A datagram that opens is the peer's, but does not prove the peer's address: an attacker on the path can forward it from
elsewhere, and faster. So the address from which the newest datagram came is only a candidate. It gets a challenge,
eight random bytes under the session's keys, and becomes the path when the same bytes come back from there, as in RFC
9000, section 8.2. Until then everything else goes to the old path, and the candidate gets at most three times the bytes
that came from it (section 8.1).

    SETTLED --elsewhere--> ASKING --asked--> WAITING --answered--> SETTLED, at the new address
    ASKING or WAITING --elsewhere, but another address--> ASKING
    ASKING or WAITING --back, or given up--> SETTLED, at the old one
    WAITING --again--> ASKING

A challenged node answers to the address that the challenge came from. A challenge is as long as its answer, and an
authentic one is accepted once, so that no address is sent more bytes than came from it. Behind the eight bytes, each
has room for a time of day, for pings (``queues.manager.pings``).
"""

from collections.abc import Callable
from enum import Enum

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.base.transitions import next_state
from triack.base.units import MS, SECOND

CHALLENGE_BYTES = 8
"""Too many to guess in the few possible tries (RFC 9000, section 19.17)."""
AMPLIFICATION = 3
"""Bytes that a candidate may get for each that came from it (RFC 9000, section 8.1)."""
ANSWERS_MAX = 8
"""Of challenges that came together the newest are answered: a path needs one, and a few pings may come with it."""
REPEAT_NS = 250 * MS
"""Time until an unanswered challenge is repeated: longer than most round trips, and hardly noticeable."""
GIVE_UP_NS = 3 * SECOND
"""Time until an unanswering candidate is given up: a dozen challenges. Newer datagrams from there begin again."""


class PathState(Enum):
    """State of path validation."""

    SETTLED = "settled"
    ASKING = "asking"
    WAITING = "waiting"


class PathEvent(Enum):
    """Event of path validation."""

    ELSEWHERE = "elsewhere"
    BACK = "back"
    ASKED = "asked"
    AGAIN = "again"
    ANSWERED = "answered"
    GIVEN_UP = "given up"


TRANSITIONS: dict[PathState, dict[PathEvent, PathState]] = {
    PathState.SETTLED: {PathEvent.ELSEWHERE: PathState.ASKING},
    PathState.ASKING: {
        PathEvent.ELSEWHERE: PathState.ASKING,
        PathEvent.BACK: PathState.SETTLED,
        PathEvent.ASKED: PathState.WAITING,
        PathEvent.ANSWERED: PathState.SETTLED,
        PathEvent.GIVEN_UP: PathState.SETTLED,
    },
    PathState.WAITING: {
        PathEvent.ELSEWHERE: PathState.ASKING,
        PathEvent.BACK: PathState.SETTLED,
        PathEvent.AGAIN: PathState.ASKING,
        PathEvent.ANSWERED: PathState.SETTLED,
        PathEvent.GIVEN_UP: PathState.SETTLED,
    },
}


class Paths:
    """Validates another path of one conversation. ``candidate``: the address being validated; empty when settled."""

    __slots__ = ("_answers", "_credit_bytes", "_question", "_repeat_ns", "_until_ns", "candidate", "state")

    def __init__(self) -> None:
        self.state = PathState.SETTLED
        self.candidate = ""
        self._question = b""
        self._credit_bytes = 0
        self._repeat_ns = 0
        self._until_ns = 0
        self._answers: list[tuple[str, bytes]] = []

    def _move(self, event: PathEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)
        if self.state is PathState.SETTLED:
            self.candidate, self._question, self._credit_bytes = "", b"", 0

    @property
    def is_settled(self) -> bool:
        """Whether there is no candidate, and no response to send."""
        return self.state is PathState.SETTLED and not self._answers

    # ---- inputs

    def handle_datagram(
        self, path: str, sender: str, size_bytes: int, *, newest: bool, draw: Callable[[int], bytes], now_ns: int
    ) -> None:
        """An authentic datagram has arrived, for a conversation that uses ``path``.

        ``newest``: none with a greater counter came before; old ones may come from an old address. ``draw`` gives
        random bytes.
        """
        if sender == path:
            if newest and self.state is not PathState.SETTLED:
                self._move(PathEvent.BACK)
            return
        if sender != self.candidate:
            if not newest or _transport_of(sender) != _transport_of(path):
                return
            self._move(PathEvent.ELSEWHERE)
            self.candidate, self._question, self._credit_bytes = sender, draw(CHALLENGE_BYTES), 0
            self._until_ns = now_ns + GIVE_UP_NS
        self._credit_bytes += AMPLIFICATION * size_bytes

    def handle_challenge(self, question: bytes, sender: str) -> None:
        """The peer challenges our address. Raises ProtocolError ``bad-frame``."""
        if len(question) != CHALLENGE_BYTES:
            raise ProtocolError(DropReason.BAD_FRAME, f"a challenge of {len(question)} bytes")
        if len(self._answers) == ANSWERS_MAX:
            del self._answers[0]
        self._answers.append((sender, question))

    def handle_response(self, answer: bytes, sender: str) -> None:
        """A response has arrived: the candidate becomes the path. Raises ProtocolError ``unexpected-response``."""
        if self.state is PathState.SETTLED or (sender, answer) != (self.candidate, self._question):
            raise ProtocolError(DropReason.UNEXPECTED_RESPONSE)
        self._move(PathEvent.ANSWERED)

    # ---- outputs

    def poll_answer(self) -> tuple[str, bytes] | None:
        """Address and content of the next response, or None."""
        return self._answers.pop(0) if self._answers else None

    def poll_challenge(self, size_bytes: int, now_ns: int) -> tuple[str, bytes] | None:
        """Address and content of a challenge in a datagram of that size, or None."""
        self._handle_time(now_ns)
        if self.state is not PathState.ASKING or self._credit_bytes < size_bytes:
            return None
        self._move(PathEvent.ASKED)
        self._credit_bytes -= size_bytes
        self._repeat_ns = now_ns + REPEAT_NS
        return self.candidate, self._question

    def _handle_time(self, now_ns: int) -> None:
        if self.state is PathState.SETTLED:
            return
        if now_ns >= self._until_ns:
            self._move(PathEvent.GIVEN_UP)
        elif self.state is PathState.WAITING and now_ns >= self._repeat_ns:
            self._move(PathEvent.AGAIN)

    def next_deadline(self) -> int | None:
        """When ``poll_challenge`` must be called at the latest, or None."""
        if self.state is PathState.SETTLED:
            return None
        return min(self._repeat_ns, self._until_ns) if self.state is PathState.WAITING else self._until_ns


def _transport_of(address: str) -> str:
    return address.partition(":")[0]
