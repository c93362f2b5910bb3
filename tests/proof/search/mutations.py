"""Faults to plant into the shipped code, and the small scope in which the search must find each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from proof.search.scope import Part, Scope
from triack.base.delivery import FREED_BY, Ack, Delivery
from triack.base.ranges import NumberSet
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Outcome
from triack.ordering.outgoing import OutgoingSequence
from triack.queues.handshake import Handshakes
from triack.queues.history import History
from triack.queues.inbox import Inbox
from triack.queues.introduction import HistoryPoint
from triack.queues.mailbox import Mailbox
from triack.queues.outbox import Outbox
from triack.session import frames
from triack.session.sending import PacketState, SendWindow
from triack.session.session import Session
from triack.session.states import State

QUIET = frozenset({"CLEANUP", "CONNECT_LIMIT", "CONNECT_RESEND", "STORE_ACK_LIMIT"})
PLAIN = Scope("two messages", "", (Part(ready=2), Part()), still=QUIET | {"ACK_LIMIT"}, echoes=False, history=False)
RECEIVER_DIES = replace(PLAIN, parts=(Part(ready=1, sessions=2), Part(sessions=2, crashes=1)), still=QUIET)
SENDER_DIES = replace(
    PLAIN,
    parts=(Part(ready=1, sends=1, sessions=2, crashes=1), Part(sessions=2)),
    still=QUIET | {"ACK_LIMIT", "PROBE", "LOSS", "retry"},
)
RECOVERABLE = replace(
    RECEIVER_DIES, parts=(Part(ready=1, delivery=Delivery.RECOVERABLE, sessions=2), Part(sessions=2, crashes=1))
)
READING = replace(RECEIVER_DIES, parts=(Part(ready=1, sessions=2), Part(sessions=2, crashes=1, reads=True)))
EXPRESS = replace(PLAIN, parts=(Part(sends=2, delivery=Delivery.EXPRESS, sessions=2), Part(sessions=2)), still=QUIET)
WINDOW = replace(PLAIN, parts=(Part(sends=4, delivery=Delivery.EXPRESS), Part()))
LOSSY = replace(PLAIN, parts=(Part(sends=1, delivery=Delivery.EXPRESS, patience=1), Part()))

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Mutation:
    """One planted fault: what it is, where to look for it, how to make it, and what the search says of it."""

    name: str
    scope: Scope
    plant: Callable[[Patch], None]
    says: str


def order_ack_before_the_commit(patch: Patch) -> None:
    accept = IncomingSequence._accept

    def hasty(self: Any, header: Any, token: Any) -> Any:
        accepted = accept(self, header, token)
        self.committed = self.position
        return accepted

    patch.setattr(IncomingSequence, "_accept", hasty)


def store_ack_before_the_commit(patch: Patch) -> None:
    on_packet = Session._on_packet

    def hasty(self: Any, frame: Any, counter: int, now_ns: int) -> None:
        on_packet(self, frame, counter, now_ns)
        self.handle_stored([frame.number])

    patch.setitem(_session_handlers(), frames.PacketFrame, hasty)


def accepted_out_of_order(patch: Patch) -> None:
    judge = IncomingSequence._judge

    def lax(self: Any, header: Any) -> Outcome:
        outcome = judge(self, header)
        return Outcome.ACCEPTED if outcome is Outcome.HELD else outcome

    patch.setattr(IncomingSequence, "_judge", lax)


def position_not_restored(patch: Patch) -> None:
    restore = Inbox._restore_transfer
    patch.setattr(Inbox, "_restore_transfer", lambda self, row, now_ns: restore(self, row._replace(number=0), now_ns))


def position_not_in_the_commit(patch: Patch) -> None:
    seal = Inbox.complete

    def split(self: Any, group: Any) -> None:
        seal(self, group)
        late, group.commit.positions = group.commit.positions, getattr(self, "late", {})
        object.__setattr__(self, "late", late)

    patch.setattr(Inbox, "complete", split)


def filter_not_restored(patch: Patch) -> None:
    patch.setattr(DuplicateFilter, "decode", classmethod(lambda cls, data: cls()))


def filter_forgets_with_the_session(patch: Patch) -> None:
    patch.setattr(DuplicateFilter, "handle_packet", lambda self, header: True)


def window_off_by_one(patch: Patch) -> None:
    patch.setattr(SendWindow, "limit", property(lambda self: min(self._window, self.peer_window) + 1))


def session_ack_off_by_one(patch: Patch) -> None:
    encode = frames.encode_ack

    def generous(received: NumberSet, *rest: int) -> bytes:
        return encode(NumberSet(received.cumulative + 1, received.ranges), *rest)

    patch.setattr(frames, "encode_ack", generous)


def resent_under_a_new_number(patch: Patch) -> None:
    handle_sent = SendWindow.handle_sent

    def renumber(self: Any, sent: Any, counter: int, now_ns: int) -> None:
        again = sent.state is not PacketState.QUEUED
        handle_sent(self, sent, counter, now_ns)
        if again:
            del self._packets[sent.number], self._in_flight[sent.number]
            sent.number = self.highest_sent = self.next_number
            self.next_number += 1
            self._packets[sent.number] = self._in_flight[sent.number] = sent

    patch.setattr(SendWindow, "handle_sent", renumber)


def forgotten_at_the_session_ack(patch: Patch) -> None:
    patch.setitem(FREED_BY, Delivery.TRANSACTIONAL, Ack.SESSION)


def store_acked_while_held(patch: Patch) -> None:
    on_ordered = Inbox._handle_ordered

    def eager(self: Any, stream: Any, arrival: Any, header: Any, now_ns: int, group: Any) -> None:
        on_ordered(self, stream, arrival, header, now_ns, group)
        group.arrivals.store_ack(*arrival)

    patch.setattr(Inbox, "_handle_ordered", eager)


def number_used_twice_after_a_restart(patch: Patch) -> None:
    add = Outbox._add
    patch.setattr(Outbox, "_add", lambda self, row: add(self, row._replace(next_number=1)))


def session_opens_with_the_connect(patch: Patch) -> None:
    handle = Handshakes.handle_connect

    def eager(self: Any, hello: Any, channel: Any, sender: str, now_ns: int) -> None:
        handle(self, hello, channel, sender, now_ns)
        for conversation in self.conversations.values():
            if conversation.session.state is State.ACCEPTING:
                conversation.session.state = State.OPEN

    patch.setattr(Handshakes, "handle_connect", eager)


def datagram_taken_by_any_session(patch: Patch) -> None:
    patch.setattr(Handshakes, "_connection_id", lambda self: 7)


def handed_out_before_the_commit(patch: Patch) -> None:
    add_row = Inbox._add_row

    def eager(self: Any, mailbox: Mailbox, packet: Any, body: bytes, group: Any) -> None:
        add_row(self, mailbox, packet, body, group)
        mailbox.put(*group.arrivals.queued.pop()[1:])

    patch.setattr(Inbox, "_add_row", eager)


def not_marked_redelivered(patch: Patch) -> None:
    open_run = Mailbox.open_run

    def plain(self: Any) -> Any:
        run = open_run(self)
        if run is not None:
            run.redelivered = False
        return run

    patch.setattr(Mailbox, "open_run", plain)


def closed_session_not_sent_again(patch: Patch) -> None:
    patch.setattr(OutgoingSequence, "handle_session_closed", lambda self: None)


def silence_never_closes(patch: Patch) -> None:
    import triack.session.session as module
    from triack.session.timers import Timer

    patch.setitem(module._EXPIRIES, Timer.ACK_LIMIT, lambda session, now_ns: None)


def order_ack_said_only_once(patch: Patch) -> None:
    send = Inbox._send_order_ack

    def once(self: Any, stream: Any, conversation: Any, now_ns: int) -> None:
        if stream.acked != stream.sequence.committed:
            send(self, stream, conversation, now_ns)

    patch.setattr(Inbox, "_send_order_ack", once)


def history_off_by_one(patch: Patch) -> None:
    has = History.has
    patch.setattr(
        History, "has", lambda self, point: has(self, HistoryPoint(point.start, point.serial + bool(point.start)))
    )


def _session_handlers() -> dict[type, Any]:
    import triack.session.session as module

    return module._HANDLERS


MUTATIONS = [
    Mutation("order ack before the commit", PLAIN, order_ack_before_the_commit, "order ack"),
    Mutation("store ack before the commit", PLAIN, store_ack_before_the_commit, "store ack"),
    Mutation("accepted out of order", PLAIN, accepted_out_of_order, "number 1 is not on disk"),
    Mutation("position not restored", RECEIVER_DIES, position_not_restored, "accepted twice"),
    Mutation("position not in the commit", RECEIVER_DIES, position_not_in_the_commit, "accepted twice"),
    Mutation("filter not restored", RECOVERABLE, filter_not_restored, "accepted twice"),
    Mutation("filter forgets", EXPRESS, filter_forgets_with_the_session, "accepted twice"),
    Mutation("window off by one", WINDOW, window_off_by_one, "unacknowledged"),
    Mutation("session ack off by one", PLAIN, session_ack_off_by_one, "never arrived"),
    Mutation("resent under a new number", LOSSY, resent_under_a_new_number, "sent again as packet"),
    Mutation("forgotten at the session ack", PLAIN, forgotten_at_the_session_ack, "let go"),
    Mutation("store ack of what is only held", PLAIN, store_acked_while_held, "store ack"),
    Mutation("number used twice", SENDER_DIES, number_used_twice_after_a_restart, "two packets"),
    Mutation("open with the connect", PLAIN, session_opens_with_the_connect, "without hearing"),
    Mutation(
        "datagram of another session",
        replace(RECEIVER_DIES, keeps=True),
        datagram_taken_by_any_session,
        "went from open to accepting",
    ),
    Mutation("handed out before the commit", READING, handed_out_before_the_commit, "before it was on disk"),
    Mutation("not marked redelivered", READING, not_marked_redelivered, "not marked redelivered"),
    Mutation("not sent again", RECEIVER_DIES, closed_session_not_sent_again, "still waits"),
    Mutation("silence never closes", RECEIVER_DIES, silence_never_closes, "still waits"),
    Mutation("order ack said only once", RECEIVER_DIES, order_ack_said_only_once, "still waits"),
    Mutation("history off by one", replace(RECEIVER_DIES, history=True), history_off_by_one, "older copy"),
]
