"""``python -m tests.fuzz.corpus``: write the inputs that fuzzing starts from, as real nodes write them.

The same bytes each time. Inputs that have shown a mistake are named ``found-*``, and are kept.
"""

import base64
import json
import pickle
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.lies import CHANGES
from tests.fuzz.schedule import STEPS as ORDER
from tests.fuzz.targets import A_ADDRESS, A_KEY, B_KEY, CORPUS, SECRET, public
from tests.fuzz.trusted import SETTINGS, STEPS
from tests.queues.hostile import ORIGIN
from triack.base.datagram import Header, Kind, read_header
from triack.base.delivery import Delivery
from triack.base.peers import Directory, Peer
from triack.base.ranges import NumberSet
from triack.node.control.handover import Served
from triack.node.files.keys import Identity, KeyKind, encode_key
from triack.node.files.log_file import Recorded
from triack.node.files.trust import encode_trust
from triack.ordering import wire
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.order_ack import AckWait
from triack.ordering.rejections import Rejections
from triack.queues import body_head, messages, packing
from triack.queues.peers.introduction import HistoryPoint, Introduction, RolledBack, StreamPosition
from triack.session.protocol import frames
from triack.session.protocol.binary import BINARY
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.tools.replay.engines.summary import LAYOUT
from triack.transport.enrolment import EnrolmentClient, EnrolmentServer
from triack.transport.frames import frame
from triack.transport.invitation import Invitation
from triack.transport.noise import AESGCM_SHA256, KeyPair, Seals
from triack.transport.secure import SecureChannels

NODE = bytes(range(16))
NUMBERS = NumberSet(3, [(5, 6), (9, 9), (20, 80)])


def session() -> list[bytes]:
    directory = Directory([Peer("a", (public(A_KEY),)), Peer("b", (public(B_KEY),))])
    a = SecureChannels([A_KEY], directory, entropy=Random(1).randbytes)
    # Other keys than those of the session that these are given to (``targets.opened``).
    b = SecureChannels([B_KEY], directory, entropy=Random(3).randbytes)
    caller = a.dial("b", "udp")
    connect = caller.seal(Kind.CONNECT, 1, 1, b"hello", 0)
    channel = b.answer(connect, read_header(connect), A_ADDRESS, 0).channel
    assert channel is not None
    retry = b""
    while not retry:
        retry = b.answer(connect, read_header(connect), A_ADDRESS, 0).retry
    accept = channel.seal(Kind.ACCEPT, 1, 1, b"hello", 0)
    caller.open(accept, read_header(accept), 0)
    said = [caller.seal(kind, 2, counter, b"data", 0) for counter, kind in enumerate((Kind.DATA, Kind.CHALLENGE))]
    return [connect, retry, accept, *said, channel.seal(Kind.RESPONSE, 1, 1, b"", 0)]


def enrolled() -> list[bytes]:
    server = EnrolmentServer(B_KEY, "b", ["udp://b:1"], entropy=Random(1).randbytes)
    server.invite(Invitation(SECRET, 1), 0)
    client = EnrolmentClient(SECRET, A_KEY, "a", [A_ADDRESS], scheme="udp", entropy=Random(2).randbytes, now_ns=0)
    seen: list[bytes] = []
    while (said := client.poll_transmit()) is not None:
        reply = server.handle_datagram(said, read_header(said), A_ADDRESS, 0)
        arrival = server.poll_enrolled()
        reply = server.confirm(arrival) if arrival else reply
        client.handle_datagram(reply, read_header(reply), 0)
        seen += [said, reply]
    return seen


def hellos() -> list[bytes]:
    points = HistoryPoint(7, 9), NODE, HistoryPoint(1, 2), HistoryPoint(3, 4), RolledBack.RECEIVER
    more: dict[str, Any] = {"positions": (StreamPosition(1, 2, 9),), "ack_wait": AckWait(3, 4)}
    said = Introduction(NODE, "a", A_ADDRESS, "udp://b:1"), Introduction(NODE, "", "", "udp://b:1", *points, **more)
    return [it.encode() for it in said]


def sequences() -> list[bytes]:
    header = wire.SequenceHeader(NODE, 1, 2, 9, 7, "orders", ack_requested=True, body=bodies()[0])
    return [
        header.encode(),
        wire.OrderAckPacket(NODE, 1, 2, 9).encode(),
        wire.RejectPacket(*header.named, "access-denied").encode(),
    ]


def bodies() -> list[bytes]:
    plain = messages.Outgoing(b"body")
    rich = messages.Outgoing(b"body", {"a": 1, "b": [None, "x"]})
    large = packing.pack_one(messages.Outgoing(bytes(100), {"a": 1}), 5, 6)
    run = messages.AnswerRun(2, NODE, 7, {"label": "a"})
    answers = [messages.Answer(b"", run=run, index=index) for index in range(2)]
    topics = [messages.Outgoing(b"1", topic="a.b"), messages.Passed(b"2", topic="a.b", publisher=NODE, ordinal=7)]
    packed, _ = packing.pack([rich, rich, plain, *answers, *topics], 400, 1, 2)
    alone = [packing.pack_one(plain, 1, 2), packing.pack_one(rich, 3, 4), large]
    return [*alone, *fragments(), *[one.body for one in packed]]


def fragments() -> list[bytes]:
    packed, _ = packing.pack([bytes(900), b"small", b"", messages.Outgoing(b"rich", {"a": 1})], 400, 1, 2)
    return [one.body for one in packed]


def sealed_bodies() -> list[bytes]:
    """Sealed for somebody else than the target; and what a peer may have sealed, behind what is seen of it."""
    seals = Seals(Random(1).randbytes, AESGCM_SHA256, [KeyPair.of(A_KEY)])
    found = []
    for body in (packing.pack_one(messages.Outgoing(b"body"), 1, 2), *fragments()):
        head, text = packing.split_to_seal(body)
        found += [head + seals.seal(public(A_KEY), text, b"bound"), head + text.ljust(body_head.SEALED_BYTES, b"\0")]
    return found


def proofs() -> list[bytes]:
    named = NODE, 1, 2, 9
    words = [wire.RelayedOrderAck(*named, 0, NODE, mac=mac).encode() for mac in (b"", bytes(16))]
    words += [wire.RelayedReject(*named, "too-large", 0, NODE, bytes(16)).encode()]
    end = wire.RelayedEnd(NODE, 1, 2, 1, False, 9, NODE[:8], NODE, "b", "a", mac=bytes(16))
    return [*words, end.encode()]


def session_frames() -> list[bytes]:
    packet = BINARY.encode(frames.PacketFrame(4, Delivery.TRANSACTIONAL, True, sequences()[0], 5))
    ack = BINARY.encode(frames.AckFrame.of(NUMBERS, 64, 7, 8_000))
    store_ack = BINARY.encode(frames.StoreAckFrame.of(NUMBERS, 9))
    refusing = BINARY.encode(frames.AckFrame.of(NUMBERS, 64, 7, 8_000, [(1, 1), (3, 5)]))
    ping, close = BINARY.encode(frames.PingFrame()), BINARY.encode(frames.CloseFrame(CloseReason.DRAINED))
    first = frames.PieceFrame(4, Delivery.TRANSACTIONAL, frames.Ask.NO, 8, 0, b"four", 5)
    last = frames.PieceFrame(4, Delivery.TRANSACTIONAL, frames.Ask.WITH_STORE, 8, 4, b"more", 5)
    pieces = [BINARY.encode(first), BINARY.encode(last)]
    round_trip = BINARY.encode(frames.RoundTripFrame(8_000))
    probe, probed = BINARY.encode(frames.ProbeFrame(3, 40)), BINARY.encode(frames.ProbedFrame(3))
    alone = [packet, ack, store_ack, ping, close]
    return [*alone, packet + ack + store_ack + ping, refusing, *pieces, probe, probed, round_trip]


def runs() -> list[bytes]:
    """Batches of one stream that follow each other; with a gap, with a packet of another kind, of several classes."""
    batch = packing.pack_one(messages.Outgoing(b"body"), 1, 2)
    headers = [
        wire.SequenceHeader(NODE, 1, 2, number, number - 1, "q", ack_requested=number == 3, body=batch)
        for number in (1, 2, 3, 5)
    ]
    contents = [header.encode() for header in headers] + [wire.OrderAckPacket(NODE, 1, 2, 9).encode()]
    found = []
    for delivery in Delivery:
        packets = [
            BINARY.encode(frames.PacketFrame(number, delivery, number == 5, content, number))
            for number, content in enumerate(contents, 1)
        ]
        found.append(b"".join(len(packet).to_bytes(2) + packet for packet in packets))
    return found


def steps() -> list[bytes]:
    """What an honest peer says, and what else happens meanwhile; see ``trusted``."""
    at = {step.__name__: number for number, step in enumerate(STEPS)}

    def script(*told: tuple[str, bytes], choice: int = 0) -> bytes:
        said = [bytes([at[name]]) + more for name, more in told]
        # By the peer itself: what others have sent is not taken of it.
        return bytes([choice]) + b"".join(len(one).to_bytes(2) + one.replace(NODE, ORIGIN) for one in said)

    passing, done = ("time", (20_000).to_bytes(2)), ("disk", b"")
    answer = BINARY.encode(
        frames.PacketFrame(1, Delivery.EXPRESS, False, wire.OrderAckPacket(b"b" * 16, 1, 1, 1).encode())
    )
    packets = [BINARY.encode(frames.PacketFrame(1, Delivery.EXPRESS, False, content)) for content in sequences()]
    arrived = script(*(("datagram", frame) for frame in session_frames()), done, ("read", bytes(9)), passing)
    asked = script(
        ("submit", b"hello"), done, ("datagram", BINARY.encode(frames.AckFrame.of(NumberSet(1), 64, 1, 0))), passing
    )
    ordered = script(("submit", b"hello"), done, done, ("datagram", answer), done)
    moved = script(*(("other", bytes([kind]) + b"said") for kind in range(len(Kind))))
    together = [
        script(("burst", run), done, ("read", bytes([0, 1, 0])), choice=choice) for choice, run in enumerate(runs())
    ]
    called = script(done, done, ("datagram", answer), done, ("burst", runs()[0]), choice=len(SETTINGS))
    told = script(*(("datagram", packet) for packet in packets), done)
    return [arrived, asked, ordered, called, moved, *together, told]


def schedules() -> list[bytes]:
    """An exchange in which all goes well, one that loses and repeats, and one in which an end is not heard for long."""
    at = {step.__name__: number for number, step in enumerate(ORDER)}

    def script(*told: tuple[str, int]) -> bytes:
        return bytes(byte for name, which in told for byte in (at[name], which))

    both, lost = [("disk", 0), ("deliver_all", 0), ("disk", 1), ("take", 1)], [("drop", 0), ("repeat", 1), ("wait", 3)]
    sent = [("send", which) for which in (0, 2, 4, 12, 5, 3)]
    return [
        script(*sent, *both * 4),
        script(*both, *sent, *(lost + both) * 5),
        script(*sent, *both, ("wait", 5), *both),
    ]


def session_logs() -> list[bytes]:
    line = {"v": 6, "node": "a" * 32, "incarnation": 1, "n": 1, "at_ns": 5, "wall_ns": 6, "event": "node_stopped"}
    whole = json.dumps(line).encode() + b"\n"
    kind = {"n": 2, "t": 1, "event": "order_ack_received", "as": 1, "origin": "a" * 32, "stream": 1, "sequence": 1}
    brief = json.dumps(kind | {"number": 3}).encode() + b'\n1\n[1,5]\n[1,5,{"number":9}]\n'
    return [whole, whole + whole[:20], whole + brief, b"\n", b"[1]\n", whole + topic_lines()]


def topic_lines() -> bytes:
    stream = {"class": "recoverable", "origin": "a" * 32, "stream": 1, "sequence": 1, "number": 1}
    mine = {"topic": "Games", "subscription": "audit"}
    said = [
        {"event": "topic_opened", "topic": "Games", "strategy": "discard_allowed", "first": 1}
        | {"delivery_timeout_ns": 9},
        {"event": "subscribed", **mine, "pattern": "Games.#", "durable": True, "after": 0, "max_unacked": 3}
        | {"ack_wait_ns": 0},
        {"event": "placed", "as": 1, **stream, "topic": "Games", "below": "Chess", "counts": [[1, 5]], "at_place": 1},
        {"event": "dispatched", "as": 2, "topic": "Games", "first": 1, "last": 5},
        {"event": "handed", "as": 3, **mine, "ranges": [[1, 5]], "redelivered": False},
        {"event": "content_freed", "as": 4, "topic": "Games", "ranges": [[1, 5]], "reason": "all"},
    ]
    full = [json.dumps({"n": n, "t": n, **record}) for n, record in enumerate(said, 2)]
    return "\n".join([*full, "1", '[1,5,{"below":"Go"}]', "2", "[3,1]", '[4,2,{"reason":"nobody"}]', ""]).encode()


def summaries() -> list[bytes]:
    """Without their digests, and packed by no version of a packer."""
    state = pickle.dumps({"a": [1, 2, {3}]}, 4)
    parts = [
        {"summary": LAYOUT, "triack": "0", "made_ms": 0, "replaces": ["0" * 64], "whole": {}},
        {"part": "segment", "value": ["a" * 32, 1, "", 1, 2, 3, 4, 5, True, True, True, "a", 2, [[1, 2]], 1, "b", 0]},
        {"part": "times", "value": [1, 2]},
        {"part": "numbers", "value": {"resends": 1}},
        {"part": "sessions", "count": 0, "state": base64.b64encode(zlib.compress(b"[]", 0)).decode()},
    ]
    last = {"part": "session", "node": "a" * 32, "of": [["5e" * 8]], "sizes": [len(state)]}
    more = [*parts, last | {"state": base64.b64encode(zlib.compress(state, 0)).decode()}]
    return ["".join(json.dumps(it, separators=(",", ":")) + "\n" for it in some).encode() for some in (parts, more)]


def control_frames() -> list[bytes]:
    said = [
        b'{"op":"hello","v":8}\n',
        b'{"op":"call","do":"recall","key":"k"}\n',
        b'{"op":"call","n":1,"do":"take","producer":1,"first":1,"sizes":[1,3]}\na\nbc',
        b'{"op":"error"}\n',
    ]
    each = [frame([one]) for one in said]
    return [*each, b"".join(each)]


def keys() -> list[bytes]:
    return [encode_key(kind, A_KEY).encode() for kind in KeyKind]


def inputs() -> Iterator[tuple[str, list[bytes]]]:
    told = hellos()
    yield "datagram", [*session(), *enrolled()]
    yield "opened", session()
    yield "connect_payload", [(5).to_bytes(2) + b"hello" + bytes(1_050), b"\0"]
    yield "enrolment", [*enrolled(), Header(Kind.ENROL, 1, 1).encode()]
    yield "enrolment_who", [b"\2\0\1a\0\x0audp://b:12", b"\1\0\1a\0\0"]
    yield "stream", [b"\x05" + frame([b"", b"datagram"])[1:], frame([bytes(50)] * 3)]
    yield "session_frames", session_frames()
    yield "run", runs()
    yield "trusted", steps()
    yield "schedule", schedules()
    policy = Policy.of(SessionSettings())
    yield "hello", [BINARY.encode_hello(frames.Hello(1, 2, 3, 1_200, policy, one)) for one in told]
    yield "introduction", told
    yield "ordering", sequences()
    yield "body", bodies()
    yield "sealed_body", sealed_bodies()
    yield "proof", proofs()
    yield "properties", [b"", b'{"a":1}', b'{"a":[1.5,null,"\\ud800"],"b":{"c":true}}']
    seen, refused = DuplicateFilter(), Rejections()
    for number in (1, 2, 5, 9):
        header = wire.SequenceHeader(NODE, 1, 2, number, 0, "q", ack_requested=False, body=b"")
        seen.handle_packet(header)
        refused.add(header, "access-denied" if number < 9 else "queue-not-found")
    yield "duplicate_filter", [seen.encode(), DuplicateFilter().encode()]
    yield "rejections", [refused.encode()]
    length = len(refused.encode())
    yield "stream_row", [length.to_bytes(4) + refused.encode() + seen.encode(), bytes(4) + seen.encode()]
    yield "progress", [b'["0x5", {"1": 2}, {}]', b'["0x5", {"1": 2}, {"1": [1, 2, 3]}]']
    yield "accepted_key", [b'1:k\n[1700000000000, 7, 3, 0, ""]', b'2:a:b\n[5, 8, 0, 1, "purged"]']
    yield "row", [b"\0iii|snn|bytes|body", b"\3i|i|i|f|body", b"\5s|bytes|i|i|i|i|n|body"]
    yield "session_log", session_logs()
    yield "lies", [bytes([what, 9 * what, 7, 8, 0]) * 3 for what in range(len(CHANGES))]
    peers = [Peer("b", (public(B_KEY),), ("udp://b:1",), bytes(range(32)), ("orders", "in-*")), Peer("c")]
    yield "trust_file", [encode_trust(peers), encode_trust([])]
    yield "identity_file", [Identity(tuple(KeyPair.of(key).private for key in (A_KEY, B_KEY))).encode()]
    served = Served(folder="64769:12", control="/tmp/triack-x/control", pid=7, listen=A_ADDRESS)
    recorded = Recorded(folder="64769:12", name="a", log="/var/log/a")
    yield "node_file", [json.dumps(asdict(note)).encode() for note in (served, recorded)]
    yield "manifest", [json.dumps([["a-000001-000001.jsonl", 5, 70, 0], ["b", -1, 1, 7]]).encode()]
    yield "summary", summaries()
    yield "control", control_frames()
    code = Invitation(SECRET, 0).code.encode()
    yield "text", [A_ADDRESS.encode(), b"tcp://[::1]:1/orders", b"b/orders", code, *keys()]


def write(to: Path = CORPUS) -> None:
    for name, contents in inputs():
        (to / name).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents):
            (to / name / f"{number:02}").write_bytes(content)


if __name__ == "__main__":
    write()
