"""The five policies side by side on real nodes, on small runs: the effects of the link, and the counts."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.tools.bench.measuring import measured
from triack.base.units import MS
from triack.node.handles.policies import DEFAULT, SOLACE
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.tools.bench import policy_nodes
from triack.tools.bench.policies import LINKS
from triack.tools.bench.policy_nodes import FINEST_NS, lose_session, pace, stream
from triack.tools.bench.table import side_by_side
from triack.tools.demo.relay import Direction
from triack.tools.sim.faults import Faults

NEAR = LINKS["LAN"]


async def test_a_way_delays_what_the_link_delays() -> None:
    """Half of the round trip, in order; not at all when it is shorter than a timer; nothing when it is cut."""
    far, near = (Direction(faults, "1", FINEST_NS) for faults in (Faults(delay_ns=20 * MS), NEAR))
    arrived, began_ns, over = list[tuple[bytes, int]](), time.monotonic_ns(), asyncio.Event()

    def deliver(datagram: bytes) -> bool:
        arrived.append((datagram, time.monotonic_ns() - began_ns))
        if datagram == b"2":
            over.set()
        return True

    far.pass_on(b"1", deliver)
    far.pass_on(b"2", deliver)
    near.pass_on(b"near", deliver)
    near.is_cut = True
    near.pass_on(b"cut", deliver)
    await asyncio.wait_for(over.wait(), PATIENCE_S)
    assert [datagram for datagram, _ in arrived] == [b"near", b"1", b"2"]
    assert min(at_ns for datagram, at_ns in arrived if datagram != b"near") >= 20 * MS
    assert (near.counters.dropped, near.sent, far.counters.forwarded) == (1, 2, 2)


@pytest.mark.slow
async def test_acks_are_counted_and_told(tmp_path: Path) -> None:
    """Solace: a third of the window is 16 messages, or more where more came before there was time to answer."""
    rate, acks = await stream(SOLACE, NEAR, tmp_path / "stream", 160)
    assert rate > 0
    assert 0 < acks < 0.5
    delays_ns, held_bytes = await pace(SOLACE, NEAR, tmp_path / "pace", 50)
    assert len(delays_ns) == 50
    assert delays_ns[-1] > 0
    assert held_bytes >= 100


@pytest.mark.slow
async def test_what_arrived_does_not_come_again_after_a_lost_session(tmp_path: Path) -> None:
    """Order acks wait for two seconds, so that the link was cut before any of them: the next accept says it all."""
    order = replace(DEFAULT.order, order_ack_idle_s=2, seq_max_ack_delay_s=2)
    settings = NodeSettings(session=SessionSettings(ack_timeout_s=1.0), order=order)
    assert await lose_session(settings, NEAR, tmp_path, 40) == 0


@pytest.mark.slow
async def test_all_of_it_has_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn as that of simulated nodes is."""
    monkeypatch.setattr(policy_nodes, "QUICK_SHARE", 50)
    result = await measured("POLICIES", tmp_path, None)
    lines = list(side_by_side(result))
    assert len(lines) == 15
    assert all((line[-1], "-" in line[:-1]) == ("-", False) for line in lines)
    assert result.verified
    assert any("no session was lost" in note for note in result.notes)
