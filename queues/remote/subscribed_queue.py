"""The queue of a subscription of this node to topics of another one."""

from collections.abc import Callable

from triack.base.errors import ProtocolError
from triack.base.names import TOPIC_PREFIX
from triack.queues.mailboxes.mailbox import Mailbox, Notices
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.system_queues import SUBSCRIPTION_PREFIX

__all__ = ["SubscribedQueue"]


class SubscribedQueue(Mailbox):
    """A queue that the node with the topics fills. See ``Mailbox``.

    Args:
        queue_id: its number in the store.
        name: its name.
        notices: notices to the owner of all queues.
        handle_left: called when nobody reads it any more.
    """

    __slots__ = ("_ended", "_handle_left")

    def __init__(
        self, queue_id: int, name: str, notices: Notices, handle_left: Callable[["SubscribedQueue"], None]
    ) -> None:
        super().__init__(queue_id, name, notices)
        self._ended = False
        self._handle_left = handle_left

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self.name.removeprefix(SUBSCRIPTION_PREFIX)

    @property
    def has_ended(self) -> bool:
        """See ``Mailbox``."""
        return self._ended

    @property
    def tells_senders(self) -> bool:
        """A publisher learns that a message has arrived, and not what each subscription does with it."""
        return False

    def end(self) -> None:
        """The subscription has ended: nothing can be read from it."""
        self._ended = True
        self.interrupt()

    def begin_again(self) -> None:
        """Another subscription of the same name has it."""
        self._ended = False

    def leave(self, listener: Callable[[], None]) -> None:
        """See ``Mailbox``."""
        super().leave(listener)
        if not (self.listeners or self._ended):
            self._handle_left(self)

    def dead_properties(self, packet: QueuedPacket) -> dict[str, str]:
        """See ``Mailbox``."""
        try:
            topic = packet.open().topic
        except ProtocolError:
            topic = None
        where = self.name if topic is None else f"{TOPIC_PREFIX}{topic}"
        return {"dead_destination": where, "dead_subscription": self.subscription}
