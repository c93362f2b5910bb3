"""Measurements of the proof: drains, channels, floods, hundreds of peers, the replay window, pings."""

import asyncio
from dataclasses import replace

import pytest

import triack
from proof import channel as module
from proof import drains
from proof import flood as flooding
from proof.channel import Cost, compare
from proof.drains import COUNTS, KINDS, measure
from proof.flood import Victim, flood
from proof.hundred import GROWTH_MAX_BYTES, Beside, Hundred, hundred
from proof.pinger import ping_for_ever
from proof.window import compare as compare_windows
from tests.machine import PATIENCE_S
from tests.spies import watch
from triack.queues.manager.engine import Engine
from triack.tools.demo.run import Plan, Transfer
from triack.transport import replay_window
from triack.transport.handshake_load import Admission
from triack.transport.replay_window import WINDOW, ReplayWindow
from triack.transport.secure import SecureChannels

# The benchmark of idle and busy polls, at a size that fits the suite: its figures are its own, its rows are not.


def test_every_kind_is_measured_at_every_count() -> None:
    """They come in order, each with a report; the first of a kind is what the others are compared with."""
    said: list[str] = []
    rows = measure(said.append, counts=(1, 3), rounds=3)
    assert [(row["kind"], row["count"]) for row in rows] == [(kind, count) for kind in KINDS for count in (1, 3)]
    assert [row["ratio"] for row in rows if row["count"] == 1] == [1.0] * len(KINDS)
    for row in rows:
        assert row["idle_us"] > 0
        assert row["busy_us"] > 0
    assert len(said) == len(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_as_many_of_a_kind_as_it_says(kind: str) -> None:
    """All of them at rest in one engine."""
    book: dict[str, drains._Node] = {}
    node, peer = drains._Node(0, book), drains._Node(1, book)  # noqa: SLF001 - what it makes is the question
    KINDS[kind](node, peer, 5)
    node.settle()
    engine = node.engine
    there = {
        "queues": len(engine.queues.mailboxes) - 1,
        "outgoing queues": len(engine.outbox.streams),
        "incoming streams": len([name for name in engine.queues.mailboxes if name.startswith("q")]),
        "sessions": len(engine.handshakes.conversations),
    }
    assert there[kind] == 5


def test_idle_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that is timed as idle finds nothing to do, and there is one for each round."""
    polls = watch(monkeypatch, Engine, "next_deadline")
    found: list[int] = []
    real = Engine.poll

    def poll(self: Engine, now_ns: int) -> list[object]:
        effects = real(self, now_ns)
        found.append(len(effects))
        return list(effects)

    monkeypatch.setattr(Engine, "poll", poll)
    monkeypatch.setattr(drains, "KINDS", {"queues": KINDS["queues"]})
    measure(lambda _line: None, counts=(2,), rounds=7)
    assert len(polls) == 7
    runs = "".join("0" if count == 0 else "1" for count in found)
    assert "0" * 7 in runs


def test_the_benchmark_goes_up_to_ten_thousand() -> None:
    """What the promise speaks of."""
    assert (COUNTS[0], COUNTS[-1]) == (1, 10_000)


# The cost of the channel is measured on real work; a channel that costs too much, or breaks a message, is found.

PLAN = Plan(messages=300, size=100, loss=0, duplicate=0, reorder=0, seed=1, transport="udp", timeout=PATIENCE_S)
SECOND_NS = 1_000_000_000


@pytest.mark.slow
def test_both_kinds_do_all_of_the_work() -> None:
    """In turns, the other one first each time; so few messages say nothing of the cost."""
    said: list[str] = []
    found = compare(replace(PLAN, messages=100), 2, said.append)
    assert [line.partition(":")[0] for line in said] == ["without keys", "with keys", "with keys", "without keys"]
    assert all("100 messages" in line for line in said)
    assert min(found.secured + found.insecure) > 0
    assert found.ratio == pytest.approx(sum(found.secured) / sum(found.insecure), rel=0.001)


def compare_runs(monkeypatch: pytest.MonkeyPatch, *, secured_s: float, **wrong: int) -> Cost:
    """The result for runs that take a second without keys, and this long with them."""

    def run(plan: Plan) -> Transfer:
        done = Transfer(sent=300, ordered=300, delivered=300, first_ns=0)
        done.last_ns = int(SECOND_NS * (1 if plan.insecure else secured_s))
        for name, value in wrong.items():
            setattr(done, name, value)
        return done

    monkeypatch.setattr(module, "_run", run)
    return compare(PLAN, 3, lambda _: None)


@pytest.mark.parametrize(("secured_s", "violations"), [(0.9, 0), (1.33, 0), (1.34, 1), (3, 1)])
def test_a_channel_that_costs_more_than_a_quarter_is_found(
    secured_s: float, violations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compare_runs(monkeypatch, secured_s=secured_s)
    assert found.violations == violations
    assert found.ratio == pytest.approx(1 / secured_s, abs=0.001)


@pytest.mark.parametrize("wrong", ["duplicates", "out_of_order", "corrupt", "delivered", "ordered"])
def test_work_that_was_not_done_well_does_not_count(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_runs(monkeypatch, secured_s=1, **{wrong: 299}).violations == 6


# A sample of the flood, and floods that a worse node would not bear.


@pytest.mark.slow
def test_a_node_bears_a_flood() -> None:
    """``make flood`` sends a million."""
    found = flood(10_000)
    assert (found.violations, found.peers_tried, found.peers_failed) == (0, 2, 0)
    assert found.answered > 1_000
    assert found.amplification <= 52 / 1_200 + 0.001
    assert found.memory_bytes < 100_000


@pytest.mark.slow
def test_a_node_that_remembers_strangers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte for each is too much."""
    kept: list[bytes] = []
    real = Victim.answer

    def answer(self: Victim, datagram: bytes, sender: str, now_ns: int) -> bytes:
        kept.append(datagram)
        return real(self, datagram, sender, now_ns)

    monkeypatch.setattr(Victim, "answer", answer)
    assert flood(5_000).memory_bytes > flooding.MEMORY_BYTES_MAX


@pytest.mark.gate
def test_answers_that_are_too_long_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one byte."""
    monkeypatch.setattr(SecureChannels, "_retry", lambda *_: bytes(1_201))
    monkeypatch.setattr(flooding, "PEER_EVERY", 1 << 30)
    assert flood(2_000).violations == 1


@pytest.mark.gate
def test_peers_that_are_kept_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that gives up when it is loaded."""
    monkeypatch.setattr(Admission, "admits", lambda *_: False)
    monkeypatch.setattr(flooding, "PEER_EVERY", 1_000)
    found = flood(2_000)
    assert found.violations == found.peers_failed == found.peers_tried == 2


# Four peers instead of a hundred, and figures that no good node has.


@pytest.mark.slow
def test_a_bad_peer_leaves_the_others_going_and_the_memory_small() -> None:
    """``make hundred`` has ninety nine of them, and time to measure."""
    found = hundred(0.1, peers=3, rounds=1)
    assert all(rate > 0 for bad in (found.unread, found.stopped, found.pinging) for rate in (*bad.alone, *bad.beside))
    assert found.unread.growth_bytes <= GROWTH_MAX_BYTES


def test_what_breaks_a_promise_is_found() -> None:
    """A throughput that falls, a memory that grows."""
    good, slow = Beside([100.0, 120.0], [110.0, 90.0], 0), Beside([100.0, 100.0], [100.0, 79.0], 0)
    large = Beside([100.0], [100.0], GROWTH_MAX_BYTES + 1)
    found = [
        Hundred(unread, stopped, pinging, 1.0)
        for unread, stopped, pinging in (
            (good, good, good),
            (slow, good, good),
            (good, slow, good),
            (large, good, good),
            (good, good, slow),
        )
    ]
    assert [one.violations for one in found] == [0, 1, 1, 1, 1]
    assert found[1].to_json() == {
        "messages_a_second": 107,
        "unread_kept": 0.895,
        "unread_growth_bytes": 0,
        "stopped_kept": 0.909,
        "pinging_kept": 0.909,
        "violations": 1,
        "seconds": 1.0,
    }


# The proof of the replay window finds nothing, and would.


@pytest.mark.slow
def test_window_and_oracle_agree_on_many_counters() -> None:
    """``make window`` shows them ten million."""
    found = compare_windows(200_000)
    assert found.violations == 0
    assert 80_000 < found.taken < 180_000


@pytest.mark.slow
@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW + 1])
def test_a_window_of_another_length_is_found(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too short by one, and too long by one."""
    monkeypatch.setattr(replay_window, "WINDOW", length)
    monkeypatch.setattr(replay_window, "_ALL", (1 << length) - 1)
    assert compare_windows(100_000).violations > 0


@pytest.mark.gate
def test_counters_that_are_not_missed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were skipped would be refused."""

    def careless(window: ReplayWindow, counter: int) -> None:
        window.newest = max(window.newest, counter)

    monkeypatch.setattr(ReplayWindow, "take", careless)
    assert compare_windows(100_000).violations > 0


# The bad peer that sends nothing but pings is one: a node opens a session with it, and closes that.


@pytest.mark.asyncio
async def test_each_session_is_closed_for_its_first_datagram_of_pings() -> None:
    """The reason is counted, and the next session opens."""
    async with triack.open("hub", data=None, listen="udp://127.0.0.1:0", insecure=True) as node:
        assert node.address is not None
        sessions = ping_for_ever(node.address)
        for number in (1, 2, 3):
            assert await asyncio.to_thread(next, sessions) == number
        assert node.stats().drops["repeated-frame"] >= 2
        sessions.close()
