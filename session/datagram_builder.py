"""Builds the datagrams of a session that is open, or says goodbye: which frames are in each.

Promise: no datagram is longer than the size in force (``path_size``), and none is empty. Acks leave with a packet or
alone. A probe of the path, and each piece of a packet, has a separate datagram.

The other machines provide typed frames. This one decides which of them share a datagram, and the codec encodes them.
"""

from collections.abc import Callable

from triack.base.ack_debt import AckState
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.departing import Departing
from triack.session.path.path_size import PathSize
from triack.session.path.pieces import count, cut
from triack.session.protocol.codec import Codec
from triack.session.protocol.events import Transmit, TransmitKind, TransmitRun
from triack.session.protocol.frames import AckFrame, Ask, CloseFrame, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.opening import Opening
from triack.session.protocol.packets import PacketState, SessionPacket
from triack.session.protocol.states import WITHOUT_ACKS, CloseReason


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
        acks, encode = self._ack_sender, self._codec.encode
        close = encode(CloseFrame(reason))
        transmit = Transmit(TransmitKind.DATA, *self._take_counter(1), b"")
        room_bytes = self._path_size.room_bytes - len(close)
        if reason not in WITHOUT_ACKS:
            # The goodbye acknowledges what arrived here, so that the peer need not resend it.
            if acks.session_ack.debt.owed:
                ack = acks.ack(now_ns)
                room_bytes = self._put_ack(transmit, ack, encode(ack), room_bytes)
            if acks.store_ack.debt.owed:
                store_ack = acks.store_ack_with(mark)
                self._put_ack(transmit, store_ack, encode(store_ack), room_bytes)
        transmit.payload += close
        return transmit

    def leaving(self, mark: int, now_ns: int, *, by_run: bool) -> Transmit | TransmitRun | None:
        """The next datagram, whatever it holds, or None.

        ``by_run``: packets that leave for the first time, and with nothing else in their datagrams, leave together; one
        that is longer than a datagram leaves in pieces.
        """
        acks, sizes, encode, opening = self._ack_sender, self._path_size, self._codec.encode, self._opening
        figure = opening.figure if opening.unconfirmed else None
        head = b"" if figure is None else encode(figure)
        head_bytes, sent = 0 if figure is None else len(head), self._departing.next_packet(now_ns)
        waits = sent is not None and sent.size_bytes + head_bytes > sizes.size_bytes
        if sent is not None and waits:
            if by_run and figure is None:
                return self._pieces_of(sent, mark, now_ns)
            sent = None
        ack_leaves = store_ack_leaves = False
        least = AckState.DUE if sent is None else AckState.OWED
        if acks.session_ack.debt.state >= least or acks.store_ack.debt.state >= least:
            ack_leaves, store_ack_leaves = acks.leaving(now_ns, with_packet=sent is not None)
        is_more = ack_leaves or store_ack_leaves or self._probing.ping_due
        if by_run and figure is None and not is_more and sent is not None and sent.state is PacketState.QUEUED:
            return self._run(mark, now_ns)
        path = sizes.path
        if figure is None and path.due_bytes <= path.sent_bytes and (probe := sizes.poll_probe(now_ns)) is not None:
            return Transmit(TransmitKind.DATA, *self._take_counter(1), encode(probe))
        if sent is None and not is_more and not sizes.answer:
            return None
        ack = acks.ack(now_ns) if ack_leaves else None
        ack_data = b"" if ack is None else encode(ack)
        store_ack = acks.store_ack_with(mark) if store_ack_leaves else None
        store_ack_data = b"" if store_ack is None else encode(store_ack)
        room_bytes = (sizes.room_bytes if sent is None else sizes.size_bytes - sent.size_bytes) - head_bytes
        if sent is not None and room_bytes < acks.due_bytes(len(ack_data), len(store_ack_data)):
            # Acks with many ranges need a separate datagram; the packet follows in the next.
            sent, room_bytes = None, sizes.room_bytes - head_bytes
        transmit = Transmit(TransmitKind.DATA, *self._take_counter(1), head, sent)
        if ack is not None:
            room_bytes = self._put_ack(transmit, ack, ack_data, room_bytes)
        if store_ack is not None:
            room_bytes = self._put_ack(transmit, store_ack, store_ack_data, room_bytes)
        # What waits leaves once the peer has confirmed the session, as then no figure goes with it, or in pieces.
        self._probing.ping_due = self._probing.ping_due or (waits and figure is not None)
        if sizes.answer or self._probing.ping_due:
            self._put_requests(transmit, room_bytes)
        if sent is None:
            return transmit
        ask = self._departing.handle_sent((sent,), transmit.counter, now_ns)
        if figure is not None and self._departing.next_larger(now_ns) is not None:
            ask = self._probing.last_asked = Ask.AT_ONCE
        transmit.payload += encode(PacketFrame(sent.number, sent.delivery, ask, sent.content, mark))
        return transmit

    def _run(self, mark: int, now_ns: int) -> TransmitRun:
        packets = self._departing.next_run()
        connection_id, counter = self._take_counter(len(packets))
        last_ask = self._departing.handle_sent(packets, counter, now_ns)
        return TransmitRun(connection_id, counter, self._codec.encode_run(packets, last_ask, mark), packets)

    def _pieces_of(self, sent: SessionPacket, mark: int, now_ns: int) -> TransmitRun:
        piece_bytes = self._path_size.piece_room_bytes - self._codec.piece_header_bytes
        pieces = count(sent, piece_bytes)
        connection_id, counter = self._take_counter(pieces)
        ack_requested = self._departing.handle_sent((sent,), counter, now_ns, pieces=pieces)
        payloads = [self._codec.encode(piece) for piece in cut(sent, piece_bytes, mark, ack_requested=ack_requested)]
        return TransmitRun(connection_id, counter, payloads, [sent])

    def _put_ack(self, transmit: Transmit, ack: AckFrame | StoreAckFrame, encoded: bytes, room_bytes: int) -> int:
        """Add an ack if there is room for it. Returns how much room is left."""
        size_bytes = len(encoded)
        if size_bytes > room_bytes:
            return room_bytes
        transmit.payload += encoded
        told = self._ack_sender.handle_ack_sent(ack)
        if type(ack) is AckFrame:
            transmit.ack = told
        else:
            transmit.store_ack = told
        return room_bytes - size_bytes

    def _put_requests(self, transmit: Transmit, room_bytes: int) -> None:
        """Add the answer to a probe of the path, and a ping, if there is room for them."""
        path_size, probing = self._path_size, self._probing
        if path_size.answer is not None and len(answer := self._codec.encode(path_size.answer)) <= room_bytes:
            transmit.payload += answer
            room_bytes -= len(answer)
            path_size.answer = None
        if probing.ping_due and len(ping := self._codec.encode(PingFrame())) <= room_bytes:
            transmit.payload += ping
            probing.ping_due = False
            transmit.ping = True
