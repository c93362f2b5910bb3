"""What a sender promises about sending again."""

import pytest

from tests.tools.replay.builder import ALPHA, BETA, MS, PER_PACKET, World, place, scheduled
from tests.tools.replay.faults import RESEND_CHECKS, TX, breaking, ready
from tests.tools.replay.judging import assert_found, verdict_of
from triack.tools.replay.local_resends import Resends, Tiers
from triack.tools.replay.schema import POSITION_SHIFT, TIER_NOISE_NS, Violation


@pytest.mark.parametrize("name", breaking(*RESEND_CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    assert_found(name)


def test_resends_and_failures_are_counted() -> None:
    """A packet counts each time that it leaves again, a session once, though both of its ends say that it failed."""
    resends = Resends(lambda _: None)
    packet = (TX, ALPHA, 1, 5, 1)
    left = [resends.handle_sent(node, "s", packet, at) for at, node in enumerate((ALPHA, ALPHA, BETA, ALPHA))]
    assert left == [False, True, False, True]
    assert resends.count == 2
    for node, reason in ((ALPHA, "path-lost"), (BETA, "ack-timeout"), (ALPHA, "drained")):
        resends.handle_closed({"node": node, "session": "s" if reason != "drained" else "t", "reason": reason})
    assert resends.sessions_failed() == 1


@pytest.mark.parametrize(
    ("cls", "incarnation", "found"), [("express", 1, 1), ("express", 2, 0), (TX, 1, 1), (TX, 2, 1)]
)
def test_a_skipped_packet_is_found_unless_it_died_in_memory(cls: str, incarnation: int, found: int) -> None:
    """Packet 1 of a failed session never leaves again; packet 2 leaves in another session, perhaps after a restart."""
    assert skipped((cls, "t", incarnation, 2)) == found


@pytest.mark.parametrize(("session", "number"), [("s", 2), ("t", 1)])
def test_only_what_a_later_session_overtakes_was_skipped(session: str, number: int) -> None:
    """What went on in the same session had been sent before it failed; and what leaves again is not left behind."""
    assert skipped((TX, session, 1, number)) == 0


def test_a_session_that_went_on_before_overtakes_nothing() -> None:
    """The later packet left before the one that is asked about: it was its turn."""
    assert skipped((TX, "t", 0, 2)) == 0


@pytest.mark.parametrize("freed", ["acked", "removed", "order-acked"])
def test_what_was_freed_needs_no_resend(freed: str) -> None:
    assert skipped((TX, "t", 1, 2), freed) == 0


def skipped(later: tuple[str, str, int, int], freed: str = "") -> int:
    """How many packets are found missing when packet 1 left in a failed session `s`, and then another."""
    cls, session, incarnation, number = later
    found: list[Violation] = []
    resends = Resends(found.append)
    resends.handle_sent(ALPHA, "s", (cls, ALPHA, 1, 5, 1), 1 << POSITION_SHIFT | 7)
    resends.handle_closed({"node": ALPHA, "session": "s", "reason": "path-lost"})
    where = {"origin": ALPHA, "lane": 1, "sequence": 5}
    if freed == "acked":
        resends.handle_freed(ALPHA, (cls, ALPHA, 1, 5, 1))
    elif freed == "removed":
        resends.handle_removed({**where, "first": 1, "last": 1})
    elif freed == "order-acked":
        resends.handle_order_ack({**where, "node": ALPHA, "number": 1})
    resends.handle_sent(ALPHA, session, (cls, ALPHA, 1, 5, number), incarnation << POSITION_SHIFT | 9)
    resends.finish()
    assert {it.check for it in found} <= {"close_without_full_resend"}
    return len(found)


def attempts(world: World, *numbers: int) -> None:
    for number in numbers:
        scheduled(world, number, 30 * MS)


def test_the_first_attempt_is_1() -> None:
    world = ready()
    attempts(world, 2)
    assert [it.evidence for it in verdict_of(world).findings] == ["attempt 2 follows attempt 0"]


@pytest.mark.parametrize("reason", ["session", "progress", "removal", "start"])
def test_there_are_reasons_to_begin_again(reason: str) -> None:
    """And they hold for the first attempt after them, not for the one that follows it."""
    world = ready()
    attempts(world, 1, 2)
    if reason == "session":
        world.open()
    elif reason == "progress":
        world.alpha.write("order_ack_received", **place(TX), number=1)
    elif reason == "removal":
        world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="expired")
    else:
        world.alpha.start()
    attempts(world, 1, 1)
    checked = [it for it in verdict_of(world).findings if it.check == "resend_tiers"]
    assert [it.evidence for it in checked] == ["attempt 1 follows attempt 1"]


@pytest.mark.parametrize("event", ["order_ack_received", "removed"])
def test_what_is_no_progress_is_no_reason(event: str) -> None:
    """An order ack for what had been acknowledged before; a removal in another lane."""
    world = ready()
    world.alpha.write("order_ack_received", **place(TX), number=3)
    attempts(world, 1)
    if event == "removed":
        lost = {**place("recoverable"), "first": 1, "last": 1, "count": PER_PACKET}
        world.alpha.write("removed", cls="recoverable", **lost, reason="expired")
    else:
        world.alpha.write("order_ack_received", **place(TX), number=3)
    attempts(world, 1)
    checked = [it for it in verdict_of(world).findings if it.check == "resend_tiers"]
    assert [it.evidence for it in checked] == ["attempt 1 follows attempt 1"]


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        ((100 * MS, 120 * MS + TIER_NOISE_NS), []),
        ((100 * MS, 120 * MS + TIER_NOISE_NS + 1), [1]),
        ((100 * MS, 100 * MS, 100 * MS, (100 * MS - TIER_NOISE_NS) * 100 // 120 + 1), []),
        ((100 * MS, 100 * MS, 100 * MS, (100 * MS - TIER_NOISE_NS) * 100 // 120), [4]),
    ],
)
def test_waits_may_differ_by_a_fifth_and_some_noise(waits: tuple[int, ...], found: list[int]) -> None:
    """Within a tier, and from one tier down to the next."""
    violations: list[Violation] = []
    tiers = Tiers(violations.append)
    for attempt, wait in enumerate(waits, start=1):
        tiers.handle_scheduled(
            {"node": ALPHA, "origin": ALPHA, "lane": 1, "sequence": 5, "incarnation": 1, "attempt": attempt}
            | {"interval_ns": wait}
        )
    tiers.finish()
    assert [it.number for it in violations] == found
