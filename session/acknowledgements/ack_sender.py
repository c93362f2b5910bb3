"""The acknowledgements that one end owes the other: when they leave, and in which datagram.

Promise: an ack leaves with the next datagram once it is due, or rides on a packet when its terms say so. What one ack
covers is its own machine's business (``session_ack``, ``store_ack``).
"""

from collections.abc import Sequence

from triack.base.ack_debt import AckState
from triack.base.ack_trigger import AckTerms, terms_of
from triack.base.delivery import DURABLE
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.session.acknowledgements.session_ack import SessionAck
from triack.session.acknowledgements.store_ack import StoreAck
from triack.session.path.pieces import Pieces
from triack.session.protocol.codec import Codec
from triack.session.protocol.events import AckSent, PacketArrived, PacketDropped, RunArrived
from triack.session.protocol.frames import AckFrame, Ask, PacketFrame, PacketRun, PieceFrame, StoreAckFrame
from triack.session.protocol.policy import Policy
from triack.session.protocol.timers import Timer, Timers


class AckSender:
    """The receiving half of both acknowledgements of one session."""

    __slots__ = ("_pieces", "_window", "session_ack", "store_ack")

    def __init__(self, window: int, policy: Policy, span: int) -> None:
        self._window = window
        self._pieces: Pieces | None = None
        self.session_ack = SessionAck(terms_of(policy.session_ack, policy.window), span)
        self.store_ack = StoreAck(terms_of(policy.store_ack, policy.window))

    def agree(self, policy: Policy, rtt_ns: int) -> None:
        """Put this policy in force."""
        self.session_ack.debt.terms = terms_of(policy.session_ack, policy.window, rtt_ns)
        self.store_ack.debt.terms = terms_of(policy.store_ack, policy.window, rtt_ns)

    @property
    def terms(self) -> AckTerms:
        """When a session ack is due."""
        return self.session_ack.debt.terms

    @property
    def store_terms(self) -> AckTerms:
        """When a store ack is due."""
        return self.store_ack.debt.terms

    @property
    def received(self) -> NumberSet:
        """The packets that have come."""
        return self.session_ack.received

    def handle_packet(self, frame: PacketFrame, counter: int, now_ns: int) -> PacketArrived | PacketDropped:
        """Count a packet that datagram ``counter`` brought. Returns the event for the owner."""
        acks, stores = self.session_ack, self.store_ack
        if not acks.in_reach(frame.number):
            return PacketDropped(DropReason.BEYOND_WINDOW)
        size_bytes = len(frame.content)
        if self._pieces:
            self._pieces.forget(frame.number)
        # A packet that is not durable gets no store ack for which the session ack could wait.
        ask = Ask.AT_ONCE if frame.ask and frame.delivery not in DURABLE else frame.ask
        fresh = acks.handle_packet(frame.number, size_bytes, counter=counter, ack_requested=ask, now_ns=now_ns)
        if not fresh:
            # A duplicate: the last store ack may have been lost.
            stores.handle_request()
        elif frame.delivery in DURABLE:
            stores.handle_packet(frame.number, size_bytes, ack_requested=bool(frame.ask))
        else:
            # No commit will ever report it, and its number would stay a gap in every store ack.
            stores.handle_not_durable(frame.number)
        return PacketArrived(frame.number, frame.delivery, frame.content, not fresh)

    def handle_run(self, run: PacketRun, counter: int, now_ns: int) -> RunArrived:
        """The same for packets that follow all that came before, within reach."""
        if self._pieces:
            for number in range(run.number, run.number + len(run.contents)):
                self._pieces.forget(number)
        if run.delivery in DURABLE:
            self.session_ack.handle_run(run, ack_requested=run.ask, counter=counter, now_ns=now_ns)
            self.store_ack.handle_run(run)
        else:
            self.session_ack.handle_run(
                run, ack_requested=Ask.AT_ONCE if run.ask else Ask.NO, counter=counter, now_ns=now_ns
            )
            self.store_ack.handle_run_not_durable(run)
        return RunArrived(run.number, run.delivery, run.contents)

    def join(self, piece: PieceFrame) -> PacketFrame | None:
        """Take a piece of a packet. Returns the packet when it is whole.

        Raises:
            ProtocolError: ``beyond-window``: no correct sender sends that number now; ``bad-frame``: see ``Pieces``.
        """
        if piece.number in self.received:
            self.repeat()  # a duplicate
            return None
        if not self.session_ack.in_reach(piece.number):
            raise ProtocolError(DropReason.BEYOND_WINDOW, str(piece.number))
        if self._pieces is None:
            self._pieces = Pieces()
        return self._pieces.handle_piece(piece)

    def handle_stored(self, numbers: list[int], now_ns: int) -> None:
        """The commit that holds these packets has returned. A session ack that waited for it is due."""
        self.store_ack.handle_stored(numbers, now_ns)
        if self.store_ack.debt.state is AckState.DUE:
            self.session_ack.debt.handle_company()

    def read_run(self, codec: Codec, payloads: Sequence[bytes]) -> PacketRun | None:
        """The run of packets that these datagrams begin with, as far as it follows all that came before."""
        received = self.session_ack.received
        highest = received.highest
        return codec.decode_run(payloads[: received.cumulative + self.session_ack.span - highest], highest + 1)

    def arm(self, timers: Timers) -> None:
        """Set the timers of acks that are owed and not yet due."""
        for timer, debt in ((Timer.ACK_DELAY, self.session_ack.debt), (Timer.STORE_ACK_DELAY, self.store_ack.debt)):
            if debt.state is AckState.OWED and (deadline_ns := debt.deadline_ns) is not None:
                timers[timer] = deadline_ns
            elif timer in timers:
                del timers[timer]

    def repeat(self) -> None:
        """The last acks may have been lost: they are due again."""
        self.session_ack.debt.handle_request()
        self.store_ack.handle_request()

    def handle_timer(self, now_ns: int) -> None:
        """Acks that are owed may have become due."""
        self.session_ack.debt.handle_timer(now_ns)
        self.store_ack.debt.handle_timer(now_ns)

    def leaving(self, now_ns: int, *, with_packet: bool) -> tuple[bool, bool]:
        """Whether a session ack, and whether a store ack, leaves with the datagram that is made now."""
        session, store = self.session_ack.debt, self.store_ack.debt
        leaves, store_leaves = session.state is AckState.DUE, store.state is AckState.DUE
        if with_packet and session.state is AckState.OWED:
            leaves = session.leaves_with_packet(now_ns)
        if with_packet and store.state is AckState.OWED:
            store_leaves = store.leaves_with_packet(now_ns)
        return leaves, store_leaves

    def due_bytes(self, ack_bytes: int, store_ack_bytes: int) -> int:
        """How many bytes of the acks that leave are due; the others only ride along with a packet."""
        due_bytes = ack_bytes if self.session_ack.debt.state is AckState.DUE else 0
        return due_bytes + store_ack_bytes if self.store_ack.debt.state is AckState.DUE else due_bytes

    def ack(self, now_ns: int) -> AckFrame:
        """The session ack that leaves now."""
        acks = self.session_ack
        received, refused = acks.told
        return AckFrame.of(received, self._window, acks.newest_counter, now_ns - acks.newest_at_ns, refused)

    def store_ack_with(self, mark: int) -> StoreAckFrame:
        """The store ack that leaves now, with the owner's mark."""
        return StoreAckFrame.of(self.store_ack.stored, mark)

    def handle_ack_sent(self, frame: AckFrame | StoreAckFrame) -> AckSent:
        """A session or store ack leaves. Returns its record for the log."""
        debt = self.session_ack.debt if type(frame) is AckFrame else self.store_ack.debt
        trigger = debt.cause if debt.state is AckState.DUE else "piggyback"
        told = AckSent(frame.cumulative, frame.ranges, trigger, debt.pending)
        debt.handle_sent()
        return told
