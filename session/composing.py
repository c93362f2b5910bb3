"""Datagrams of a session that is open, or says goodbye: which frames stand in each.

Promise: no datagram is longer than the size in force (``sizing``), and none is empty. What is owed goes along with the
packet that leaves, or by itself; a probe of the path has a datagram for itself, as each piece of a packet has.
"""

from collections.abc import Callable

from triack.session.acknowledgements.answering import Answering
from triack.session.acknowledgements.probing import Probing
from triack.session.congestion.send_window import SendWindow
from triack.session.departing import Departing
from triack.session.path.pieces import count, cut
from triack.session.path.sizing import Sizing
from triack.session.protocol import frames as wire
from triack.session.protocol.events import Transmit, TransmitKind, TransmitRun
from triack.session.protocol.opening import Opening
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.states import WITHOUT_ACKS, CloseReason

__all__ = ["Composing"]


class Composing:
    """Makes datagrams of what the machines of a session want to say.

    Args:
        window: has the packets.
        departing: says which of them leaves.
        answering: has the acks.
        probing: has pings.
        sizing: has probes of the path, and says how long a datagram may be.
        opening: has what stands in each datagram until the peer is known to be open; nothing leaves alone until then.
        take_counter: gives the connection id, and the first of so many counters.
    """

    __slots__ = ("_answering", "_departing", "_opening", "_probing", "_sizing", "_take_counter", "_window")

    def __init__(
        self,
        window: SendWindow,
        departing: Departing,
        answering: Answering,
        probing: Probing,
        sizing: Sizing,
        opening: Opening,
        take_counter: Callable[[int], tuple[int, int]],
    ) -> None:
        self._window = window
        self._departing = departing
        self._answering = answering
        self._probing = probing
        self._sizing = sizing
        self._opening = opening
        self._take_counter = take_counter

    def goodbye(self, reason: CloseReason, mark: int, now_ns: int) -> Transmit:
        """The last datagram of a session, and why it is the last."""
        transmit = Transmit(TransmitKind.DATA, *self._take_counter(1), b"")
        frames: list[bytes] = []
        if reason not in WITHOUT_ACKS:
            # What arrived here is said with the goodbye, so that the peer need not send it again.
            self._answering.put_owed(transmit, frames, self._sizing.room_bytes - wire.CLOSE_BYTES, mark, now_ns)
        frames.append(wire.encode_close(reason))
        transmit.payload = b"".join(frames)
        return transmit

    def run(self, mark: int, now_ns: int) -> TransmitRun | None:
        """Datagrams with packets and nothing else, or None."""
        if self._opening.figure:
            return None
        larger = self._departing.next_larger(now_ns)
        if larger is not None:
            return self._pieces_of(larger, mark, now_ns)
        packets = self._departing.next_run(now_ns)
        if not packets:
            return None
        connection_id, counter = self._take_counter(len(packets))
        asks = self._departing.handle_run_sent(packets, counter, now_ns)
        payloads = [wire.encode_packet(sent.number, sent.delivery, sent.asks, sent.content, mark) for sent in packets]
        last = packets[-1]
        if asks != last.asks:
            payloads[-1] = wire.encode_packet(last.number, last.delivery, asks, last.content, mark)
        return TransmitRun(connection_id, counter, payloads, packets)

    def _pieces_of(self, sent: SessionPacket, mark: int, now_ns: int) -> TransmitRun:
        room_bytes = self._sizing.piece_room_bytes
        pieces = count(sent, room_bytes)
        connection_id, counter = self._take_counter(pieces)
        asks = self._departing.handle_sent(sent, counter, now_ns)
        self._window.handle_pieces_sent(sent, range(counter + 1, counter + pieces))
        return TransmitRun(connection_id, counter, cut(sent, room_bytes, mark, asks=asks), [sent])

    def datagram(self, mark: int, now_ns: int) -> Transmit | None:
        """The next datagram, whatever it holds, or None."""
        answering, sizing, figure = self._answering, self._sizing, self._opening.figure
        if not figure and (probe := sizing.poll_probe(now_ns)) is not None:
            return Transmit(TransmitKind.DATA, *self._take_counter(1), probe)
        sent = self._departing.next_packet(now_ns)
        if sent is not None and not sizing.fits(sent, len(figure)):
            sent = None
        ack, store_ack = answering.leaving(now_ns, with_packet=sent is not None)
        if sent is None and not ack and not store_ack and not self._probing.ping_due and not sizing.owes:
            return None
        room = (sizing.room_bytes if sent is None else sizing.size_bytes - sent.size_bytes) - len(figure)
        owed_bytes = answering.due_bytes
        if sent is not None and owed_bytes and room < owed_bytes:
            # Owed acks with many ranges need a datagram of their own; the packet follows in the next.
            sent, room = None, sizing.room_bytes - len(figure)
        transmit = Transmit(TransmitKind.DATA, *self._take_counter(1), b"", sent)
        frames = [figure]
        if ack:
            room -= answering.put_ack(transmit, frames, room, now_ns)
        if store_ack:
            room -= answering.put_store_ack(transmit, frames, room, mark)
        room -= sizing.put_answer(frames, room)
        if self._probing.ping_due and room >= wire.PING_BYTES:
            self._probing.ping_due = False
            frames.append(wire.encode_ping())
            transmit.ping = True
        if sent is not None:
            asks = self._departing.handle_sent(sent, transmit.counter, now_ns)
            frames.append(wire.encode_packet(sent.number, sent.delivery, asks, sent.content, mark))
        transmit.payload = b"".join(frames)
        return transmit
