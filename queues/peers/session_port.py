"""What the queue manager needs of a session, and nothing else: it reaches no machine inside.

``triack.session.session.Session`` is the only one in the product. Whatever offers the same, another dialect's for
example, can take its place in a conversation.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from triack.base.delivery import Delivery
from triack.session.protocol.events import Event, Transmit, TransmitRun
from triack.session.protocol.frames import Hello
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.snapshot import SessionSnapshot

__all__ = ["SessionPort"]


class SessionPort(Protocol):
    """One end of a session, as its owner sees it.

    Attributes:
        commit_serial: a number of the owner's that only grows; the owner keeps it current, and the peer learns it.
    """

    commit_serial: int

    # ---- what it is

    @property
    def session_id(self) -> int:
        """The initiator's choice, the same at both ends."""

    @property
    def connection_id(self) -> int:
        """Where this end wants to get its datagrams."""

    @property
    def initiator(self) -> bool:
        """Whether this end began the session."""

    @property
    def state(self) -> SessionState:
        """Where the session is."""

    @property
    def is_closed(self) -> bool:
        """Whether the session is over."""

    @property
    def is_unanswered(self) -> bool:
        """Whether this end tries to connect, and has done so for a while."""

    @property
    def said_at_ns(self) -> int:
        """When this end said its hello last."""

    @property
    def peer_commit_serial(self) -> int:
        """The greatest commit_serial that came from the peer."""

    @property
    def room(self) -> int:
        """How many packets ``send_packets`` takes now."""

    @property
    def is_paced(self) -> bool:
        """Whether a packet waits for credit of the pacer."""

    def stats(self) -> SessionSnapshot:
        """Its figures now."""

    # ---- what it receives

    def handle_hello(self, peer: Hello, now_ns: int) -> None:
        """Take the peer's hello: the accept (initiator) or one more connect (acceptor)."""

    def handle_retry(self) -> None:
        """The acceptor wants the connect once more."""

    def handle_datagrams(self, payloads: list[bytes], counters: list[int], now_ns: int) -> None:
        """Take datagrams that came together, in order."""

    # ---- what it sends

    def send_packet(self, delivery: Delivery, content: bytes, context: object, *, asks: bool = False) -> int:
        """Number a packet and queue it for sending. Returns its number."""

    def send_packets(
        self, delivery: Delivery, contents: Sequence[bytes], contexts: Sequence[object], asks: Sequence[int]
    ) -> int:
        """The same for several. Returns the number of the first."""

    def poll_run(self, now_ns: int) -> TransmitRun | None:
        """The next datagrams to send with packets and nothing else; None: ``poll_transmit`` says what."""

    def poll_transmit(self, now_ns: int) -> Transmit | None:
        """The next datagram to send, or None."""

    def take_counter(self, count: int = 1) -> tuple[int, int]:
        """The connection id of datagrams of the owner's own, and the first of as many counters."""

    # ---- time and events

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` must be called at the latest, or None."""

    def handle_timer(self, now_ns: int) -> None:
        """Let every timer that has run out do its work."""

    def poll_event(self) -> Event | None:
        """The next thing that happened, or None."""

    # ---- commands

    def introduce(self, introduction: bytes) -> None:
        """Say something else to the peer's owner, if the session is not open yet."""

    def hasten(self, wait_ns: int, now_ns: int) -> None:
        """The peer may be there again: repeat an unanswered hello after that wait at most."""

    def keep_alive(self, interval_ns: int, now_ns: int) -> None:
        """From now on send a ping when nothing was sent for that long; 0: send none."""

    def ping(self) -> None:
        """Ask the peer for every ack that it owes."""

    def drain(self, now_ns: int) -> None:
        """Take no more packets, wait for the last acks, then close."""

    def close(self, reason: CloseReason) -> None:
        """Close now and tell the peer."""

    def handle_moved(self) -> None:
        """The peer is at another address."""

    def handle_stored(self, numbers: list[int], now_ns: int) -> None:
        """The commit that holds these received packets has returned."""

    def handle_freed(self, numbers: list[int]) -> None:
        """The owner needs no store acks any more for these packets, sent or not."""

    def withhold(self, number: int) -> None:
        """A received packet is refused, and its rejection follows: session acks name it until the peer has that."""

    def handle_unanswered(self, number: int) -> None:
        """There will be no rejection of a packet that was withheld."""

    def handle_rejections_known(self, numbers: Collection[int]) -> None:
        """The peer has the rejections of these received packets, and no commit will ever hold them."""
