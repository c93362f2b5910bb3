"""Presets of other systems: the numbers of their documents, under a fake clock and between nodes that differ."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make
from tests.session.pair import Pair
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.node.handles.policies import (
    AMPS,
    DEFAULT,
    HORNETQ,
    MSMQ,
    PRESETS,
    SOLACE,
    SOURCES,
    amps,
    hornetq,
    msmq,
    paths,
    solace,
    values,
)
from triack.queues.node_settings import NodeSettings

ACKS_OF_SOLACE_AND_MSMQ = triack.AckStats(16, None, 1.0, None)


def acks(settings: NodeSettings, packets: int, *, peer: NodeSettings | None = None) -> list[tuple[float, str, int]]:
    """Acks for ``packets`` packets that arrive at once, with nothing after: seconds since then, cause, count."""
    pair = Pair.opened(settings.session, peer_settings=(peer or settings).session, udp=False)
    arrive_ns = pair.now_ns + 10 * MS
    pair.send("a", packets)
    pair.run(10 * SECOND)
    return [((at_ns - arrive_ns) / SECOND, cause, count) for at_ns, cause, count in pair.acks("b")]


@pytest.mark.parametrize(("window", "share"), [(1, 1), (2, 1), (3, 1), (50, 16), (255, 85)])
def test_solace_acknowledges_a_third_of_the_window_rounded_down(window: int, share: int) -> None:
    """255: one ack for 85. One less, and it is the second that counts."""
    settings = solace(window=window)
    assert acks(settings, share) == [(0.0, "count", share)]
    if share > 1:
        assert acks(settings, share - 1) == [(1.0, "delay", share - 1)]
    assert settings.order.order_ack_every == share


def test_solace_acknowledges_three_of_fifty_after_a_second() -> None:
    assert acks(SOLACE, 3) == [(1.0, "delay", 3)]


def test_msmq_acknowledges_half_the_window_or_after_half_a_second() -> None:
    assert acks(MSMQ, 32) == [(0.0, "count", 32)]
    assert acks(MSMQ, 31) == [(0.5, "delay", 31)]
    assert acks(msmq(max_unacked_packet=7), 3) == [(0.0, "count", 3)]


def test_hornetq_acknowledges_bytes_or_at_its_flush() -> None:
    """Packets 1 to 9 of one byte and three of two are fifteen bytes."""
    assert acks(hornetq(confirmation_window_bytes=15), 12) == [(0.0, "bytes", 12)]
    assert acks(hornetq(confirmation_window_bytes=15), 11) == [(2.0, "delay", 11)]
    assert acks(HORNETQ, 500) == [(2.0, "delay", 500)]


def test_amps_acknowledges_once_an_interval() -> None:
    """However many there are; an interval without any is silent."""
    assert acks(AMPS, 500) == [(1.0, "delay", 500)]
    assert acks(amps(ack_conflation_s=0.25), 1) == [(0.25, "delay", 1)]


@pytest.mark.parametrize(
    ("initiator", "acceptor", "packets", "expected"),
    [
        (SOLACE, MSMQ, 16, [(0.0, "count", 16)]),
        (MSMQ, SOLACE, 25, [(0.0, "count", 25)]),
        (MSMQ, SOLACE, 24, [(0.5, "delay", 24)]),
        (AMPS, SOLACE, 49, [(1.0, "delay", 49)]),
        (AMPS, SOLACE, 50, [(0.0, "request", 50)]),
        (HORNETQ, SOLACE, 30, [(1.0, "delay", 30)]),
        (HORNETQ, MSMQ, 30, [(2.0, "delay", 30)]),
    ],
)
def test_who_begins_says_how_and_the_other_bounds_it(
    initiator: NodeSettings, acceptor: NodeSettings, packets: int, expected: list[tuple[float, str, int]]
) -> None:
    """The smaller window counts, and a sender that fills it asks; HornetQ's two seconds halve with a timeout of two."""
    assert acks(initiator, packets, peer=acceptor) == expected


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_a_node_like_solace_talks_to_one_like_msmq(scheme: str, tmp_path: Path) -> None:
    """Over real sockets, durably, in order; each end tells in its stats what they agreed on."""
    async with (
        make("b", tmp_path / "b", scheme, settings=MSMQ) as b,
        make("a", tmp_path / "a", settings=SOLACE) as a,
    ):
        receipts = [await a.send(f"{b.address}/q", b"%d" % number) for number in range(200)]
        for receipt in receipts:
            await receipt.ordered(WAIT)
        async with b.receive("q") as reader:
            assert [(await reader.get(WAIT)).body for _ in receipts] == [b"%d" % number for number in range(200)]
        for node in (a, b):
            (session,) = node.stats().sessions
            assert session.window == 50
            assert session.session_acks == session.store_acks == ACKS_OF_SOLACE_AND_MSMQ


@pytest.mark.parametrize(
    ("make_policy", "name", "least", "most"),
    [
        (solace, "window", 1, 255),
        (solace, "publish_ack_timer_s", 0.02, 60),
        (msmq, "max_unacked_packet", 1, 65_535),
        (msmq, "idle_ack_delay_s", 0, 60),
        (msmq, "ack_timeout_s", 20, 120),
        (msmq, "seq_max_ack_delay_s", 0, 86_400),
        (msmq, "try_connect_interval_s", 0.001, 3_600),
        (hornetq, "confirmation_window_bytes", 1, 2**31 - 1),
        (hornetq, "client_failure_check_period_s", 4, 120),
        (hornetq, "retry_interval_s", 0.001, 3_600),
        (amps, "ack_conflation_s", 0.001, 50),
    ],
)
def test_each_number_has_its_range(make_policy, name: str, least: float, most: float) -> None:  # type: ignore[no-untyped-def]
    for fine in (least, most):
        assert isinstance(make_policy(**{name: fine}), NodeSettings)
    for wrong in (least - 1, most + 1, None, "5", True):
        with pytest.raises(UsageError, match=f"{make_policy.__name__}: {name} must be between"):
            make_policy(**{name: wrong})


def test_whatever_else_is_replaced_like_any_setting() -> None:
    session = replace(SOLACE.session, max_datagram_bytes=9_000)
    assert replace(SOLACE, session=session).session.max_unacked_packet == 50
    with pytest.raises(AttributeError):
        SOLACE.max_sessions = 5  # type: ignore[misc]


def test_the_default_is_what_a_node_has() -> None:
    """Said in full, and nothing else."""
    plain = NodeSettings()
    assert (DEFAULT.session.trigger, DEFAULT.session.store_trigger) == (
        plain.session.trigger,
        plain.session.store_trigger,
    )
    session = replace(DEFAULT.session, ack_trigger=None, store_ack_trigger=None)
    assert replace(DEFAULT, session=session) == plain


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_that_is_not_the_default_has_a_source(name: str) -> None:
    """And no other has: nobody is quoted for what is ours."""
    own = dict(paths(PRESETS[name]))
    default = dict(paths(replace(DEFAULT, ack_events=triack.AckTrigger()))) | dict(paths(DEFAULT))
    parts = {path for path in own if any(other.startswith(f"{path}.") for other in own)}
    differ = {path for path, value in own.items() if path not in parts and value != default.get(path)}
    sources = set(SOURCES[name])
    store = {
        path
        for path in differ
        if path.startswith("session.store_ack_trigger") and name in ("HORNETQ", "SOLACE", "AMPS")
    }
    assert differ - store <= sources <= set(own)
    assert [value.setting for value in values(name)] == [
        path for path in own if path in {it.setting for it in values(name)}
    ]


def test_there_are_no_others() -> None:
    with pytest.raises(UsageError, match="no policy kafka; there are DEFAULT, MSMQ, SOLACE, HORNETQ, AMPS"):
        values("kafka")
    assert {field.name for field in fields(NodeSettings)} >= {path.split(".")[0] for path, _ in paths(SOLACE)}
