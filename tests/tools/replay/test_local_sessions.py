"""What one session promises."""

from typing import Any

import pytest

from tests.tools.replay.builder import ALPHA, BETA, MS
from tests.tools.replay.faults import SESSION_CHECKS, breaking
from tests.tools.replay.judging import assert_found
from triack.tools.replay.local_sessions import Packet, Sessions
from triack.tools.replay.schema import ACK_BURST_PACKETS, ACK_RANGE_PACKETS_MAX, IDLE_ACK_TOLERANCE_NS, Violation

SESSION = "5e" * 8
WAIT_NS = 500 * MS
LIMIT_NS = WAIT_NS + IDLE_ACK_TOLERANCE_NS


@pytest.mark.parametrize("name", breaking(*SESSION_CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    assert_found(name)


class End:
    """One end of a session before its judge; what is not said does not happen."""

    def __init__(self, *, threshold: int = 4, window: int = 8, settled: bool = False) -> None:
        self.found: list[Violation] = []
        self.freed: list[str] = []
        self.judge = Sessions(
            self.found.append, lambda *_: settled, lambda _, packet: self.freed.append(f"{packet[0]} {packet[4]}")
        )
        self.judge.handle_opened(self.record(window=window, ack_threshold=threshold, idle_ack_delay_ns=WAIT_NS))

    def record(self, at_ns: int = 0, **fields: Any) -> dict[str, Any]:
        return {"node": BETA, "session": SESSION, "incarnation": 1, "at_ns": at_ns, **fields}

    def send(self, number: int, cls: str = "express", origin: str = BETA) -> bool:
        record = self.record()
        return self.judge.handle_sent(self.judge.link(record), number, packet(number, cls, origin), record)

    def receive(self, *numbers: int, at_ns: int = 0, duplicate: bool = False, cls: str = "express") -> None:
        for number in numbers:
            record = self.record(at_ns, duplicate=duplicate)
            self.judge.handle_received(self.judge.link(record), number, packet(number, cls), record)

    def ack(self, cumulative: int, at_ns: int = 0, ranges: list[list[int]] | None = None) -> None:
        self.judge.handle_ack_sent(self.record(at_ns, cumulative=cumulative, ranges=ranges))

    def finish(self, log_end: int = 1 << 60, forwarders: set[tuple[str, str, int]] | None = None) -> list[str]:
        self.judge.finish({(BETA, 1): log_end}, forwarders or set())
        return [f"{it.check} {it.number}" for it in self.found]


def packet(number: int, cls: str = "express", origin: str = ALPHA) -> Packet:
    return cls, origin, 1, 5, number


def test_a_full_window_is_full() -> None:
    """An ack makes room for what it names; a packet that leaves again takes no more, and the next one is too many."""
    end = End(window=2)
    assert [end.send(number) for number in (1, 2, 2)] == [True, True, False]
    end.judge.handle_ack_received(end.record(ranges=[[1, 1]]))
    end.send(3)
    assert end.finish() == []
    end.send(4)
    assert end.finish() == ["window 4"]
    assert end.found[0].evidence == "3 packets unacknowledged, the window is 2"


def test_a_wild_range_does_not_eat_the_memory() -> None:
    """An ack for all numbers there are is looked at as far as any window goes."""
    end = End()
    end.send(2)
    end.judge.handle_ack_received(end.record(ranges=[[2, 1 << 60], [1, 0]]))
    assert len(end.finish()) == ACK_RANGE_PACKETS_MAX - 1


def test_an_ack_is_judged_by_what_it_adds() -> None:
    """Two is acknowledged before it arrives, which later acks that repeat it do not make worse."""
    end = End()
    end.receive(1, 3)
    end.ack(1, ranges=[[2, 3]])
    end.ack(1, ranges=[[2, 3]])
    end.receive(2)
    end.ack(3)
    end.ack(2)
    assert end.finish() == ["ack_unsent 2"]


@pytest.mark.parametrize(("fresh", "late"), [(4 + ACK_BURST_PACKETS - 1, False), (4 + ACK_BURST_PACKETS, True)])
def test_a_burst_may_pass_the_threshold(fresh: int, late: bool) -> None:
    """A receiver may read a burst before it acknowledges; what came before is none of the new packets."""
    end = End(threshold=4)
    end.receive(*range(fresh), duplicate=True)
    end.receive(*range(1, fresh + 1))
    end.ack(fresh)
    assert end.finish() == (["half_window 1"] if late else [])


def test_without_a_threshold_no_number_is_too_high() -> None:
    end = End(threshold=0)
    end.receive(*range(1, 1001))
    end.ack(1000)
    assert end.finish() == []


@pytest.mark.parametrize(("took", "late"), [(LIMIT_NS, False), (LIMIT_NS + 1, True)])
def test_an_ack_comes_in_time_or_something_ends(took: int, late: bool) -> None:
    """The ack, the end of the session or the end of the log: the first of them must come before the delay is over."""
    said = ["idle_delay 1"] if late else []
    acked, closed, ended = End(), End(), End()
    for end in (acked, closed, ended):
        end.receive(1, at_ns=1000)
    acked.ack(1, at_ns=1000 + took)
    closed.judge.handle_closed(closed.record(1000 + took))
    closed.judge.handle_closed(closed.record(1000 + 9 * took))
    assert [acked.finish(), closed.finish(), ended.finish(log_end=1000 + took)] == [said] * 3


def test_the_delay_begins_with_the_first_new_packet() -> None:
    """And names the lowest one; what comes again, or after the ack, waits for nothing."""
    end = End()
    end.receive(9, at_ns=0, duplicate=True)
    end.receive(3, at_ns=LIMIT_NS)
    end.receive(2, at_ns=LIMIT_NS + 1)
    end.ack(0, at_ns=2 * LIMIT_NS + 1, ranges=[[2, 3]])
    end.receive(9, at_ns=3 * LIMIT_NS, duplicate=True)
    assert end.finish() == ["idle_delay 2"]
    assert end.found[0].evidence == "acknowledged after 750 ms, at most 750 ms are allowed"


@pytest.mark.parametrize(
    ("cls", "settled", "passed_on", "found"),
    [
        ("recoverable", False, False, ["store_ack_before_commit 1"]),
        ("transactional", False, False, ["store_ack_before_commit 1"]),
        ("express", False, False, []),
        ("recoverable", True, False, []),
        ("recoverable", False, True, []),
    ],
)
def test_a_store_ack_waits_for_the_disk(cls: str, settled: bool, passed_on: bool, found: list[str]) -> None:
    """Express has no disk, and of what a forwarder stores no record tells."""
    end = End(settled=settled)
    end.receive(1, cls=cls)
    end.ack(1)
    end.judge.handle_store_ack_sent(end.record(cumulative=2, ranges=[]))
    assert end.finish(forwarders={(BETA, ALPHA, 1)} if passed_on else set()) == found


@pytest.mark.parametrize("before", [False, True])
def test_each_class_is_freed_by_its_own_ack(before: bool) -> None:
    """Express, recoverable, and transactional where it was passed on; also by an ack that came before the packet left.

    Such an ack is a finding of its own, but no reason to ask for a resend.
    """
    end = End()

    def ack(kind: str) -> None:
        handle = {"session": end.judge.handle_ack_received, "store": end.judge.handle_store_ack_received}[kind]
        handle(end.record(ranges=[[1, 4]]))

    sent = {"express": BETA, "recoverable": BETA, "transactional": BETA}
    for kind, freed in (("session", ["express 1"]), ("store", ["recoverable 2", "transactional 4"])):
        end.freed.clear()
        end.judge.links.clear()
        if before:
            ack(kind)
        for number, (cls, origin) in enumerate((*sent.items(), ("transactional", ALPHA)), start=1):
            end.send(number, cls, origin)
        if not before:
            ack(kind)
            ack(kind)
        assert end.freed == freed
