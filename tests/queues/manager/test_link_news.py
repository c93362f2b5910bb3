"""The engine tells of links what programs can use, once."""

from tests.queues.bare import Bare, settle
from tests.queues.keyed import peer
from triack.base.delivery import Delivery
from triack.base.news import LinkDown, LinkUp, NodeEvent, PeerSilent, PeerUnknown
from triack.base.peers import Peer
from triack.base.units import SECOND
from triack.queues.manager.effects import Tell


def told(node: Bare) -> list[NodeEvent]:
    """What a node has told."""
    return [effect.event for effect in node.effects if isinstance(effect, Tell)]


def test_a_link_goes_up_and_down() -> None:
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    settle(a, b)
    a.engine.handle_path_lost(b.address, a.now_ns)
    a.poll()
    node_id = b.engine.node_id.hex()
    assert told(a) == [LinkUp(b.address, "b", node_id), LinkDown(b.address, "b", node_id, "path-lost")]


def test_trouble_with_an_address_is_reported_once_and_only_of_links() -> None:
    """A name that is not known any more does no harm while the link is up."""
    a, b = Bare("a"), Bare("b")
    a.engine.news.handle_trouble(b.address, "nobody wants to send there")
    a.submit(b.address, b"x", delivery=Delivery.EXPRESS)
    a.poll()
    for cause in ("cannot resolve b", "no answer"):
        a.engine.news.handle_trouble(b.address, cause)
    a.poll()
    assert told(a) == [PeerSilent(b.address, "cannot resolve b")]
    settle(a, b)
    a.effects.clear()
    a.engine.news.handle_trouble(b.address, "cannot resolve b")
    a.poll()
    assert told(a) == []


def test_a_peer_is_silent_when_it_is_so_everywhere() -> None:
    """Trouble with the first of its addresses is no news; the event that names the peer comes with the last one."""
    a = Bare("a")
    a.directory.replace([Peer("b", addresses=("memory://x", "memory://y"))])
    a.submit("b", b"x", delivery=Delivery.EXPRESS)
    a.poll()
    a.engine.news.handle_trouble("memory://x", "cannot resolve x")
    for _ in range(25):
        a.poll(100_000_000)
    assert told(a) == [PeerSilent("memory://y", "no answer from b")]


def test_silence_is_reported_after_a_second_or_two() -> None:
    """Not when the connection is given up, which takes longer than people wait."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    began_ns = a.now_ns
    while not told(a):
        a.poll(100_000_000)
        if a.job is not None:
            a.finish_job()
        assert a.now_ns < began_ns + 60 * SECOND
    assert a.now_ns - began_ns < 3 * SECOND


def test_messages_for_a_peer_that_is_not_trusted_are_reported_once_each_time() -> None:
    """And again when its trust was withdrawn again."""
    a, known = Bare("a", keyed=True), peer("b", "memory://b")
    unknown = PeerUnknown("b", "this node trusts no b, or has no key of it")
    for wanted in ([unknown], [], [unknown]):
        a.engine.handle_directory_changed(a.now_ns)
        a.submit("b", b"x", b"y", delivery=Delivery.EXPRESS)
        for _ in range(20):
            a.poll(100_000_000)
        assert [event for event in told(a) if isinstance(event, PeerUnknown)] == wanted
        a.effects.clear()
        a.directory.replace([] if a.directory.named("b") else [known])
