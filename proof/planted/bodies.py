"""Mistakes of large bodies: ``queues/mailboxes/large_bodies.py``, and its senders."""

from collections.abc import Callable
from typing import Any

from proof.planted.bug import Always, Bugs, Patch
from triack.base.commit import StoreContent
from triack.base.names import StreamId
from triack.queues.clock_jumps import ClockJumps
from triack.queues.mailboxes import large_bodies
from triack.queues.mailboxes.large_bodies import Bodies, Body, BodyEvent, BodyState
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import Fill
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outbox import BODY_STATE, Outbox

BUGS = Bugs()


def _change_parts(patch: Patch, change: Callable[[Body], object]) -> None:
    """Change a body of several parts whenever it gets one."""
    add = Bodies.add

    def careless(self: Bodies, packet: QueuedPacket) -> bool:
        body = _coming(self, packet)
        added = add(self, packet)
        if added and body is not None and len(body.parts) > 1:
            change(body)
        return added

    patch.setattr(large_bodies, "MERGED_BYTES", 0)
    patch.setattr(Bodies, "add", careless)


@BUGS.by_seeds("a body is handed out without its last part")
def _without_the_last_part(patch: Patch) -> None:
    _change_parts(patch, lambda body: body.state is BodyState.WHOLE and body.parts.pop())


@BUGS.by_seeds("a part of a body is read twice")
def _a_part_twice(patch: Patch) -> None:
    _change_parts(patch, lambda body: body.parts.insert(1, body.parts[0]))


@BUGS.by_seeds("a body is whole with its first part", Bodies, "add")
def _torn(add: Any, self: Bodies, packet: QueuedPacket) -> bool:
    """What comes after it is deleted, as parts of no body are."""
    body = _coming(self, packet)
    added = add(self, packet)
    if added and body is not None and body.state is BodyState.COMING:
        self._move(body, BodyEvent.COMPLETED)
    return added


@BUGS.by_seeds("the parts of a torn body begin the next one")
def _mixed(patch: Patch) -> None:
    announce = Bodies.announce

    def mixing(self: Bodies, packet: QueuedPacket, ordinal: int, total_bytes: int, fill: Fill) -> bool:
        torn = _coming(self, packet)
        announced = announce(self, packet, ordinal, total_bytes, fill)
        body = _coming(self, packet)
        if torn is not None and body is not None:
            body.parts, body.have_bytes = [*torn.parts], torn.have_bytes
        return announced

    patch.setattr(Bodies, "announce", mixing)
    Always(None, Bodies, "give_up")(patch)


@BUGS.by_seeds("a body is freed before its message was acknowledged", Bodies, "claim")
def _freed_early(claim: Any, self: Bodies, origin: bytes, ordinal: int) -> int:
    size_bytes = claim(self, origin, ordinal)
    if size_bytes:
        self.note_left(origin, ordinal)
    return size_bytes


@BUGS.by_seeds("a body that was given up keeps its room", Bodies, "_unreserve")
def _keeps_its_room(unreserve: Any, self: Bodies, origin: bytes, fill: Fill, total_bytes: int) -> None:
    if not any(body.fill is fill and body.state is BodyState.FREED for body in self.by_id.values()):
        unreserve(self, origin, fill, total_bytes)


@BUGS.by_seeds("a body keeps its room when its message is charged with it", Bodies, "_unreserve")
def _charged_twice(unreserve: Any, self: Bodies, origin: bytes, fill: Fill, total_bytes: int) -> None:
    if any(body.fill is fill and body.state is BodyState.FREED for body in self.by_id.values()):
        unreserve(self, origin, fill, total_bytes)


BUGS.by_seeds("the word that no more of a body comes is not heard")(Always(None, Bodies, "give_up"))


@BUGS.by_seeds("no body is given up by a start, nor for a message that has died")
def _never_given_up(patch: Patch) -> None:
    restore = Outbox.restore

    def forgetful(self: Outbox, content: StoreContent, turn: Turn, jumps: ClockJumps) -> None:
        content.state = {key: value for key, value in content.state.items() if not key.startswith(BODY_STATE)}
        restore(self, content, turn, jumps)

    Always(None, Outbox, "give_up_body")(patch)
    patch.setattr(Outbox, "restore", forgetful)


def _coming(bodies: Bodies, packet: QueuedPacket) -> Body | None:
    """The body that comes by the stream of a packet."""
    body = bodies._current.get(StreamId(packet.origin, packet.stream))
    return body if body is not None and body.state is BodyState.COMING else None
