"""Every decoder of bytes that somebody else may have written, as a function of these bytes.

A target returns when the bytes are a value, and when they are refused with the error that the decoder names. Anything
else that comes out is a finding; so is a value that does not mean what the bytes say, where that can be told.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz.lies import lies
from tests.fuzz.schedule import schedule
from tests.fuzz.trusted import parts_of, trusted
from triack.base.commit import HEAD_BYTES as HEAD_BYTES_OF_BODY
from triack.base.commit import PositionRow
from triack.base.datagram import HEADER_BYTES, Header, Kind, read_header
from triack.base.delivery import Delivery
from triack.base.errors import (
    AddressError,
    IdentityError,
    KeyUnreadable,
    ProtocolError,
    ReplayError,
    StoreDamaged,
    TriackError,
    UsageError,
)
from triack.base.peers import NO_PSK, Directory, Peer
from triack.base.printable import printable
from triack.node.control.control_frames import Link, cut, number_of
from triack.node.control.handover import Served
from triack.node.control.verb_table import check_call
from triack.node.files.keys import Identity, KeyKind, decode_key, encode_key
from triack.node.files.log_file import Recorded
from triack.node.files.notes import Note, decode_note
from triack.node.files.trust import decode_trust, encode_trust
from triack.ordering import wire
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.order_settings import OrderSettings
from triack.ordering.rejections import Rejections
from triack.queues import body_head, messages, packing
from triack.queues.mailboxes.incoming_run import read_runs
from triack.queues.mailboxes.progress import Progress
from triack.queues.peers.introduction import Introduction
from triack.queues.streams.accepted_keys import KeptKey
from triack.queues.streams.incoming_stream import IncomingStream
from triack.session.path.pieces import Pieces
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketArrived, RunArrived
from triack.session.protocol.frames import Ask, PacketFrame, PacketRun, PieceFrame
from triack.store.rows import TABLES
from triack.tools.replay.engines.summary import decode as decode_summary
from triack.tools.replay.engines.summary import encode as encode_summary
from triack.tools.replay.log.compact import read_sources
from triack.tools.replay.log.files import find_logs, read_records
from triack.transport.address import Address, Destination
from triack.transport.cookies import mac, mac_key
from triack.transport.enrolment import EnrolmentClient, EnrolmentServer
from triack.transport.frames import LengthFramer
from triack.transport.invitation import Invitation, decode_code
from triack.transport.noise import AESGCM_SHA256, Handshake, KeyPair, Pattern, Seals
from triack.transport.secure import CONNECT_BYTES, SecureChannels

Target = Callable[[bytes], None]

CORPUS = Path(__file__).parent / "corpus"
"""A folder for each target; ``tests/fuzz/corpus.py`` writes them."""
A_KEY, B_KEY = bytes([1]) * 32, bytes([2]) * 32
A_ADDRESS = "udp://192.0.2.1:7801"
SECRET = bytes(range(16))


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors:
        return


def public(private: bytes) -> bytes:
    return KeyPair.of(private).public


# ---- datagrams


def datagram(data: bytes) -> None:
    """A datagram from anywhere, to a node that calls one peer and may be called by it."""
    channels = SecureChannels([B_KEY], Directory([Peer("a", (public(A_KEY),))]), entropy=Random(1).randbytes)
    caller = channels.dial("a", "udp")
    caller.seal(Kind.CONNECT, 1, 1, b"hello", 0)
    with refusing(ProtocolError):
        header = read_header(data)
        assert header.encode() == data[:HEADER_BYTES]
        with refusing(ProtocolError):
            channels.answer(data, header, A_ADDRESS, 0)
        caller.open(data, header, 0)


def opened(data: bytes) -> None:
    """A datagram to a node with an open session: nobody but the peer makes one that is opened."""
    directory = Directory([Peer("a", (public(A_KEY),)), Peer("b", (public(B_KEY),))])
    a = SecureChannels([A_KEY], directory, entropy=Random(1).randbytes)
    b = SecureChannels([B_KEY], directory, entropy=Random(2).randbytes)
    caller = a.dial("b", "udp")
    connect = caller.seal(Kind.CONNECT, 1, 1, b"hello", 0)
    answerer = b.answer(connect, read_header(connect), A_ADDRESS, 0).channel
    assert answerer is not None
    accept = answerer.seal(Kind.ACCEPT, 1, 1, b"hello", 0)
    caller.open(accept, read_header(accept), 0)
    genuine = caller.seal(Kind.DATA, 2, 1, b"data", 0)
    with refusing(ProtocolError):
        answerer.open(data, read_header(data), 0)
        raise AssertionError("a forgery was opened")
    assert answerer.open(genuine, read_header(genuine), 0) == b"data"


def connect_payload(data: bytes) -> None:
    header = Header(Kind.CONNECT, 1, 1).encode()
    handshake = Handshake(
        Pattern.IKPSK2,
        AESGCM_SHA256,
        initiator=True,
        prologue=b"Triack udp " + header,
        static=KeyPair.of(A_KEY),
        remote_static=public(B_KEY),
        psk=NO_PSK,
    )
    said = header + handshake.write(data, bytes([3]) * 32) + bytes(16)
    whole = said + mac(mac_key(b"triack mac1", public(B_KEY)), said)
    channels = SecureChannels([B_KEY], Directory([Peer("a", (public(A_KEY),))]), entropy=Random(1).randbytes)
    with refusing(ProtocolError):
        answer = channels.answer(whole, read_header(whole), A_ADDRESS, 0)
        assert answer.payload in data
        assert len(whole) >= CONNECT_BYTES


def enrolment(data: bytes) -> None:
    """A datagram from anywhere, to a node that has invited and to one that was invited."""
    server = EnrolmentServer(B_KEY, "b", [], entropy=Random(1).randbytes)
    server.invite(Invitation(SECRET, 1), 0)
    client = EnrolmentClient(SECRET, A_KEY, "a", [], scheme="udp", entropy=Random(2).randbytes, now_ns=0)
    with refusing(ProtocolError):
        header = read_header(data)
        with refusing(ProtocolError):
            assert len(server.handle_datagram(data, header, A_ADDRESS, 0)) <= len(data)
        client.handle_datagram(data, header, 0)
    assert server.poll_enrolled() is None
    assert client.result is None


def enrolment_who(data: bytes) -> None:
    """The introduction of a peer that knows the code."""
    server = EnrolmentServer(B_KEY, "b", [], entropy=Random(1).randbytes)
    server.invite(Invitation(SECRET, 1), 0)
    client = EnrolmentClient(SECRET, A_KEY, "a", [], scheme="udp", entropy=Random(2).randbytes, now_ns=0)
    setattr(client, "_who", data[:1_084])  # noqa: B010  # a client of ours says nothing else than what can be read
    for _ in range(2):
        said = client.poll_transmit() or b""
        reply = server.handle_datagram(said, read_header(said), A_ADDRESS, 0)
        client.handle_datagram(reply, read_header(reply), 0)
    proof = client.poll_transmit() or b""
    with refusing(ProtocolError):
        server.handle_datagram(proof, read_header(proof), A_ADDRESS, 0)
        arrival = server.poll_enrolled()
        assert arrival is not None
        EnrolmentServer(B_KEY, arrival.enrolled.name, arrival.enrolled.addresses, entropy=Random(1).randbytes)


def stream(data: bytes) -> None:
    """A byte stream, in pieces of the size that its first byte says: they come to the same as all at once."""
    size = 1 + (data[0] if data else 0)
    whole, pieces = LengthFramer(), LengthFramer()
    found: list[bytes] = []
    with refusing(ProtocolError):
        for at in range(0, len(data), size):
            found += pieces.feed(data[at : at + size])
        assert whole.feed(data) == found


# ---- what a datagram says


def session_frames(data: bytes) -> None:
    """The frames of a datagram, and packets of the pieces among them."""
    pieces = Pieces()
    with refusing(ProtocolError):
        found = BINARY.decode(data)
        assert len(found) <= len(data)
        for frame in found:
            if isinstance(frame, PieceFrame) and (packet := pieces.handle_piece(frame)) is not None:
                assert len(packet.content) == frame.total_bytes


def run(data: bytes) -> None:
    """Datagrams, each after its length in two bytes: read by the run, they are what each of them is by itself."""
    payloads = parts_of(data)
    each = list(leading_packets(payloads))
    found = BINARY.decode_run(payloads, each[0].number if each else 1)
    assert (found is None) == (not each)
    if found is None:
        return
    assert [(one.number, one.delivery, one.content) for one in each] == [
        (number, found.delivery, content) for number, content in enumerate(found.contents, found.number)
    ]
    assert [one.number for one in each if one.ask] == found.ack_requested
    assert min((one.ask for one in each if one.ask), default=Ask.NO) == found.ask
    assert max(one.mark for one in each) == found.mark
    assert sum(len(one.content) for one in each) == found.size_bytes
    batches_of(found)


def leading_packets(payloads: list[bytes]) -> Iterator[PacketFrame]:
    """The packets of one class that follow each other, each the only frame of its datagram."""
    first: PacketFrame | None = None
    for step, payload in enumerate(payloads):
        with refusing(ProtocolError):
            found = BINARY.decode(payload)
            packet = found[0] if len(found) == 1 else None
            if isinstance(packet, PacketFrame):
                first = first or packet
                if (packet.number, packet.delivery) == (first.number + step, first.delivery):
                    yield packet
                    continue
        return


def batches_of(found: PacketRun) -> None:
    """A queue makes of a run what it makes of each of its packets."""
    contents = iter(enumerate(found.contents, found.number))
    for item in read_runs(RunArrived(found.number, found.delivery, found.contents)):
        if isinstance(item, PacketArrived):
            assert (item.number, item.content) == next(contents)
            continue
        for header, count in zip(item.headers(), item.counts, strict=True):
            alone = wire.decode(next(contents)[1])
            assert isinstance(alone, wire.SequenceHeader)
            assert replace(header, ack_requested=alone.ack_requested) == alone
            assert count == len(packing.unpack(header.body).bodies)
    assert next(contents, None) is None


def hello(data: bytes) -> None:
    with refusing(ProtocolError):
        assert BINARY.encode_hello(BINARY.decode_hello(data)) == data


def introduction(data: bytes) -> None:
    """The introduction of a queue manager. Text that is no UTF-8 is replaced; the rest means something."""
    with refusing(ProtocolError):
        found = Introduction.decode(data)
        again = Introduction.decode(found.encode())
        assert (again.point, again.positions) == (found.point, found.positions)


def ordering(data: bytes) -> None:
    with refusing(ProtocolError):
        found = wire.decode(data)
        if isinstance(found, wire.SequenceHeader):
            assert wire.decode(found.encode()) == found


def sealed_body(data: bytes) -> None:
    """A body that a relay brings: nobody but the peer makes one that opens; and what a peer may have sealed."""
    seals = {key: Seals(Random(1).randbytes, AESGCM_SHA256, [KeyPair.of(key)]) for key in (A_KEY, B_KEY)}
    with refusing(ProtocolError):
        packing.check(data)
        if not body_head.is_sealed(data):
            return
        head, text = data[:HEAD_BYTES_OF_BODY], data[HEAD_BYTES_OF_BODY:]
        fragment = body_head.fragment_range(head, len(data))
        assert body_head.messages_in(data) == (
            body_head.count_of(head) if fragment is None else sum(fragment[1:3]) == fragment[3]
        )
        with refusing(ProtocolError):
            seals[B_KEY].open(text, b"")
            raise AssertionError("it opens")
        # The same bytes as the text of a peer.
        sealed = seals[A_KEY].seal(public(B_KEY), text, head)
        sealer, inside = seals[B_KEY].open(sealed, head)
        assert (sealer, inside) == (public(A_KEY), text)
        opened = packing.read_opened(head, inside)
        assert body_head.messages_in(opened) == body_head.messages_in(head + sealed)
        packing.unpack_pieces([opened])


def proof(data: bytes) -> None:
    """A word of a relay with a proof: nobody but the destination makes one that fits."""
    seals = Seals(Random(1).randbytes, AESGCM_SHA256, [KeyPair.of(A_KEY)])
    with refusing(ProtocolError):
        word = wire.decode(data)
        if isinstance(word, wire.RelayedOrderAck | wire.RelayedReject | wire.RelayedEnd):
            assert len(word.mac) in (0, wire.MAC_BYTES)
            assert not seals.fits([public(B_KEY)], word.said, word.mac)


def body(data: bytes) -> None:
    """The messages of a packet: what passes the check can be counted and read."""
    with refusing(ProtocolError):
        packing.check(data)
        assert body_head.messages_in(data) >= 0
        batch = packing.read_batch(data)
        assert batch is None or batch[0] == len(packing.unpack(data).bodies)
        if body_head.fragment_range(data[:HEAD_BYTES_OF_BODY], len(data)) is None:
            with refusing(ProtocolError):  # a fragment's text may still be none: it becomes a dead letter
                assert len(packing.unpack(data).bodies) == body_head.count_of(data[:HEAD_BYTES_OF_BODY])
        else:
            with refusing(ProtocolError):  # alone it is no message
                packing.join_pieces([data])
    with refusing(ProtocolError):
        packing.unpack(data)


def properties(data: bytes) -> None:
    data = data[:65_535]
    (rich,), _ = packing.pack([messages.Outgoing(b"", {"p": 1})], 1_000, 1, 1)
    head = rich.body.removesuffix(b'\0\7{"p":1}')
    assert len(head) == len(rich.body) - 9
    with refusing(ProtocolError):
        found = packing.unpack(head + len(data).to_bytes(2) + data).properties
        assert found is not None
        json.dumps(found)


# ---- what lies on the disk


def duplicate_filter(data: bytes) -> None:
    with refusing(StoreDamaged):
        assert DuplicateFilter.decode(data).encode() == data


def rejections(data: bytes) -> None:
    with refusing(StoreDamaged):
        assert Rejections.decode(Rejections.decode(data).encode()).refused == Rejections.decode(data).refused


def stream_row(data: bytes) -> None:
    """The row of an incoming stream that has no order."""
    with refusing(StoreDamaged):
        IncomingStream(PositionRow(bytes(16), 1, Delivery.RECOVERABLE, "q", 1, 1, data), OrderSettings())


def progress(data: bytes) -> None:
    with refusing(StoreDamaged):
        Progress.decode(data, 1, 0)


def accepted_key(data: bytes) -> None:
    """The row of a key that was accepted: a name, and behind a line break what is under it."""
    name, _, value = data.partition(b"\n")
    with refusing(StoreDamaged):
        kept = KeptKey.read("$key:" + name.decode("latin-1"), value)
        assert json.loads(value) == [kept.accepted_ms, kept.ordinal, kept.number, kept.place, kept.reason]


def row(data: bytes) -> None:
    table = list(TABLES.values())[(data[0] if data else 0) % len(TABLES)]
    values: list[object] = []
    for number, part in enumerate(data[1:].split(b"|")):
        kind = part[:1]
        values.append({b"i": len(part), b"s": part.decode("latin-1"), b"n": None, b"f": number / 3}.get(kind, part))
    if len(values) >= 3:
        assert table.is_intact(values) in (True, False)


def session_log(data: bytes) -> None:
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(data)
        with refusing(ReplayError):
            for log in find_logs([path]):
                for record in read_records(log):
                    assert isinstance(record, dict)


def trust_file(data: bytes) -> None:
    """The file with a node's peers; what is read is written the same way ever after."""
    with refusing(IdentityError):
        peers = decode_trust(data, "trust.json")
        assert decode_trust(encode_trust(peers), "trust.json") == peers


def identity_file(data: bytes) -> None:
    with refusing(IdentityError):
        identity = Identity.decode(data, "identity")
        assert Identity.decode(identity.encode(), "identity").public == identity.public


def node_file(data: bytes) -> None:
    """Where the process of a node is, and its log: nothing else than what a node may have made is looked for."""
    kinds: tuple[type[Note], ...] = (Served, Recorded)
    for kind in kinds:
        note = decode_note(kind, data)
        if note is not None:
            assert decode_note(kind, json.dumps(asdict(note)).encode()) == note


def manifest(data: bytes) -> None:
    for source in read_sources(data) or []:
        assert list(map(type, source)) == [str, int, int, int]


def summary(data: bytes) -> None:
    """What stands for session logs that were removed; somebody who changes it can give it the right digest."""
    with refusing(ReplayError):
        found = decode_summary(data + b'{"digest":"%s"}\n' % sha256(data).hexdigest().encode())
        encode_summary(found)


# ---- what other processes and people say


class _Answers(asyncio.StreamWriter):
    def __init__(self) -> None:
        """No transport."""

    def __del__(self) -> None:
        """Nothing to close."""


def control(data: bytes) -> None:
    async def read_all() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        link = Link(reader, _Answers())
        while True:
            header, payload = await link.receive()
            with refusing(LookupError, ProtocolError, TypeError, UsageError, ValueError):
                check_call(header).read(header, payload)
            for key in header:
                with refusing(ProtocolError):
                    assert number_of(header, key) >= 0
                with refusing(ProtocolError):
                    assert b"".join(cut(payload, header[key])) == payload

    with refusing(ConnectionError, ProtocolError, TriackError):
        asyncio.run(read_all())


def text(data: bytes) -> None:
    """An address, a destination, a code, a key: what is read is written the same way ever after."""
    said = data.decode("utf-8", "replace")
    with refusing(AddressError):
        address = Address.parse(said)
        assert Address.parse(str(address)) == address
    with refusing(AddressError):
        destination = Destination.parse(said)
        assert Destination.parse(str(destination)) == destination
    for kind in KeyKind:
        with refusing(KeyUnreadable):
            assert decode_key(kind, encode_key(kind, decode_key(kind, said))) == decode_key(kind, said)
    assert printable(said).isprintable()
    with refusing(UsageError):
        assert decode_code(Invitation(decode_code(said), 0).code) == decode_code(said)


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        *(datagram, opened, connect_payload, enrolment, enrolment_who, stream),
        *(session_frames, run, trusted, schedule, hello, introduction, ordering, body, sealed_body, proof, properties),
        *(duplicate_filter, rejections, stream_row, progress, accepted_key, row, session_log, lies),
        *(trust_file, identity_file, node_file, manifest, summary),
        *(control, text),
    )
}
