"""A forked child can do nothing with its parent's sessions."""

import os
import warnings

from tests.transport.ends import A_KEY, NOW_NS, B, Ends, node, take
from triack.base.datagram import Channel, Kind
from triack.base.errors import ProtocolError, UsageError
from triack.transport import forking


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it warns of threads; these children only seal and write
        return os.fork()


def in_child(*channels: tuple[Channel, Kind]) -> list[str]:
    """What a forked child hears when it seals with each of them."""
    reading, writing = os.pipe()
    child = fork()
    if not child:
        for channel, kind in channels:
            try:
                channel.seal(kind, 1, 99, b"from the child", NOW_NS)
                os.write(writing, b"sealed\n")
            except UsageError as error:
                os.write(writing, f"{error}\n".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        heard = said.read().splitlines()
    assert os.waitpid(child, 0) == (child, 0)
    return heard


def test_a_child_seals_nothing_and_its_parent_goes_on() -> None:
    """In each state of both ends: before, within and after the handshake."""
    ends, waiting, fresh = Ends(), Ends(), Ends()
    caller, answerer = ends.open()
    connect = waiting.connect()
    answer = waiting.answer(connect)
    assert answer.channel is not None
    why = "the session is that of the parent process"
    assert in_child(
        (caller, Kind.DATA),
        (answerer, Kind.DATA),
        (waiting.caller, Kind.CONNECT),
        (answer.channel, Kind.ACCEPT),
        (fresh.caller, Kind.CONNECT),
    ) == [
        f"seal DATA: {why}",
        f"seal DATA: {why}",
        f"seal CONNECT 99: {why}",
        f"seal ACCEPT 99: {why}",
        f"seal CONNECT 99: {why}",
    ]
    assert take(answerer, ends.seal("a", caller)) == b"data"
    assert take(waiting.caller, waiting.accept(answer, connect)) == b"hello yourself"


def test_a_child_opens_nothing_either() -> None:
    """An accept that both open would give both the same keys."""
    ends = Ends()
    connect = ends.connect()
    accept = ends.accept(ends.answer(connect), connect)
    child = fork()
    if not child:
        try:
            take(ends.caller, accept)
        except ProtocolError as error:
            os._exit(7 if error.reason == "unexpected-accept" else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert take(ends.caller, accept) == b"hello yourself"


def test_nodes_that_are_gone_are_not_kept() -> None:
    """Only what is alive ends in a child; the channels of a node end with it."""
    ends, alive = Ends(), vars(forking)["_alive"]
    before = len(alive)
    extra = [node((A_KEY,), (B,)) for _ in range(5)]
    channels = [ends.a.dial("b", "udp") for _ in range(5)]
    assert len(alive) == before + len(extra)
    extra.clear()
    assert channels
    assert len(alive) == before
