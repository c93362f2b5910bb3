"""The small worlds that are searched, and what each is about."""

from typing import Any

from proof.search.scope import Part, Scope
from triack.base.delivery import Delivery

QUIET = frozenset({"CONNECT_RESEND", "CONNECT_LIMIT", "STORE_ACK_LIMIT", "CLEANUP", "QUIET"})
"""Timers that say the same again, or end a session as others do: one scope has them, the others need not."""
_DIES = Part(crashes=1, sessions=2)


def _plain(name: str, story: str, first: Part, second: Part, **more: Any) -> Scope:
    """A world with no more than its story needs."""
    return Scope(name, story, (first, second), **{"still": QUIET, "echoes": False, "history": False, **more})


SCOPES = (
    _plain("window", "three messages in one session", Part(ready=3), Part()),
    _plain("crash", "a message; both nodes die", Part(ready=1, crashes=1, sessions=2), _DIES),
    _plain(
        "two deaths",
        "a message; each node dies twice",
        Part(ready=1, crashes=2, sessions=3),
        Part(crashes=2, sessions=3),
    ),
    _plain(
        "submit",
        "messages are sent while the sender dies",
        Part(sends=2, crashes=1, sessions=2),
        Part(sessions=2),
    ),
    Scope(
        "transfer",
        "three messages, each node dies twice, every timer runs",
        (Part(sends=3, crashes=2, sessions=4, patience=1), Part(crashes=2, sessions=4, patience=1)),
    ),
    _plain(
        "read",
        "the receiving application reads, and its node dies",
        Part(ready=2, sessions=2),
        Part(crashes=1, sessions=2, reads=True),
    ),
    _plain(
        "recoverable",
        "two recoverable messages; each node dies",
        Part(ready=2, delivery=Delivery.RECOVERABLE, crashes=1, sessions=2),
        _DIES,
    ),
    _plain(
        "express",
        "express messages; each node dies",
        Part(sends=2, delivery=Delivery.EXPRESS, crashes=1, sessions=2),
        _DIES,
        echoes=True,
    ),
    _plain(
        "repair",
        "four express messages, a window of three; losses are found and repaired",
        Part(sends=4, delivery=Delivery.EXPRESS, patience=1),
        Part(),
        still=QUIET | {"ACK_LIMIT"},
        ack_count=2,
        echoes=True,
    ),
    _plain(
        "both connect",
        "both nodes connect at once; old datagrams stay for ever",
        Part(ready=1, delivery=Delivery.EXPRESS, breaks=1, sessions=3),
        Part(ready=1, delivery=Delivery.EXPRESS, sessions=3),
        keeps=True,
    ),
    _plain(
        "close",
        "both nodes are closed, and start again, with a message under way",
        Part(sends=1, stops=1, sessions=2),
        Part(stops=1, sessions=2),
        still=frozenset(),
    ),
    _plain(
        "ending",
        "two messages, whose streams end; each node dies",
        Part(sends=2, crashes=1, sessions=2),
        _DIES,
        still=QUIET | {"ACK_LIMIT", "PROBE", "LOSS"},
        ends=True,
    ),
    _plain(
        "history",
        "the receiver dies; no store is taken for an older copy of itself",
        Part(ready=1, sessions=2),
        _DIES,
        history=True,
    ),
)
