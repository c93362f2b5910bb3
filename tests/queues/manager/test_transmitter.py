"""What conversations send: from links to sessions, from sessions to addresses."""

from tests.queues.bare import Bare, events, rest
from triack.base.delivery import Delivery
from triack.base.errors import StoreFailed
from triack.base.units import SECOND
from triack.queues.manager.effects import Send
from triack.queues.stages import Stage

EXPRESS = Delivery.EXPRESS


def sent(node: Bare) -> int:
    return sum(len(effect.datagrams) for effect in node.poll() if isinstance(effect, Send))


def test_a_session_gets_what_its_window_takes() -> None:
    """And the rest when that opens again."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x", delivery=EXPRESS)
    rest(a, b)
    outgoing = a.submit(b.address, *[b"y" * 60_000] * 100, delivery=EXPRESS)
    assert sent(a) == 64
    assert outgoing.unacknowledged == 100
    rest(a, b)


def test_what_leaves_again_leaves_by_itself() -> None:
    """Packets that left together the first time may have been lost together, and must not be so again."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x", delivery=EXPRESS)
    rest(a, b)
    a.submit(b.address, *[b"y" * 60_000] * 10, delivery=EXPRESS)
    first = [len(effect.datagrams) for effect in a.poll() if isinstance(effect, Send)]
    a.now_ns += SECOND
    again = [len(effect.datagrams) for effect in a.poll() if isinstance(effect, Send)]
    assert (first, again) == ([10], [1, 1])


def test_a_node_that_closes_gives_answers_and_no_packets_of_its_own() -> None:
    """A packet that it has not given away stays for the next start; owed acks are sent."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    b.submit(a.address, b"x")
    rest(a, b)
    outgoing = a.submit(b.address, b"y", delivery=EXPRESS)
    a.engine.drain(a.now_ns)
    a.poll()
    assert len(outgoing.sequence.entries) == 1
    assert all(entry.sends == 0 for entry in outgoing.sequence.entries.values())


def test_a_node_whose_store_failed_says_goodbye_and_no_more() -> None:
    """Not one packet, though the window is open."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x", delivery=EXPRESS)
    rest(a, b)
    a.submit(b.address, b"y", delivery=EXPRESS)
    a.engine.handle_store_failed(None, StoreFailed("the disk"), a.now_ns)
    assert sent(a) == 1
    a.now_ns += 60 * SECOND
    assert sent(a) == 0


def test_one_datagram_answers_a_message_that_somebody_waits_for() -> None:
    """All three acks leave with it, when the commit has returned."""
    a, b = Bare("a"), Bare("b")
    outgoing = a.submit(b.address, b"x")
    rest(a, b)
    said: list[str | None] = []
    a.submit(b.address, b"y")
    a.engine.await_stage(outgoing, 1, Stage.ORDERED, said.append)
    a.poll()
    a.finish_job()
    b.hear(a.poll(), a)
    assert sent(b) == 0
    b.finish_job()
    answer = b.poll()
    assert [len(effect.datagrams) for effect in answer if isinstance(effect, Send)] == [1]
    a.hear(answer, b)
    assert said == [None]
    assert events(answer).count("ack_sent") == events(answer).count("store_ack_sent") == 1
