"""A path of a search as a story: who does what, in words."""

from dataclasses import replace

import pytest

from proof.planted.catalogue import bug_named
from proof.planted.worlds import PLAIN
from proof.search.datagrams import Datagram, Datagrams
from proof.search.host import Host
from proof.search.scope import Part
from proof.search.trace import retrace

SCOPE = replace(
    PLAIN,
    parts=(
        Part(sends=2, crashes=2, stops=1, breaks=1, sessions=9, patience=1),
        Part(reads=True, crashes=1, sessions=9),
    ),
    still=frozenset({"CLEANUP"}),
)


class Story:
    """Steps as a search notes them: the side in bit 0, whether it is a datagram in bit 1, and which in the rest."""

    def __init__(self) -> None:
        self.datagrams = Datagrams()
        self.hosts = [Host(SCOPE, 0), Host(SCOPE, 1)]
        self.sent: list[Datagram] = [sent for host in self.hosts for sent in host.begin()]
        self.ways: list[int] = []

    def act(self, side: int, name: str, what: object = None) -> None:
        """Something happens to a node."""
        host = self.hosts[side]
        (action,) = (it for it in host.choices() if it[0] == name and (what is None or str(what) in str(it[1])))
        self.ways.append(side | host.choices().index(action) << 2)
        self.sent += host.act(action)
        host.settle()

    def hear(self, side: int) -> None:
        """A node gets the oldest datagram for it that nobody got."""
        datagram = next(it for it in self.sent if it.to == side)
        self.sent.remove(datagram)
        self.ways.append(side | 2 | self.datagrams.number(datagram) << 2)
        self.sent += self.hosts[side].act(("deliver", None), datagram)
        self.hosts[side].settle()

    def told(self) -> list[str]:
        """The lines after the two beginnings."""
        lines = retrace(SCOPE, self.datagrams, self.ways)
        assert lines[:2] == ["a starts and sends nothing", "b starts and sends nothing"]
        return lines[2:]


def test_a_message_on_its_way() -> None:
    """Submitted, on the disk, connected, taken, on the disk, read."""
    story = Story()
    story.act(0, "submit")
    story.act(0, "disk")
    for side in (1, 0, 1):
        story.hear(side)
    story.act(1, "disk")
    story.act(1, "read")
    assert [line.partition(", and sends ")[0] for line in story.told()] == [
        "a: the application sends message a1",
        "a: the commit in hand is on disk",
        "b gets CONNECT of session a01",
        "a gets ACCEPT of session a01",
        "b gets DATA of session a01 [session ack to 0, packet 1: number 1 after 0 of sequence 1, a1]",
        "b: the commit in hand is on disk",
        "b: the application takes a message",
    ]
    assert story.told()[1].endswith(", and sends CONNECT of session a01")


def test_everything_that_goes_wrong_has_words() -> None:
    """Kills with and without a commit in hand, a lost path, a timer, an orderly end."""
    story = Story()
    story.act(0, "crash")
    story.act(0, "submit")
    story.act(0, "crash", what=True)
    story.act(0, "timer", what="CONNECT_RESEND")
    story.act(0, "break")
    story.act(0, "drain")
    story.act(0, "stop")
    lines = [line.partition(", and sends ")[0] for line in story.told()]
    assert lines[0] == "a is killed and starts again"
    assert lines[2] == "a is killed and starts again; the commit in hand is on disk"
    assert lines[3].startswith("a: timer CONNECT_RESEND of session ")
    assert lines[3].endswith(" runs out")
    assert lines[4:] == ["a: the path is lost", "a begins to close", "a ends, and starts again"]


@pytest.mark.plain
def test_a_story_ends_with_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the line of the step that leads there; the story ends with it."""
    story = Story()
    story.act(0, "submit")
    story.act(0, "disk")
    for side in (1, 0, 1):
        story.hear(side)
    bug_named("the order ack speaks of what is not yet committed").plant(monkeypatch)
    (key,) = (key for name, key in story.hosts[1].choices() if name == "timer" and "idle" in str(key))
    story.ways.append(1 | story.hosts[1].choices().index(("timer", key)) << 2)
    story.ways.append(1)
    assert story.told()[5:] == [
        "b: timer idle of order ack 1 runs out: order ack to 1 left, and number 1 is not on disk"
    ]
