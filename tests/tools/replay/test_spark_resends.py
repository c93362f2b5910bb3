"""What a sender promises about sending again, as Spark sees it; and the serial numbers of the records."""

import pytest

from tests.tools.replay.faults import LOG_CHECKS, RESEND_CHECKS, breaking
from tests.tools.replay.planted import Planted

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("name", breaking(*RESEND_CHECKS, *LOG_CHECKS))
def test_a_planted_fault_is_found(planted: Planted, name: str) -> None:
    planted.fault(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("attempts_miscounted", ["attempt 1 follows attempt 3", "attempt 3 follows attempt 1"]),
        (
            "waits_uneven",
            [
                "waits of tier 2 go from 400000000 to 600000000 ns",
                "tier 3 waits 200000000 ns, the tier before 400000000 ns",
            ],
        ),
        (
            "packet_forgotten_by_the_next_session",
            ["unacknowledged when its session failed, and skipped by later sessions"],
        ),
    ],
)
def test_the_evidence_has_the_numbers(planted: Planted, name: str, said: list[str]) -> None:
    assert planted.evidence(name) == said


def test_a_jump_of_the_serials_is_shown(planted: Planted) -> None:
    assert "incarnation 1: record 7 follows record 4" in planted.evidence("records_missing")


def test_resends_are_counted(planted: Planted) -> None:
    """Each time that a packet left again, in whichever session."""
    again = 0
    for world in planted.worlds.values():
        for log in (world.alpha, world.beta):
            packets = [tuple(map(it.get, ("origin", "lane", "sequence", "number"))) for it in log.all("packet_sent")]
            again += len(packets) - len(set(packets))
    assert planted.spark[0].resends == again > 10
