"""The strategies of WSO2 Message Broker: when a topic lets its next messages go to subscriptions that are not durable.

Promise: all is counted in messages, whatever the packets. What is decided depends on the arguments alone.

    strategy          the next message goes             for each subscription that gets it
    discard_none      when one of them has room         one more is pending
    slowest_sub_rate  when every one of them has room   one more is pending
    discard_allowed   when one of them has room         one more is pending; if that are more than it may have, and the
                                                        eldest of them is older than the timeout, the eldest is dropped

A subscription has room while fewer messages are pending for it than it may have. If there is no subscription, the
message goes at once, to nobody. No timer drops anything.
"""

from collections.abc import Iterable

from triack.queues.node_settings import Strategy

__all__ = ["over_limit", "room_of"]


def room_of(strategy: Strategy, pending: Iterable[tuple[int, int]], most: int) -> int:
    """How many of the next messages may go now.

    Args:
        strategy: of the topic.
        pending: of each subscription that would get them: the messages that are pending, and how many may be.
        most: how many there are.
    """
    rooms = [limit - value for value, limit in pending]
    if not rooms:
        return most
    return min(most, max(0, min(rooms) if strategy == "slowest_sub_rate" else max(rooms)))


def over_limit(pending: int, limit: int, put: int) -> int:
    """Of messages that are put one after the other: how many find more pending than may be, themselves included."""
    return put - min(put, max(0, limit - pending))
