"""What names of queues mean."""

import pytest

from triack.base.peers import Directory, Peer
from triack.queues.mailboxes.resolver import LocalQueue, RemoteQueue, Resolver, Target, local_queue
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE, REPLY_QUEUE, SYSTEM_QUEUES

HERE, THERE, ELSEWHERE = "udp://127.0.0.1:1", "udp://127.0.0.1:2", "udp://127.0.0.1:3"
PEERS = Directory([Peer("shop", addresses=(THERE,)), Peer("me", addresses=(ELSEWHERE, HERE))])


@pytest.mark.parametrize(
    ("where", "target"),
    [
        ("", LocalQueue("q")),
        (HERE, LocalQueue("q")),
        ("me", LocalQueue("q")),
        (ELSEWHERE, LocalQueue("q")),  # another address of this node, by its own entry among the peers
        ("shop", RemoteQueue("shop", "q")),
        (THERE, RemoteQueue("shop", "q")),
        ("udp://127.0.0.1:4", RemoteQueue("udp://127.0.0.1:4", "q")),
        ("nobody", RemoteQueue("nobody", "q")),
    ],
)
def test_a_name_and_the_addresses_of_a_peer_mean_the_same_queue(where: str, target: Target) -> None:
    assert Resolver(PEERS, HERE).resolve(where, "q") == target


def test_a_node_that_listens_nowhere_is_at_no_address() -> None:
    """All addresses are those of others."""
    resolver = Resolver(Directory(), "")
    assert [resolver.resolve(where, "q") for where in ("", HERE)] == [LocalQueue("q"), RemoteQueue(HERE, "q")]


def test_peers_that_change_mean_something_else_at_once() -> None:
    directory = Directory()
    resolver = Resolver(directory, "")
    assert resolver.resolve(THERE, "q") == RemoteQueue(THERE, "q")
    directory.replace(PEERS)
    assert resolver.resolve(THERE, "q") == RemoteQueue("shop", "q")


@pytest.mark.parametrize("name", [DEAD_LETTER_QUEUE, REPLY_QUEUE])
def test_system_queues_are_those_of_this_node_alone(name: str) -> None:
    """A queue of that name on another node is that node's."""
    resolver = Resolver(PEERS, HERE)
    assert resolver.resolve("", name) is SYSTEM_QUEUES[name]
    assert resolver.resolve("shop", name) == RemoteQueue("shop", name)


def test_what_peers_may_send_to_is_in_the_names() -> None:
    """Every queue of users, and replies; no dead letters, and nothing that is kept for later versions."""
    takes = {name: local_queue(name).takes_from_peers for name in ("q", "$q", "q$", REPLY_QUEUE, DEAD_LETTER_QUEUE)}
    assert takes == {"q": True, "$q": False, "q$": True, REPLY_QUEUE: True, DEAD_LETTER_QUEUE: False}


def test_a_remote_queue_is_written_as_a_destination() -> None:
    assert RemoteQueue("shop", "q").destination == "shop/q"
