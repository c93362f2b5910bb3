"""The checks of relays."""

from pathlib import Path

import pytest

from tests.tools.replay.builder import ALPHA, BETA
from tests.tools.replay.judging import verdict_of, without
from tests.tools.replay.relays import HONEST, RHO, TX, Relayed, through_relay
from tests.tools.replay.telling import happens
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.run import replay
from triack.tools.replay.transit.brought import Brought

# Relays: each promise of theirs has lies that break it, honest relays break none, and a missing log accuses nobody.


@pytest.mark.parametrize("node", [ALPHA, BETA, RHO])
@pytest.mark.parametrize("name", HONEST)
def test_a_missing_log_accuses_nobody(name: str, node: str) -> None:
    """Of whichever node it is: what the others say is believed as far as it goes."""
    verdict = without(HONEST[name](), node)
    assert (verdict.verdict, verdict.missing, verdict.violations) == ("incomplete", [f"node {node}"], {})


@pytest.mark.parametrize("name", ["through_relay", "transit_and_its_record_apart"])
def test_a_cut_log_of_an_earlier_life_of_a_relay_accuses_nobody(name: str) -> None:
    """Wherever it is cut: the next start knows how many records there were, so the verdict is incomplete."""
    records = HONEST[name]().all_records()
    whole = [it for it in records if (it["node"], it["incarnation"]) == (RHO, 1)]
    (again,) = (it for it in records if (it["event"], it["node"], it["incarnation"]) == ("start_before", RHO, 2))
    again["records"] = len(whole)
    for kept in range(0, len(whole), 5):
        verdict = verdict_on([it for it in records if it not in whole[kept:]])
        assert (verdict.verdict, verdict.violations) == ("incomplete", {}), kept


def test_a_message_counts_once_however_many_nodes_it_passes() -> None:
    verdict = verdict_of(through_relay())
    assert (verdict.sent, verdict.delivered, verdict.pending) == (160, 160, 0)
    assert verdict.resends == 0


def test_what_is_in_transit_is_pending() -> None:
    verdict = verdict_of(happens("bring kept 3; ended", Relayed()))
    assert (verdict.verdict, verdict.sent, verdict.delivered, verdict.pending) == ("pass", 30, 0, 30)


def test_what_a_relay_gives_up_of_what_its_origin_forgot_is_dead() -> None:
    """A recoverable packet expires at rho; the next one arrives."""
    verdict = verdict_of(HONEST["expired_in_transit"]())
    assert str(verdict) == "20 sent = 10 delivered + 10 dead (10 at-relay)"


def test_the_way_of_a_stream_is_known_and_how_long_packets_stayed(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    through_relay().save(tmp_path / "logs")
    timeline = replay(tmp_path / "logs", engine="local", report=tmp_path / "page.html").timeline
    assert timeline is not None
    assert timeline.ways[ALPHA, 1] == [(ALPHA, RHO), (RHO, BETA)]
    assert {node for _, _, node in timeline.dwell} == {RHO}
    assert sum(timeline.dwell[ALPHA, 1, RHO].values()) == 6
    text = (tmp_path / "page.html").read_text()
    assert ">alpha → rho → beta</span>" in text.partition("<h2>Ways over relays</h2>")[2]


QUICK = "change alpha node_started seq_resend_13_ns=1000000000; bring tx 2"
"""What alpha has sent goes out again after a second."""


def test_a_word_that_packets_wait_ends_with_its_session() -> None:
    """Then the origin's tier runs again, and is missed when it does not."""
    world = happens(
        f"{QUICK}; alpha onward_received tx here=2 waits=true session=@first;"
        "alpha onward_received tx here=2 waits=false session=@first; queue tx 1; first.send tx 3 0; take tx 3;"
        "first.ack 3; wait 30000; order_ack 2; end",
        Relayed(),
    )
    assert "resend_tiers" in verdict_of(world).violations


@pytest.mark.parametrize("then", ["", "first.close idle; call first alpha rho;"], ids=["goes on", "is idle"])
def test_what_waited_at_a_relay_is_sent_by_a_tier_when_its_word_is_taken_back(then: str) -> None:
    """The session that began with that word passes it over, or ends as idle and leaves it to the next: no fault."""
    word = "alpha onward_received tx session=@first"
    world = happens(
        f"{QUICK}; first.close ack-timeout; call first alpha rho; {word} here=2 waits=true; {word} here=0 waits=false;"
        f"{then} queue tx 1; first.send tx 3 0; first.ack 1; take tx 3; order_ack 3; end",
        Relayed(),
    )
    assert "close_without_full_resend" not in verdict_of(world).violations


# What has come to a relay: by hop count, and which packet each one named as its previous.


def came(brought: Brought, number: int, packets: int, previous: int, hops: int = 0, cls: str = TX) -> None:
    brought.take({"class": cls, "number": number, "packets": packets, "previous": previous, "hops": hops})


def test_all_but_the_first_of_a_run_name_the_one_before_them() -> None:
    brought = Brought()
    came(brought, 5, 3, 2)
    assert brought.named(5, 7, 2) == []
    assert brought.named(5, 7, 4) == [(5, 5)]
    assert brought.named(6, 7, 5) == []
    assert brought.named(6, 8, 2) == [(6, 6), (8, 8)]
