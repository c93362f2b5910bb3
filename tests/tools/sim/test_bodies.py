"""Large bodies between simulated hosts: whole, given up, refused, and ended with their process."""

import pytest

from triack.base.delivery import Delivery
from triack.queues.node_settings import LargeBodies, Limits, NodeSettings, Quota
from triack.queues.packing import LargeMessage
from triack.tools.sim.bodies import BodySender, read_body
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

BODY = bytes(range(250)) * 20
SECOND = 10**9


class Ends:
    """A sender and a receiver of one body."""

    def __init__(self, quota: Quota | None = None, max_streams: int = 10) -> None:
        self.world = World(1)
        network = Network(self.world)
        limits = Limits(queue_quota={"q": quota} if quota else {})
        settings = NodeSettings(large=LargeBodies(1, 700, 1_400), limits=limits, max_streams=max_streams)
        self.a = SimHost(self.world, network, "a", "udp://a:1", settings=settings)
        self.b = SimHost(self.world, network, "b", "udp://b:1", settings=settings)
        self.a.start()
        self.b.start()
        self.whole: list[int] = []
        self.refused: list[str] = []
        self.upload = BodySender(self.a, "b", "q", BODY, self.whole.append, self.refused.append)

    def send(self, for_ns: int = SECOND) -> None:
        self.a.act(self.upload.go_on)
        self.world.run(for_ns)

    def finish(self) -> None:
        """Send the message that stands for the body."""

        def submit() -> None:
            stream = self.a.live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL)
            message = LargeMessage(len(BODY).to_bytes(8), ordinal=self.upload.ordinal)
            self.a.live.submit(stream, message, 72)
            self.upload.finished()

        self.a.act(submit)
        self.world.run(SECOND)

    @property
    def bodies(self) -> int:
        return len(self.b.live.queues.bodies.by_id)


def test_a_body_arrives_before_its_message_and_is_read_part_by_part() -> None:
    ends = Ends()
    ends.send()
    assert (ends.whole, ends.refused, ends.upload.is_under_way) == ([ends.upload.ordinal], [], True)
    ends.finish()
    assert not ends.upload.is_under_way
    got: list[bytes | None] = []

    def read() -> None:
        mailbox = ends.b.live.make_queue("q")
        lease = ends.b.live.take(mailbox, ends.world.now_ns)
        assert lease is not None

        def done(body: bytes | None) -> None:
            got.append(body)
            mailbox.acknowledge(lease)

        read_body(ends.b, lease, 1, done)
        read_body(ends.b, lease, SECOND, got.append)  # its message is acknowledged meanwhile

    ends.b.act(read)
    ends.world.run(9 * SECOND)
    assert got == [BODY, None]
    assert ends.bodies == 0


@pytest.mark.parametrize("how", ["given up", "killed"])
def test_a_body_that_goes_no_further_is_freed(how: str) -> None:
    ends = Ends()
    ends.send(1)
    while not ends.bodies:
        ends.world.run(100_000)
    assert not ends.whole
    if how == "killed":
        ends.a.end()
        assert not ends.upload.is_under_way
        ends.a.start()
    else:
        ends.a.act(ends.upload.give_up)
    ends.world.run(20 * SECOND)
    assert (ends.bodies, ends.whole, ends.upload.is_under_way) == (0, [], False)


def test_a_body_without_a_place_is_refused() -> None:
    ends = Ends(Quota(size_bytes=4_000))
    ends.send()
    assert (ends.refused, ends.whole, ends.bodies) == (["too-large"], [], 0)


def test_a_body_for_a_queue_of_its_own_node() -> None:
    ends = Ends(Quota(size_bytes=6_000))
    ends.upload = BodySender(ends.b, "", "q", BODY, ends.whole.append, ends.refused.append)
    ends.b.act(ends.upload.go_on)
    ends.world.run(SECOND)
    second = BodySender(ends.b, "", "q", BODY, ends.whole.append, ends.refused.append)
    ends.b.act(second.go_on)
    ends.world.run(SECOND)
    assert (len(ends.whole), second.ordinal, ends.bodies) == (1, 0, 1)
    ends.b.act(ends.upload.give_up)
    ends.world.run(SECOND)
    assert (ends.whole[1:], ends.bodies) == ([second.ordinal], 1)


def test_the_message_of_a_body_that_is_here_waits_for_no_place_of_a_stream() -> None:
    """The stream of the parts has the only one, and keeps it: the next body waits for the room of this one."""
    ends = Ends(Quota(size_bytes=len(BODY) + 1_000), max_streams=1)
    ends.send()
    after = BodySender(ends.a, "b", "q", BODY, ends.whole.append, ends.refused.append)
    ends.a.act(after.go_on)
    ends.finish()
    assert ends.world.run(60 * SECOND, lambda: ends.b.live.queues.mailboxes["q"].length == 1)
