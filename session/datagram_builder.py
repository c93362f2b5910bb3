"""Builds the datagrams of a session that is open, or says goodbye: which frames are in each.

Promise: no datagram is longer than the size in force (``path_size``), and none is empty. Acks leave with a packet or
alone. A probe of the path, and each piece of a packet, has a separate datagram.

The other machines provide typed frames. This one decides which of them share a datagram, and the codec encodes them.
"""

from collections.abc import Callable

from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.departing import Departing
from triack.session.path.path_size import PathSize
from triack.session.path.pieces import count, cut
from triack.session.protocol.codec import Codec
from triack.session.protocol.events import Transmit, TransmitKind, TransmitRun
from triack.session.protocol.frames import AckFrame, Ask, CloseFrame, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.opening import Opening
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.states import WITHOUT_ACKS, CloseReason


class _Draft:
    __slots__ = ("parts", "room_bytes", "transmit")

    def __init__(self, transmit: Transmit, head: bytes, room_bytes: int) -> None:
        self.transmit = transmit
        self.parts = [head]
        self.room_bytes = room_bytes

    def put(self, encoded: bytes) -> bool:
        """Add a frame. Returns False if there is no room for it."""
        size_bytes = len(encoded)
        if size_bytes > self.room_bytes:
            return False
        self.parts += (encoded,)
        self.room_bytes -= size_bytes
        return True

    def end(self, encoded: bytes) -> Transmit:
        """Add the frame that room was kept for; empty: none. Returns the datagram."""
        self.transmit.payload = b"".join((*self.parts, encoded))
        return self.transmit


class DatagramBuilder:
    """Makes datagrams of the frames that the machines of a session want to send."""

    __slots__ = ("_ack_sender", "_codec", "_departing", "_opening", "_path_size", "_probing", "_take_counter")

    def __init__(
        self,
        codec: Codec,
        departing: Departing,
        ack_sender: AckSender,
        probing: Probing,
        path_size: PathSize,
        opening: Opening,
        take_counter: Callable[[int], tuple[int, int]],
    ) -> None:
        self._codec = codec
        self._departing = departing
        self._ack_sender = ack_sender
        self._probing = probing
        self._path_size = path_size
        self._opening = opening
        self._take_counter = take_counter

    def goodbye(self, reason: CloseReason, mark: int, now_ns: int) -> Transmit:
        """The last datagram of a session, with the reason for closing."""
        close = self._codec.encode(CloseFrame(reason))
        transmit = Transmit(TransmitKind.DATA, *self._take_counter(1), b"")
        draft = _Draft(transmit, b"", self._path_size.room_bytes - len(close))
        if reason not in WITHOUT_ACKS:
            # The goodbye acknowledges what arrived here, so that the peer need not resend it.
            if self._ack_sender.session_ack.debt.owed:
                ack = self._ack_sender.ack(now_ns)
                self._put_ack(draft, ack, self._codec.encode(ack))
            if self._ack_sender.store_ack.debt.owed:
                store_ack = self._ack_sender.store_ack_with(mark)
                self._put_store_ack(draft, store_ack, self._codec.encode(store_ack))
        return draft.end(close)

    def run(self, mark: int, now_ns: int) -> TransmitRun | None:
        """Datagrams with packets and nothing else, or None."""
        if self._opening.unconfirmed and self._opening.figure is not None:
            return None
        sizes = self._path_size
        if sizes.longest_bytes > sizes.size_bytes and (larger := self._departing.next_larger(now_ns)) is not None:
            return self._pieces_of(larger, mark, now_ns)
        packets = self._departing.next_run(now_ns)
        if not packets:
            return None
        connection_id, counter = self._take_counter(len(packets))
        last_ask = self._departing.handle_run_sent(packets, counter, now_ns)
        return TransmitRun(connection_id, counter, self._codec.encode_run(packets, last_ask, mark), packets)

    def _pieces_of(self, sent: SessionPacket, mark: int, now_ns: int) -> TransmitRun:
        piece_bytes = self._path_size.piece_room_bytes - self._codec.piece_header_bytes
        pieces = count(sent, piece_bytes)
        connection_id, counter = self._take_counter(pieces)
        ack_requested = self._departing.handle_sent(sent, counter, now_ns, pieces=pieces)
        payloads = [self._codec.encode(piece) for piece in cut(sent, piece_bytes, mark, ack_requested=ack_requested)]
        return TransmitRun(connection_id, counter, payloads, [sent])

    def datagram(self, mark: int, now_ns: int) -> Transmit | None:
        """The next datagram, whatever it holds, or None."""
        acks, sizes, encode, opening = self._ack_sender, self._path_size, self._codec.encode, self._opening
        figure = opening.figure if opening.unconfirmed else None
        if figure is None and (probe := sizes.poll_probe(now_ns)) is not None:
            return Transmit(TransmitKind.DATA, *self._take_counter(1), encode(probe))
        head = b"" if figure is None else encode(figure)
        sent = self._departing.next_packet(now_ns)
        waits = sent is not None and not sizes.fits(sent, len(head))
        if waits:
            sent = None
        ack_leaves, store_ack_leaves = acks.leaving(now_ns, with_packet=sent is not None)
        if sent is None and not (ack_leaves or store_ack_leaves or self._probing.ping_due or sizes.answer):
            return None
        ack = acks.ack(now_ns) if ack_leaves else None
        ack_data = b"" if ack is None else encode(ack)
        store_ack = acks.store_ack_with(mark) if store_ack_leaves else None
        store_ack_data = b"" if store_ack is None else encode(store_ack)
        room_bytes = (sizes.room_bytes if sent is None else sizes.size_bytes - sent.size_bytes) - len(head)
        if sent is not None and room_bytes < acks.due_bytes(len(ack_data), len(store_ack_data)):
            # Acks with many ranges need a separate datagram; the packet follows in the next.
            sent, room_bytes = None, sizes.room_bytes - len(head)
        transmit = Transmit(TransmitKind.DATA, *self._take_counter(1), b"", sent)
        draft = _Draft(transmit, head, room_bytes)
        if ack is not None:
            self._put_ack(draft, ack, ack_data)
        if store_ack is not None:
            self._put_store_ack(draft, store_ack, store_ack_data)
        if waits and figure is not None:
            # It leaves once the peer has confirmed the session, as then no figure goes with it, or in pieces.
            self._probing.ping_due = True
        if sizes.answer or self._probing.ping_due:
            self._put_requests(draft)
        if sent is None:
            return draft.end(b"")
        ask = self._departing.handle_sent(sent, transmit.counter, now_ns)
        if figure is not None and self._departing.next_larger(now_ns) is not None:
            ask = self._probing.last_asked = Ask.AT_ONCE
        return draft.end(encode(PacketFrame(sent.number, sent.delivery, ask, sent.content, mark)))

    def _put_ack(self, draft: _Draft, ack: AckFrame, encoded: bytes) -> None:
        if draft.put(encoded):
            draft.transmit.ack = self._ack_sender.handle_ack_sent(ack)

    def _put_store_ack(self, draft: _Draft, ack: StoreAckFrame, encoded: bytes) -> None:
        if draft.put(encoded):
            draft.transmit.store_ack = self._ack_sender.handle_store_ack_sent(ack)

    def _put_requests(self, draft: _Draft) -> None:
        """Add the answer to a probe of the path, and a ping."""
        path_size, probing = self._path_size, self._probing
        if path_size.answer is not None and draft.put(self._codec.encode(path_size.answer)):
            path_size.answer = None
        if probing.ping_due and draft.put(self._codec.encode(PingFrame())):
            probing.ping_due = False
            draft.transmit.ping = True
