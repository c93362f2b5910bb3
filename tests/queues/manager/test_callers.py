"""Callers that get no answer: the operator hears once of each, and a flood of them fills nothing."""

import pytest

from triack.base.datagram import VERSION, Header, Kind, read_header
from triack.base.errors import ProtocolError
from triack.base.peers import Directory, Peer
from triack.base.reasons import DropReason, Trouble
from triack.base.units import SECOND
from triack.queues.manager.callers import CALLERS_MAX, FORGET_NS, OTHERS, Callers

CONNECT = Header(Kind.CONNECT, 9, 1).encode()


def refuse(
    callers: Callers, host: str, detail: str = "", reason: DropReason = DropReason.UNTRUSTED, now_ns: int = 0
) -> None:
    """A call that was dropped."""
    callers.handle_dropped(CONNECT, ProtocolError(reason, detail), f"udp://{host}:4711", now_ns)


def test_each_host_is_told_once_and_its_calls_are_counted() -> None:
    callers = Callers(Directory())
    for at_s in range(3):
        refuse(callers, "h", "0a", now_ns=at_s * SECOND)
    refuse(callers, "[::1]", "0b")
    assert [(it.host, it.trouble) for it in callers.take_news()] == [("h", "untrusted"), ("[::1]", "untrusted")]
    assert [(it.host, it.calls, it.last_ns) for it in callers.rows(2 * SECOND)] == [
        ("h", 3, 2 * SECOND),
        ("[::1]", 1, 0),
    ]
    assert callers.take_news() == []


@pytest.mark.parametrize(
    ("kind", "reason", "trouble"),
    [
        (Kind.CONNECT, DropReason.BAD_MAC, Trouble.WRONG_KEY),
        (Kind.CONNECT, DropReason.OTHER_SUITE, Trouble.OTHER_SUITE),
        (Kind.CONNECT, DropReason.TOO_SHORT, Trouble.ONE_WITHOUT_KEYS),
        (Kind.CONNECT, DropReason.BAD_TAG, Trouble.ONE_WITHOUT_KEYS),
        (Kind.ACCEPT, DropReason.BAD_TAG, Trouble.OTHER_PSK),
        (Kind.ENROL, DropReason.CODE_EXPIRED, Trouble.CODE_EXPIRED),
        (Kind.ENROL, DropReason.NOT_INVITED, None),
        (Kind.DATA, DropReason.BAD_TAG, None),
        (Kind.ACCEPT, DropReason.BAD_MAC, None),
    ],
)
def test_only_what_an_operator_can_mend_is_told(kind: Kind, reason: DropReason, trouble: Trouble | None) -> None:
    """Late and forged datagrams are counted, and no more."""
    callers = Callers(Directory())
    callers.handle_dropped(Header(kind, 9, 1).encode(), ProtocolError(reason), "udp://127.0.0.1:1", 0)
    assert [it.trouble for it in callers.take_news()] == ([] if trouble is None else [trouble])
    callers.handle_dropped(b"", ProtocolError(reason), "udp://h:1", 0)
    assert callers.take_news() == []


def test_another_version_is_told_with_both_numbers() -> None:
    datagram = bytes([Kind.CONNECT, VERSION + 1]) + bytes(1_198)
    with pytest.raises(ProtocolError) as caught:
        read_header(datagram)
    callers = Callers(Directory())
    callers.handle_dropped(datagram, caught.value, "udp://h:1", 0)
    [told] = callers.take_news()
    assert told.cause.endswith(f": {VERSION + 1}, and this node speaks {VERSION}")


@pytest.mark.parametrize(
    ("sender", "size_bytes", "told"),
    [
        ("udp://h:1", 1_199, False),
        ("udp://h:1", 1_200, True),
        ("udp://127.0.0.1:1", 60, True),
        ("udp://[::1]:1", 60, True),
    ],
)
def test_datagrams_of_other_programs_are_no_calls(sender: str, size_bytes: int, *, told: bool) -> None:
    """A RADIUS request, for one, begins as a connect of another version would."""
    datagram = bytes([Kind.CONNECT, VERSION + 1]).ljust(size_bytes, b"x")
    callers = Callers(Directory())
    callers.handle_dropped(datagram, ProtocolError(DropReason.BAD_VERSION, str(VERSION + 1)), sender, 0)
    assert bool(callers.take_news()) == told
    callers.handle_dropped(CONNECT, ProtocolError(DropReason.TOO_SHORT), sender, 0)
    assert bool(callers.take_news()) == (sender != "udp://h:1")


def test_a_flood_has_one_row_for_all_that_came_too_late() -> None:
    """Those before it stay, and another reason has rows of its own."""
    callers = Callers(Directory())
    for number in range(10_000):
        refuse(callers, f"h{number}")
    rows = {it.host: it.calls for it in callers.rows(0)}
    assert (len(rows), rows["h0"], rows[OTHERS]) == (CALLERS_MAX, 1, 10_000 - CALLERS_MAX + 1)
    assert len(callers.take_news()) == CALLERS_MAX
    refuse(callers, "late", reason=DropReason.BAD_MAC)
    assert [it.host for it in callers.take_news()] == ["late"]


def test_a_row_goes_with_the_calls_and_the_next_call_is_told_again() -> None:
    callers = Callers(Directory())
    refuse(callers, "h")
    assert callers.rows(FORGET_NS - 1)
    assert callers.rows(FORGET_NS) == []
    refuse(callers, "h", now_ns=FORGET_NS)
    assert len(callers.take_news()) == 2


def test_a_flood_that_is_over_makes_room() -> None:
    callers = Callers(Directory())
    for number in range(CALLERS_MAX):
        refuse(callers, f"h{number}")
    refuse(callers, "new", now_ns=FORGET_NS)
    assert [it.host for it in callers.rows(FORGET_NS)] == ["new"]


def test_a_key_that_is_trusted_now_has_no_row() -> None:
    """And until then it is shown as operators write it."""
    directory = Directory()
    callers = Callers(directory)
    callers.describe_key = lambda key: f"key-{key.hex()}"
    refuse(callers, "h", "0a")
    assert [it.detail for it in callers.rows(0)] == ["key-0a"]
    directory.replace([Peer("b", keys=(b"\n",))])
    callers.handle_directory_changed()
    assert callers.rows(0) == []
