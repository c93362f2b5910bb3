"""The interface of a session that the queue manager uses.

``triack.session.session.Session`` is its only implementation in the product. Another one, such as of another dialect,
can replace it in a conversation.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from triack.base.delivery import Delivery
from triack.session.protocol.events import Event, Transmit, TransmitRun
from triack.session.protocol.frames import Hello
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.snapshot import SessionSnapshot


class SessionPort(Protocol):
    """One end of a session, as its owner uses it.

    ``commit_serial`` is a growing number that the owner keeps current, and the peer learns.
    """

    commit_serial: int

    def check_invariants(self) -> None:
        """Assert that what it remembers of packets agrees."""

    # ---- state

    @property
    def session_id(self) -> int:
        """Chosen by the initiator, the same at both ends."""

    @property
    def connection_id(self) -> int:
        """Connection id for datagrams to this end."""

    @property
    def initiator(self) -> bool:
        """Whether this end began the session."""

    @property
    def state(self) -> SessionState:
        """State of the session."""

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended."""

    @property
    def one_way_ns(self) -> int:
        """How long a datagram travels to the peer, as far as is known."""

    @property
    def heard_at_ns(self) -> int:
        """When a datagram of the peer last arrived."""

    @property
    def is_unanswered(self) -> bool:
        """Whether this end has been trying to connect for a while."""

    @property
    def said_at_ns(self) -> int:
        """When this end last sent its hello."""

    @property
    def peer_store_wait_ns(self) -> int:
        """How long the peer waits for a store ack at least; 0 while it has not said that."""

    @property
    def peer_commit_serial(self) -> int:
        """The greatest commit_serial that came from the peer."""

    @property
    def room(self) -> int:
        """Number of packets that ``send_packets`` accepts now."""

    @property
    def is_paced(self) -> bool:
        """Whether a packet waits for credit of the pacer."""

    def stats(self) -> SessionSnapshot:
        """Its figures now."""

    # ---- receiving

    def handle_hello(self, peer: Hello, now_ns: int) -> None:
        """Handle the peer's hello: the accept (initiator) or another connect (acceptor)."""

    def handle_retry(self) -> None:
        """The acceptor wants the connect again."""

    def handle_datagrams(self, payloads: list[bytes], counters: list[int], now_ns: int) -> None:
        """Handle datagrams that came together, in order."""

    # ---- sending

    def send_packet(self, delivery: Delivery, content: bytes, context: object, *, ack_requested: bool = False) -> int:
        """Number a packet and queue it for sending. Returns its number."""

    def send_packets(
        self, delivery: Delivery, contents: Sequence[bytes], contexts: Sequence[object], ack_requested: Sequence[int]
    ) -> int:
        """Number several packets and queue them. Returns the number of the first."""

    def poll_run(self, now_ns: int) -> TransmitRun | None:
        """The next datagrams with packets and nothing else; None: use ``poll_transmit``."""

    def poll_transmit(self, now_ns: int) -> Transmit | None:
        """The next datagram to send, or None."""

    def take_counter(self, count: int = 1) -> tuple[int, int]:
        """Reserve counters for the owner's own datagrams. Returns their connection id and the first counter."""

    # ---- time and events

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` must be called at the latest, or None."""

    def handle_timer(self, now_ns: int) -> None:
        """Handle every timer that has run out."""

    @property
    def events(self) -> list[Event]:
        """What has happened; the owner removes what it has taken."""

    # ---- commands

    def introduce(self, introduction: bytes) -> None:
        """Change the introduction for the peer's owner, if the session is not open yet."""

    def hasten(self, wait_ns: int, now_ns: int) -> None:
        """The peer may be back: repeat an unanswered hello after that wait at most."""

    def keep_alive(self, interval_ns: int, now_ns: int) -> None:
        """From now on send a ping after this long without sending; 0: send none."""

    def ping(self) -> None:
        """Ask the peer for every ack that it owes."""

    def stay(self, now_ns: int) -> None:
        """It must not end as idle now: make sure that the peer is still there."""

    def drain(self, now_ns: int) -> None:
        """Accept no more packets, wait for the last acks, then close."""

    def close(self, reason: CloseReason) -> None:
        """Close now and tell the peer."""

    def handle_moved(self) -> None:
        """The peer is at another address."""

    def handle_stored(self, numbers: list[int], now_ns: int) -> None:
        """The commit that holds these received packets has returned."""

    def handle_freed(self, numbers: list[int]) -> None:
        """The owner no longer needs store acks for these packets, sent or not."""

    def withhold(self, number: int) -> None:
        """A received packet is refused, and its rejection follows: session acks name it until the peer has that."""

    def handle_unanswered(self, number: int) -> None:
        """There will be no rejection of a packet that was withheld."""

    def handle_rejections_known(self, numbers: Collection[int]) -> None:
        """The peer has the rejections of these received packets, and no commit will ever hold them."""
