"""Messages that were checked."""

from triack.node.shell.prepared import PreparedList, published
from triack.queues.packing import Outgoing
from triack.queues.streams.outgoing_stream import OutgoingStream

NOWHERE: OutgoingStream = None  # type: ignore[assignment]


def test_a_message_for_a_topic_has_what_its_name_has_below_the_root() -> None:
    for destination, below in (
        ("topic:Games", ""),
        ("topic:Games.Cricket", "Cricket"),
        ("hub/topic:Games.Cricket.Scores", "Cricket.Scores"),
        ("udp://127.0.0.1:7801/topic:Games.Cricket", "Cricket"),
    ):
        assert published(destination, b"x") == Outgoing(b"x", topic=below)
        assert published(destination, Outgoing(b"x", {"label": "l"})) == Outgoing(b"x", {"label": "l"}, topic=below)


def test_each_message_of_a_list_has_what_they_share() -> None:
    shared = published("topic:Games.Cricket", b"")
    prepared = PreparedList("topic:Games.Cricket", NOWHERE, [b"a", b"b"], shared, ["k", "l"])
    assert prepared.messages([b"a"]) == [Outgoing(b"a", topic="Cricket")]
    assert [message for _, message, _ in prepared.singly()] == [
        Outgoing(b"a", key="k", topic="Cricket"),
        Outgoing(b"b", key="l", topic="Cricket"),
    ]
