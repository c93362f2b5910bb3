"""The small worlds in which the exhaustive search looks for planted bugs: each no larger than its bugs need."""

from dataclasses import replace

from proof.search.scope import Part, Scope
from proof.search.scopes import QUIET
from triack.base.delivery import Delivery

PLAIN = Scope("two messages", "", (Part(ready=2), Part()), still=QUIET | {"ACK_LIMIT"}, echoes=False, history=False)
RECEIVER_DIES = replace(
    PLAIN, name="the receiver dies", parts=(Part(ready=1, sessions=2), Part(sessions=2, crashes=1)), still=QUIET
)
SENDER_DIES = replace(
    PLAIN,
    name="the sender dies",
    parts=(Part(ready=1, sends=1, sessions=2, crashes=1), Part(sessions=2)),
    still=QUIET | {"ACK_LIMIT", "PROBE", "LOSS", "retry"},
)
RECOVERABLE = replace(
    RECEIVER_DIES,
    name="a recoverable message",
    parts=(Part(ready=1, delivery=Delivery.RECOVERABLE, sessions=2), Part(sessions=2, crashes=1)),
)
READING = replace(
    RECEIVER_DIES, name="the reader dies", parts=(Part(ready=1, sessions=2), Part(sessions=2, crashes=1, reads=True))
)
EXPRESS = replace(
    PLAIN,
    name="two express messages",
    parts=(Part(sends=2, delivery=Delivery.EXPRESS, sessions=2), Part(sessions=2)),
    still=QUIET,
)
WINDOW = replace(PLAIN, name="four express messages", parts=(Part(sends=4, delivery=Delivery.EXPRESS), Part()))
LOSSY = replace(PLAIN, name="a probe", parts=(Part(sends=1, delivery=Delivery.EXPRESS, patience=1), Part()))
OLD_DATAGRAMS = replace(RECEIVER_DIES, name="old datagrams", keeps=True)
HISTORY = replace(RECEIVER_DIES, name="histories", history=True)

ALL = (
    PLAIN, RECEIVER_DIES, SENDER_DIES, RECOVERABLE, READING, EXPRESS, WINDOW, LOSSY, OLD_DATAGRAMS, HISTORY,
)  # fmt: skip
