"""The five policies side by side, on small runs: the compared figures, and HornetQ's arithmetic."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured
from triack.base.units import MS
from triack.node.handles.policies import AMPS, DEFAULT, HORNETQ, MSMQ, SOLACE
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.positions import Positions
from triack.tools.bench import policies
from triack.tools.bench.policies import LINKS, blocking_rate, lose_session, pace, stream
from triack.tools.bench.table import side_by_side
from triack.tools.sim.faults import Faults

NEAR = LINKS["LAN"]


@pytest.mark.slow
def test_a_sender_that_waits_for_each_message_sends_one_in_a_round_trip() -> None:
    """HornetQ's manual: 0.25 ms are at most 4,000 a second; disks make it fewer."""
    assert 3_950 < blocking_rate(MS // 4, 0) < 4_000
    assert 950 < blocking_rate(MS, 0) < 1_000
    assert blocking_rate(MS // 4, MS // 4) < 2_000


@pytest.mark.slow
@pytest.mark.gate
def test_a_window_of_messages_is_all_that_goes_in_a_round_trip() -> None:
    """Solace's blog: throughput is the window by the round trip, with 50 messages and 50 ms a thousand a second."""
    far = Faults(rate_bps=100_000_000, delay_ns=25 * MS, queue_bytes=625_000)
    assert 600 < stream(SOLACE, far, 500).rate < 1_000
    assert stream(replace(SOLACE, messages_per_packet=None), far, 500).rate > 1_000


@pytest.mark.slow
def test_an_ack_comes_as_late_as_its_policy_lets_it() -> None:
    """AMPS: two intervals, and the debounce of order acks never; what is held until then is in the sender's memory."""
    amps, solace = pace(AMPS, NEAR, 400), pace(SOLACE, NEAR, 400)
    assert len(amps.delays_ns) == len(solace.delays_ns) == 400
    assert amps.delays_ns[0] > 1_000 * MS
    assert amps.delays_ns[-1] < 3_000 * MS
    assert solace.delays_ns[-1] < 1_100 * MS
    assert amps.held_bytes > solace.held_bytes > 0


@pytest.mark.parametrize("settings", [DEFAULT, MSMQ, SOLACE, HORNETQ, AMPS])
def test_after_a_lost_session_nothing_comes_again(settings: NodeSettings) -> None:
    """The accept of the next one says what is there."""
    assert lose_session(settings, NEAR, 100).again == 0


@pytest.mark.plain
def test_what_an_accept_does_not_tell_of_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a window of it; and it is delivered once, which each run checks."""
    monkeypatch.setattr(Positions, "tell", lambda *_: ())
    again = lose_session(MSMQ, NEAR, 100).again
    assert again is not None
    assert 0 < again <= 64


@pytest.mark.slow
async def test_all_of_it_has_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from triack.tools.bench.plots import draw

    monkeypatch.setattr(policies, "QUICK_SHARE", 50)
    result = await measured("POLICIES", tmp_path, None, simulated=True)
    ((title, plot),) = draw([result])
    assert title.startswith("POLICIES: ")
    assert all(f">{name}<" in plot for name in ("DEFAULT", "MSMQ", "SOLACE", "HORNETQ", "AMPS"))
    lines = list(side_by_side(result))
    assert [line[:2] for line in lines[:2]] == [("LAN", "DEFAULT"), ("LAN", "MSMQ")]
    assert len(lines) == 15
    assert all("-" not in line for line in lines)
    assert result.verified
    assert any("at most 4,000" in note for note in result.notes)
