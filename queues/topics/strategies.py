"""The strategies of WSO2 Message Broker: when a topic dispatches messages to subscriptions that are not durable.

Promise: all is counted in messages, whatever the packets. What is decided depends on the arguments alone.

    strategy          the next message goes             a message that is not acknowledged within the timeout
    discard_none      when one of them has room         stays pending
    slowest_sub_rate  when every one of them has room   stays pending
    discard_allowed   when one of them has room         is acknowledged in place of the subscription

A subscription has room while fewer messages are pending for it than it may have. If there is no subscription, the
message goes immediately, and no subscription gets it.
"""

from collections.abc import Iterable

from triack.queues.node_settings import Strategy


def room_of(strategy: Strategy, pending: Iterable[tuple[int, int]], most: int) -> int:
    """How many of the next ``most`` messages may go now.

    ``pending``: for each subscription that would get them, how many messages are pending, and how many may be.
    """
    rooms = [limit - value for value, limit in pending]
    if not rooms:
        return most
    return min(most, max(0, min(rooms) if strategy == "slowest_sub_rate" else max(rooms)))
