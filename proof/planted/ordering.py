"""Mistakes of ``ordering/``, and of the table that says what frees a packet."""

from typing import Any

from proof.planted.bug import Always, Bugs, Patch
from proof.planted.stories import LOST, PASSED_OVER
from proof.planted.worlds import EXPRESS, PLAIN, RECEIVER_DIES, RECOVERABLE
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Outcome
from triack.ordering.outgoing import OutgoingSequence, StreamPacket
from triack.ordering.tiers import ResendTimer
from triack.ordering.wire import SequenceHeader

BUGS = Bugs()


# ---- what frees a packet


@BUGS.by_both("transactional messages are freed by the store ack", PLAIN, "accepted a2 of a1, a2")
def _transactional_by_store_ack(patch: Patch) -> None:
    patch.setitem(FREED_BY, (Delivery.TRANSACTIONAL, Role.ORIGIN), Ack.STORE)


@BUGS.by_search("transactional messages are freed by the session ack", PLAIN, "let go")
def _transactional_by_session_ack(patch: Patch) -> None:
    patch.setitem(FREED_BY, (Delivery.TRANSACTIONAL, Role.ORIGIN), Ack.SESSION)


@BUGS.by_seeds("recoverable messages are freed by the session ack")
def _recoverable_by_session_ack(patch: Patch) -> None:
    patch.setitem(FREED_BY, (Delivery.RECOVERABLE, Role.ORIGIN), Ack.SESSION)


# ---- the receiving end of a sequence


@BUGS.by_both("the order ack speaks of what is not yet committed", PLAIN, "order ack", IncomingSequence, "_accept")
def _order_ack(accept: Any, self: IncomingSequence[Any], header: SequenceHeader, context: Any) -> Any:
    accepted = accept(self, header, context)
    self.committed = self.position
    return accepted


@BUGS.by_both("a gap is not noticed", PLAIN, "number 1 is not on disk", IncomingSequence, "_judge")
def _gap(judge: Any, self: IncomingSequence[Any], header: SequenceHeader) -> Outcome:
    outcome = judge(self, header)
    return Outcome.ACCEPTED if outcome is Outcome.OUT_OF_ORDER else outcome


@BUGS.by_seeds("the last packet is accepted again", IncomingSequence, "_judge")
def _last_again(judge: Any, self: IncomingSequence[Any], header: SequenceHeader) -> Outcome:
    return Outcome.ACCEPTED if (header.sequence, header.number) == self.position else judge(self, header)


@BUGS.by_seeds("held packets come out without those before them", IncomingSequence, "_poll_held")
def _held(poll_held: Any, self: IncomingSequence[Any]) -> Any:
    held = poll_held(self)
    if held is not None:
        return held
    sequence, number = self.position
    self.position = (sequence, number + 1)
    held = poll_held(self)
    self.position = (sequence, number)
    return held


@BUGS.by_seeds("a packet that was passed over is called stored", IncomingSequence, "has_accepted")
def _passed_over(_right: Any, self: IncomingSequence[Any], header: SequenceHeader) -> bool:
    return (header.sequence, header.number) <= self.position


# ---- duplicate filters


@BUGS.by_both("the duplicate filter is not kept", RECOVERABLE, "accepted twice")
def _filter_not_kept(patch: Patch) -> None:
    patch.setattr(DuplicateFilter, "decode", classmethod(lambda cls, data: cls()))


BUGS.by_search("the duplicate filter forgets", EXPRESS, "accepted twice")(
    Always(True, DuplicateFilter, "handle_packet")
)
BUGS.by_search("a recoverable packet that was passed over is called stored", PASSED_OVER, "store-acked before its")(
    Always(False, DuplicateFilter, "has_skipped")
)


@BUGS.by_seeds("what a crashed sender sends again is never called stored", DuplicateFilter, "has_skipped")
def _all_skipped(_right: Any, self: DuplicateFilter, header: SequenceHeader) -> bool:
    return header.number <= self._seen.cumulative


# ---- the sending end of a sequence


@BUGS.by_seeds("a packet says that nothing goes before it", OutgoingSequence, "previous_of")
def _previous(previous_of: Any, self: OutgoingSequence, entry: StreamPacket) -> int:
    previous = previous_of(self, entry)
    follows = self.freed_by is Ack.ORDER and entry.number - 1 in self.entries
    return max(0, previous - 1) if follows else previous


@BUGS.by_seeds("an order ack frees one packet too many", OutgoingSequence, "handle_order_ack")
def _frees_too_many(
    handle_order_ack: Any, self: OutgoingSequence, sequence: int, number: int, now_ns: int
) -> list[StreamPacket]:
    beyond = number + 1 if number + 1 < self.next_number else number
    return handle_order_ack(self, sequence, beyond, now_ns)


@BUGS.by_both(
    "packets of a closed session are not sent again",
    RECEIVER_DIES,
    "still waits",
    OutgoingSequence,
    "handle_session_closed",
)
def _not_sent_again(_right: Any, self: OutgoingSequence, *, idle: bool = False, not_stored: bool = False) -> None:
    del idle, not_stored
    for entry in self.entries.values():
        entry.packet = 0


@BUGS.by_search("what the next node has stored is handed back", LOST, "were in doubt", OutgoingSequence, "unconfirmed")
def _hands_back(_right: Any, self: OutgoingSequence) -> list[StreamPacket]:
    return [entry for entry in self.entries.values() if entry.packet]


@BUGS.by_seeds("a resend tier is skipped", ResendTimer, "handle_expired")
def _tier(handle_expired: Any, self: ResendTimer, now_ns: int, *, resends: bool) -> None:
    self.attempt += 2 * resends
    handle_expired(self, now_ns, resends=resends)
