"""Events of a node, in words for its operator: the lines of its log."""

from collections.abc import Callable

from triack.base.news import (
    AckWaitOver,
    CallRefused,
    DeadLettersWaiting,
    GapFound,
    JournalFull,
    LinkDown,
    LinkDowngraded,
    LinkUp,
    LinkUpgraded,
    MessagesDiscarded,
    NodeEvent,
    NoRoute,
    PeerHalted,
    PeerSilent,
    PeerUnknown,
    QueueOverQuota,
    StoreLow,
    StreamHeld,
    StreamsNearLimit,
    SubscriptionLost,
    TransitOverQuota,
    WayChanged,
)
from triack.base.printable import counted
from triack.base.reasons import HoldReason
from triack.node.files import operator_log
from triack.queues.mailboxes.system_queues import system_queue
from triack.queues.manager.engine import Engine
from triack.stats.troubles import when_journal_full


class OperatorNews:
    """Writes the log of one node.

    Args:
        name: the node's.
        engine: has the limits that a full queue has reached.
        drops: counts the datagrams that the endpoints dropped, by reason.
    """

    def __init__(self, name: str, engine: Engine, drops: Callable[[], dict[str, int]]) -> None:
        self._name = name
        self._engine = engine
        self._drops = drops

    def tell(self, event: NodeEvent) -> None:
        """Write a line about an event, if one belongs in the log."""
        match event:
            case LinkUp() | LinkDown() | LinkDowngraded() | LinkUpgraded() | WayChanged():
                self._tell_link(event)
            case PeerSilent(address, cause):
                operator_log.warning(f"{cause}; trying on", node=self._name, to=address, drops=self._drops())
            case PeerUnknown(peer, cause):
                operator_log.warning(f"{cause}; what is for it waits", node=self._name, peer=peer)
            case PeerHalted(peer, rolled_back, cause):
                why = f"rollback detected: {cause}"
                operator_log.error(why, node=self._name, peer=peer, rolled_back=rolled_back)
            case GapFound(peer, _, _, _, halts, cause):
                log = operator_log.error if halts else operator_log.warning
                then = "nothing is sent there" if halts else "going on"
                log(f"gap found: {cause}; {then}", node=self._name, peer=peer)
            case CallRefused(host, trouble, cause, remedy):
                operator_log.warning(f"{cause}; {remedy}", node=self._name, host=host, trouble=trouble)
            case QueueOverQuota() | DeadLettersWaiting() | JournalFull():
                self._tell_full(event)
            case StreamsNearLimit(peer, streams, limit, incoming, is_full):
                whose = "from" if incoming else "to"
                why = f"{streams} streams {whose} {peer} are live, of at most {limit}"
                why += "; messages for further queues wait" if is_full else ""
                operator_log.warning(why, node=self._name, peer=peer, streams=streams, limit=limit)
            case MessagesDiscarded() | AckWaitOver() | SubscriptionLost():
                self._tell_subscription(event)
            case NoRoute() | TransitOverQuota():
                self._tell_transit(event)
            case StoreLow():
                self._tell_room(event)
            case StreamHeld():
                self._tell_held(event)

    def _tell_link(self, event: LinkUp | LinkDown | LinkDowngraded | LinkUpgraded | WayChanged) -> None:
        match event:
            case LinkUp(address, peer):
                operator_log.info(f"link to {peer} at {address} is up", node=self._name, peer=peer, to=address)
            case LinkDown(address, peer, _, reason):
                why = f"link to {peer} at {address} is down: {reason}"
                operator_log.info(why, node=self._name, peer=peer, to=address, reason=reason)
            case LinkDowngraded(peer, oldest_s, packets):
                behind = f"{peer} has not passed on {counted(packets, 'packet')}, the oldest for {oldest_s:.1f} s"
                operator_log.warning(f"{behind}: its link is asynchronous for now", node=self._name, peer=peer)
            case LinkUpgraded(peer):
                operator_log.info(f"link to {peer} is synchronous again", node=self._name, peer=peer)
            case WayChanged(ways, via, before):
                is_back = ways.index(via) < ways.index(before)
                why = f"{via} is back" if is_back else f"{before} is silent"
                operator_log.warning(f"{why}: messages go by {via} now", node=self._name, peer=via, ways=",".join(ways))

    def _tell_transit(self, event: NoRoute | TransitOverQuota) -> None:
        peer = event.came_by
        if isinstance(event, NoRoute):
            why = f"no route leads to {event.final}, and {peer} sends to it by way of this node"
            operator_log.warning(why, node=self._name, peer=peer, final=event.final)
            return
        why = f"what waits here for other nodes is over its quota: {peer} waits"
        operator_log.warning(why, node=self._name, peer=peer, messages=event.messages, bytes=event.bytes)

    def _tell_subscription(self, event: MessagesDiscarded | AckWaitOver | SubscriptionLost) -> None:
        if isinstance(event, SubscriptionLost):
            why = f"the subscription to {event.destination} had ended there and begins anew: messages are missed"
            operator_log.warning(why, node=self._name, subscription=event.subscription)
            return
        topic, subscription, messages = event.topic, event.subscription, event.messages
        whose = f"topic {topic}: {counted(messages, 'message')}"
        if isinstance(event, MessagesDiscarded):
            why = f"{whose} dropped for the slow subscription {subscription}"
        else:
            why = f"{whose} taken back from readers of subscription {subscription}, which had them for too long"
        operator_log.warning(why, node=self._name, topic=topic, subscription=subscription, messages=messages)

    def _tell_full(self, event: QueueOverQuota | DeadLettersWaiting | JournalFull) -> None:
        queue, messages = event.queue, event.messages
        if isinstance(event, DeadLettersWaiting):
            why = f"{messages} messages wait in {queue}: read why they died, then requeue or purge them"
            operator_log.warning(why, node=self._name, queue=queue, messages=messages)
            return
        why = f"queue {queue} is over its quota"
        if isinstance(event, JournalFull):
            why = f"{queue} has reached its quota: {when_journal_full(queue, event.when_full)}"
        elif (system := system_queue(queue)) is not None:
            why += system.overflow(self._engine.settings.limits)
        operator_log.warning(why, node=self._name, queue=queue, messages=messages, bytes=event.bytes)

    def _tell_room(self, event: StoreLow) -> None:
        room_bytes = event.room_bytes
        if not event.is_low:
            operator_log.warning("the disk has room again", node=self._name, room_bytes=room_bytes)
            return
        why = (
            f"the disk has little room, {max(0, room_bytes)} bytes beside what the log of the store may take: "
            "nothing new is accepted until there is more"
        )
        operator_log.error(why, node=self._name, room_bytes=room_bytes)

    def _tell_held(self, event: StreamHeld) -> None:
        """A wait is a warning, unless it ends with the disk's next job."""
        is_minor = event.reason == HoldReason.STORE_BUSY or not event.is_held
        log = operator_log.info if is_minor else operator_log.warning
        of_queue = event.reason == HoldReason.QUEUE_FULL
        what = f"messages of {event.peer}"
        if not event.here:
            what = f"messages to {event.peer}/{event.queue}" if of_queue else f"messages to {event.peer}"
        wait = f"wait for room {'here' if event.here else 'there'}" if event.is_held else "wait no more"
        why = f"{what} {wait}: {event.reason}"
        log(why, node=self._name, peer=event.peer, queue=event.queue, reason=event.reason)
