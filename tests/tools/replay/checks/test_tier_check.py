"""The resend tiers, by the settings in force and the clock."""

import pytest

from tests.tools.replay.harmless import HARMLESS
from triack.base.units import MS
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.checks.tier_check import Tiers
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import Record
from triack.tools.replay.log.ranges import RangeSet

OF_FIRST: Record = {"node": "a", "incarnation": 1, "n": 1, "wall_ns": 0, "sequence": 1, "number": 1, "packets": 1}
OF_FIRST |= {"resend": False, "previous": 0, "first": 1, "last": 1}
"""What records of the first packet of a stream say."""


def of_interval(resend_ms: int) -> tuple[Tiers, Output]:
    """The tiers of a node that sends again after that time, and what they find."""
    out = Output()
    tiers = Tiers("a", 1, out)
    tiers.handle_settings({"seq_resend_13_ns": resend_ms * MS})
    return tiers, out


def test_only_the_word_of_a_full_queue_excuses_a_wait() -> None:
    """Without it, a packet that was sent again should have been sent when its tier ran out."""
    world = HARMLESS["held_back_for_longer_than_its_tier"]()
    world.alpha.drop("hold_received", stop=True)
    world.alpha.drop("hold_received", stop=False)
    assert {found.check for found in judge_records(world.all_records())} == {"resend_tiers"}


@pytest.mark.parametrize(("repeats", "previous"), [(True, 11), (False, 12), (False, 11)])
def test_what_a_session_had_already_is_still_to_be_sent_again(repeats: bool, previous: int) -> None:
    """Packet 12 was removed, so 13 is to leave with another ``previous``; until then an ack speaks of the old one."""
    tiers, out = of_interval(300)
    removed = RangeSet([(12, 12)])
    sent = {**OF_FIRST, "number": 13}
    tiers.handle_sent({**sent, "at_ns": 1, "resend": False, "previous": 12}, RangeSet())
    tiers.handle_again(13)
    tiers.handle_sent({**sent, "at_ns": 200 * MS, "resend": repeats, "previous": previous}, removed)
    tiers.handle_arrived({**sent, "at_ns": 280 * MS, "first": 13, "last": 13}, 13, 13)
    tiers.handle_scheduled(
        {**sent, "at_ns": 1_200 * MS, "first": 13, "last": 13, "attempt": 1, "interval_ns": 300 * MS}
    )
    is_new = not repeats and previous not in removed
    assert [found.violation.check for found in out.findings] == (["resend_tiers"] if is_new else [])


@pytest.mark.parametrize("has_waited", [False, True])
def test_where_packets_have_waited_at_a_relay_no_attempt_is_counted(has_waited: bool) -> None:
    """Without a word that they wait the attempts go on. One that they do ends with the session in use, by chance."""
    tiers, out = of_interval(300)
    at = {**OF_FIRST, "number": 13, "session": "s"}
    again = {**at, "first": 13, "last": 13, "interval_ns": 300 * MS}
    tiers.handle_sent({**at, "at_ns": 1, "resend": False, "previous": 12}, RangeSet())
    tiers.handle_scheduled({**again, "at_ns": 1 + 300 * MS, "attempt": 1})
    if has_waited:
        tiers.handle_onward({**at, "at_ns": 400 * MS, "here": 13, "waits": True})
    tiers.handle_onward({**at, "at_ns": 500 * MS, "here": 0, "waits": False})
    tiers.handle_scheduled({**again, "at_ns": 1 + 600 * MS, "attempt": 2})
    assert out.findings == []
    tiers.handle_scheduled({**again, "at_ns": 1 + 900 * MS, "attempt": 2})
    assert [found.violation.check for found in out.findings] == ([] if has_waited else ["resend_tiers"])


@pytest.mark.parametrize("at_ms", [None, 299, 300])
def test_an_order_ack_of_what_was_given_up_at_that_moment_is_no_progress(at_ms: int | None) -> None:
    """The wait goes on. Its packets are removed at that time: the record of it may follow that of the next attempt."""
    tiers, out = of_interval(300)
    tiers.handle_sent({**OF_FIRST, "at_ns": 0}, RangeSet())
    tiers.handle_progress({**OF_FIRST, "at_ns": 300 * MS}, outstanding=True)
    again = {**OF_FIRST, "number": 2, "first": 2, "last": 2, "attempt": 1, "interval_ns": 300 * MS}
    tiers.handle_scheduled({**again, "at_ns": 300 * MS})
    if at_ms is not None:
        tiers.handle_removed({**OF_FIRST, "at_ns": at_ms * MS}, outstanding=True)
    tiers.finish()
    assert [found.violation.check for found in out.findings] == ["resend_tiers"] * (at_ms != 300)


@pytest.mark.parametrize("held", [False, True])
def test_while_nothing_is_on_its_way_no_tier_runs_out(held: bool) -> None:
    """The next hop has given all back; what its session had taken before does not count."""
    tiers, out = of_interval(300)
    sent = OF_FIRST
    tiers.handle_sent({**sent, "at_ns": 1}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 100 * MS}, 1, 1)
    tiers.handle_withdrawn(RangeSet([(1, 1)]), held=held)
    if held:
        tiers.handle_sent({**sent, "at_ns": 200 * MS}, RangeSet())
        tiers.handle_arrived({**sent, "at_ns": 250 * MS}, 1, 1)
        tiers.handle_withdrawn(RangeSet([(1, 1)]))
    tiers.handle_sent({**sent, "at_ns": 5_000 * MS}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 5_100 * MS}, 1, 1)
    tiers.handle_scheduled({**sent, "at_ns": 5_300 * MS, "attempt": 1, "interval_ns": 300 * MS})
    assert out.findings == []
    tiers.handle_sent({**sent, "at_ns": 5_300 * MS}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 5_400 * MS}, 1, 1)
    tiers.handle_failed({**sent, "at_ns": 5_450 * MS}, RangeSet([(1, 1)]))
    tiers.handle_progress({**sent, "at_ns": 9_000 * MS}, outstanding=True)
    assert out.findings == []
    tiers.handle_sent({**sent, "at_ns": 9_000 * MS}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 9_100 * MS}, 1, 1)
    tiers.handle_progress({**sent, "at_ns": 9_900 * MS}, outstanding=True)
    assert [found.violation.check for found in out.findings] == ["resend_tiers"]


@pytest.mark.parametrize("attempt", [1, 3])
def test_another_way_begins_at_the_first_tier(attempt: int) -> None:
    """Also by a session that was open before, as its node serves other streams."""
    tiers, out = of_interval(300)
    sent = {**OF_FIRST, "interval_ns": 300 * MS}
    tiers.handle_sent({**sent, "at_ns": 1}, RangeSet())
    for before in (1, 2):
        tiers.handle_scheduled({**sent, "at_ns": 1 + before * 300 * MS, "attempt": before})
    tiers.handle_rerouted(700 * MS, RangeSet([(1, 1)]))
    tiers.handle_sent({**sent, "at_ns": 700 * MS}, RangeSet())
    tiers.handle_opened("c", MS, resumed=True)
    tiers.handle_arrived({**sent, "at_ns": 800 * MS}, 1, 1)
    tiers.handle_scheduled({**sent, "at_ns": 1_000 * MS, "attempt": attempt})
    assert [found.violation.check for found in out.findings] == ["resend_tiers"] * (attempt == 3)


@pytest.mark.parametrize("held", [True, False])
def test_while_a_next_hop_has_no_room_a_wait_begins_with_each_packet_that_asks_for_some(held: bool) -> None:
    """The one before ended while nothing was on its way."""
    tiers, out = of_interval(10_000)
    sent = {**OF_FIRST, "interval_ns": 10_000 * MS}
    tiers.handle_sent({**sent, "at_ns": 1}, RangeSet())
    tiers.handle_withdrawn(RangeSet([(1, 1)]), held=held)
    tiers.handle_sent({**sent, "at_ns": MS}, RangeSet())
    tiers.handle_scheduled({**sent, "at_ns": 10_001 * MS, "attempt": 1})
    tiers.handle_sent({**sent, "at_ns": 65_001 * MS}, RangeSet())
    tiers.handle_scheduled({**sent, "at_ns": 75_001 * MS, "attempt": 2})
    assert [found.violation.check for found in out.findings] == ["resend_tiers"] * (not held)
