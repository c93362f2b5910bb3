"""Every decoder takes any bytes: a value comes out or its named error, after as much work as there are bytes."""

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.corpus import inputs, write
from tests.fuzz.targets import CORPUS, TARGETS
from triack.base.delivery import Delivery
from triack.base.peers import Peer
from triack.node.files.trust import encode_trust
from triack.ordering import wire
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Outcome
from triack.queues import packing
from triack.session.protocol import frames
from triack.session.protocol.binary import BINARY
from triack.transport.frames import frame

SLOW = {
    *("connect_payload", "control", "datagram", "enrolment", "enrolment_who"),
    *("lies", "opened", "schedule", "session_log", "trusted"),
}
"""A millisecond or more each."""


def corpus_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def test_the_corpus_is_what_real_nodes_write(tmp_path: Path) -> None:
    """``python -m tests.fuzz.corpus`` has been run since a layout changed; what else is there was a finding."""
    write(tmp_path)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(CORPUS): path.read_bytes() for path in CORPUS.rglob("*") if path.is_file()}
    assert {path: data for path, data in kept.items() if not path.name.startswith("found-")} == written
    assert {name for name, _ in inputs()} == set(TARGETS)


@pytest.mark.gate
@pytest.mark.parametrize("name", TARGETS)
def test_what_was_written_and_what_was_found_is_taken(name: str) -> None:
    target = TARGETS[name]
    for data in corpus_of(name):
        target(data)
        step = 1 if name not in SLOW else 1 + len(data) // 20
        for at in range(0, min(len(data), 400), step):
            target(data[:at])
            target(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(TARGETS) - SLOW))
@given(data=st.data())
def test_any_bytes_are_taken(name: str, data: st.DataObject) -> None:
    """From nothing, and into the middle of something real."""
    known = data.draw(st.sampled_from([b"", *corpus_of(name)]))
    at = data.draw(st.integers(0, len(known)))
    TARGETS[name](known[:at] + data.draw(st.binary(max_size=200)) + known[at + data.draw(st.integers(0, 9)) :])


DEEP = [b"[" * 100_000, b'{"a":' * 50_000, b"[" + b"1" * 5_000 + b"]"]


@pytest.mark.parametrize("text", DEEP, ids=["lists", "objects", "digits"])
@pytest.mark.parametrize("name", ["control", "progress", "properties", "session_log", "trust_file"])
def test_json_that_no_reader_bears_is_refused(name: str, text: bytes) -> None:
    """Nested without end, and a number without end: Python's own errors for these do not come out."""
    TARGETS[name](frame([text + b"\n"]) if name == "control" else text + b"\n")


def batch(count: int) -> bytes:
    (packed, *_), _ = packing.pack([b"x"] * count, 60_000, 1, 1)
    return packed.body


def seen(count: int) -> bytes:
    found = DuplicateFilter()
    for number in range(2, 2 * count, 2):
        found.handle_packet(wire.SequenceHeader(bytes(16), 1, 1, number, 0, "q", ack_requested=False, body=b""))
    return found.encode()


GROWING: list[tuple[str, Callable[[int], bytes]]] = [
    ("session_frames", lambda count: BINARY.encode(frames.PingFrame()) * count),
    ("session_frames", lambda count: BINARY.encode(frames.PacketFrame(1, Delivery.EXPRESS, False, b"")) * count),
    ("stream", lambda count: b"\0" + frame([b"x"] * count)[1:]),
    ("stream", lambda count: b"\0\0\0\0" + frame([b"x"] * count)),
    ("stream", lambda count: b"\0\0\xff\xf0" + bytes(count)),
    ("body", batch),
    ("properties", lambda count: b"{" + b",".join(b'"%d":1' % n for n in range(count)) + b"}"),
    ("duplicate_filter", seen),
    ("progress", lambda count: b'["0x1",{' + b",".join(b'"%d":1' % n for n in range(count)) + b"},{}]"),
    ("row", lambda count: b"\0" + b"i|" * count),
    ("session_log", lambda count: b'{"v":6,"node":"a","incarnation":1,"n":1}\n' * count),
    ("trust_file", lambda count: encode_trust(Peer(f"p{n}", (n.to_bytes(32),)) for n in range(9, count))),
    ("identity_file", lambda count: b"# nothing\n" * count),
    ("control", lambda count: frame([b'{"op":"x"}\n'] * count)),
    ("control", lambda count: frame([b'{"op":"x","s":[' + b",".join([b"1"] * count) + b"]}\n" + b"x" * count])),
    ("text", lambda count: b"udp://" + b"a." * count + b":1"),
    ("text", lambda count: b"a" * count),
]


@pytest.mark.parametrize(("name", "grown"), GROWING)
def test_work_and_memory_grow_as_the_input_does(name: str, grown: Callable[[int], bytes]) -> None:
    """Four times the input costs four times as much: lines and calls are counted, not seconds."""
    target, small, large = TARGETS[name], grown(250), grown(1_000)
    target(small)  # what is made once
    assert work_of(target, large) <= 4.4 * work_of(target, small) + 200
    assert memory_of(target, large) <= 6 * memory_of(target, small) + 20_000


def work_of(target: Callable[[bytes], None], data: bytes) -> int:
    events = 0

    def count(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal events
        events += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        target(data)
    finally:
        sys.settrace(before)
    return events


def memory_of(target: Callable[[bytes], None], data: bytes) -> int:
    tracemalloc.start()
    try:
        target(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_work_that_grows_faster_is_seen() -> None:
    def quadratic(data: bytes) -> None:
        for _ in data:
            for _ in data:
                pass

    assert work_of(quadratic, bytes(400)) > 4.4 * work_of(quadratic, bytes(100)) + 200


@pytest.mark.gate
@pytest.mark.plain
@pytest.mark.parametrize(
    ("broken", "method", "answer"),
    [(DuplicateFilter, "handle_packet", True), (IncomingSequence, "_judge_position", Outcome.ACCEPTED)],
    ids=["what came is taken again", "what is not next is taken"],
)
def test_schedules_show_a_node_that_breaks_its_promise(
    monkeypatch: pytest.MonkeyPatch, broken: type, method: str, answer: object
) -> None:
    """Without any guidance; the machine does its work, and says what it should not."""
    whole = getattr(broken, method)
    monkeypatch.setattr(broken, method, lambda *arguments: (whole(*arguments), answer)[1])
    random = Random(5)

    def search() -> None:
        for _ in range(200):
            TARGETS["schedule"](random.randbytes(2 * random.randrange(1, 100)))

    with pytest.raises(AssertionError):
        search()
