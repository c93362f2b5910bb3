"""Receiving: opens the datagrams that come from addresses, and gives them to the sessions that they name.

Datagrams of one conversation that came together are opened, and given to its session, in one go.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from triack.base.datagram import Header, Kind, connection_id_of, read_header
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.queues.manager.callers import Callers
from triack.queues.manager.pings import Pings, clock_of
from triack.queues.peers.handshake import Handshakes
from triack.queues.peers.link import HELLOS, Conversation
from triack.session.protocol.states import CloseReason, SessionState


class Burst:
    """Opened datagrams of one conversation that came together: their payloads and counters."""

    __slots__ = ("conversation", "counters", "payloads")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.payloads: list[bytes] = []
        self.counters: list[int] = []


@dataclass(eq=False, repr=False)
class Receiver:
    """Takes the datagrams of a node. Bad ones are dropped, and counted by their reason.

    Args:
        turn: called with the time of each call.
        callers: those that call this node and get no answer.
        report: called with a conversation whose session may have something to report.
        close: closes the session of a conversation.
        is_open: whether this node says anything of its own, so that peers may open sessions.
    """

    turn: Callable[[int], object]
    handshakes: Handshakes
    callers: Callers
    pings: Pings
    drops: Counter[DropReason]
    report: Callable[[Conversation], None]
    close: Callable[[Conversation, CloseReason], None]
    is_open: Callable[[], bool]

    def handle_datagrams(self, burst: list[bytes], sender: str, now_ns: int) -> None:
        """Handle datagrams that came together from an address, in order."""
        self.turn(now_ns)
        run: Burst | None = None
        while burst:
            taken = 1
            try:
                header = read_header(burst[0])
                if header.kind is not Kind.DATA:
                    self._end_burst(run, sender, now_ns)
                    run = None
                    self._handle_other(burst[0], header, sender, now_ns)
                else:
                    conversation = self.handshakes.index.of(header)
                    if run is not None and run.conversation is not conversation:
                        self._end_burst(run, sender, now_ns)
                        run = None
                    run = run or Burst(conversation)
                    taken = self._open_run(run, burst, header, now_ns)
            except ProtocolError as error:
                self.drops[error.reason] += 1
                self.callers.handle_dropped(burst[0], error, sender, now_ns)
            burst = burst[taken:]
        self._end_burst(run, sender, now_ns)

    def _open_run(self, run: Burst, burst: list[bytes], header: Header, now_ns: int) -> int:
        """Open the data at the beginning of a burst. Returns how many datagrams were opened."""
        conversation = run.conversation
        opened, taken = conversation.open_run(burst, header, now_ns)
        run.payloads += opened.payloads
        run.counters += opened.counters
        for error in opened.errors:
            self._handle_unopened(conversation, error)
            self.drops[error.reason] += 1
        return taken

    def _end_burst(self, run: Burst | None, sender: str, now_ns: int) -> None:
        """Give the opened datagrams of one conversation to its session."""
        if run is None or not run.payloads:
            return
        conversation, session = run.conversation, run.conversation.session
        conversation.wake()
        try:
            if session.state is SessionState.ACCEPTING:
                self.handshakes.confirm(conversation)
        except ProtocolError as error:
            self.drops[error.reason] += len(run.payloads)
            return
        session.handle_datagrams(run.payloads, run.counters, now_ns)
        if conversation.known is not None:
            conversation.known.handle_serial(session.peer_commit_serial)
        size_bytes = sum(map(len, run.payloads)) + conversation.channel.overhead_bytes * len(run.payloads)
        conversation.handle_arrived(max(run.counters), sender, size_bytes, self.handshakes.sessions.draw, now_ns)
        self.report(conversation)

    def _handle_other(self, data: bytes, header: Header, sender: str, now_ns: int) -> None:
        if header.kind is Kind.CONNECT:
            self._handle_connect(data, header, sender, now_ns)
            return
        conversation = self.handshakes.index.of(header)
        payload = self._open(conversation, data, header, now_ns)
        conversation.wake()
        match header.kind:
            case Kind.ACCEPT:
                self.handshakes.handle_accept(conversation, self.handshakes.codec.decode_hello(payload), now_ns)
            case Kind.RETRY:
                conversation.session.handle_retry()
            case Kind.CHALLENGE:
                _require_open(conversation)
                conversation.look_around().handle_challenge(clock_of(payload)[0], sender)
            case Kind.RESPONSE:
                _require_open(conversation)
                answer, clock_ms = clock_of(payload)
                if not self.pings.handle_response(conversation, answer, clock_ms, now_ns):
                    self.handshakes.index.handle_response(conversation, answer, sender)
        if header.kind not in HELLOS:
            conversation.handle_arrived(header.counter, sender, len(data), self.handshakes.sessions.draw, now_ns)
        self.report(conversation)

    def _open(self, conversation: Conversation, data: bytes, header: Header, now_ns: int) -> bytes:
        try:
            return conversation.open(data, header, now_ns)
        except ProtocolError as error:
            self._handle_unopened(conversation, error)
            raise

    def _handle_unopened(self, conversation: Conversation, error: ProtocolError) -> None:
        if error.reason == DropReason.TOO_MANY_FORGERIES:
            self.close(conversation, CloseReason.TOO_MANY_FORGERIES)

    def source_of(self, datagram: bytes) -> str | bytes | None:
        """The peer whose turn a datagram uses, by the conversation that it names; None for all others.

        It costs one lookup and proves nothing: a sender that names another peer's conversation uses up that peer's
        turns. An address is no source because a peer may send from any number of them.
        """
        conversation = self.handshakes.conversations.get(connection_id_of(datagram))
        if conversation is None:
            return None
        return conversation.channel.peer or conversation.peer_id or conversation.path

    def _handle_connect(self, data: bytes, header: Header, sender: str, now_ns: int) -> None:
        if not self.is_open():
            raise ProtocolError(DropReason.CLOSING)
        self.handshakes.handle_connect(data, header, sender, now_ns)


def _require_open(conversation: Conversation) -> None:
    if not conversation.is_live:
        raise ProtocolError(DropReason.NOT_OPEN)
