"""What has not arrived yet, and whether it comes nearer."""

from tests.queues.bare import Bare, rest, settle
from triack.base.delivery import Delivery
from triack.queues.manager.closing import Departure, left_behind, way_made


def test_what_is_left_is_counted_by_destination() -> None:
    """Before it is packed, while it is committed, and on its way; what is on no disk, or not yet, for itself."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"1", b"2")
    a.submit(b.address, b"3", delivery=Delivery.EXPRESS)
    for _ in range(2):
        assert (left_behind(a.engine, stored=True), left_behind(a.engine, stored=False)) == ({}, {"memory://b/q": 3})
        a.poll()
    a.finish_job()
    assert left_behind(a.engine, stored=True) == {"memory://b/q": 2}
    assert left_behind(a.engine, stored=False) == {"memory://b/q": 1}
    rest(a, b)
    assert (left_behind(a.engine, stored=True), left_behind(a.engine, stored=False)) == ({}, {})


def test_every_step_of_the_way_is_seen() -> None:
    """A peer that answers, a packet that is acknowledged; silence is none."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"1")
    a.poll()
    a.finish_job()
    seen = way_made(a.engine)
    hello = a.poll()
    assert way_made(a.engine) == seen
    b.hear(hello, a)
    a.hear(b.poll(), b)
    assert way_made(a.engine) != seen
    seen = way_made(a.engine)
    rest(a, b)
    assert way_made(a.engine) != seen


def test_acknowledgements_are_asked_for_once() -> None:
    """They come at once, and not after the idle delay; nothing is left to wait for then."""
    a, b = Bare("a"), Bare("b")
    woken: list[None] = []
    departure = Departure(a.engine, lambda: woken.append(None))
    assert not departure.hasten()
    a.submit(b.address, b"1")
    assert departure.hasten()
    assert departure.hasten()
    settle(a, b)
    assert not departure.hasten()
    assert len(woken) == 1
