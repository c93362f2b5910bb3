"""A trusted peer whose datagrams are full of pings."""

import time
from collections.abc import Generator
from itertools import count

from proof.by_hand import LONGEST_BYTES, Session
from triack.queues.peers.introduction import Introduction
from triack.session.protocol.frames import PingFrame
from triack.transport.insecure import InsecureChannel

PINGS = 30_000
"""Of a byte, in each datagram."""
PER_SECOND = 1_285
"""Datagrams a second: five seconds of them once kept a node busy for a minute."""


def ping_for_ever(address: str) -> Generator[int, None, None]:
    """Open sessions with the node at that address, one when another one was closed; yields how many there were."""
    for number in count(1):
        introduction = Introduction(number.to_bytes(16, "big"), "pinger", "", address)
        with Session(address, InsecureChannel(), number, introduction, LONGEST_BYTES) as session:
            yield number
            began, sent = time.monotonic(), 0
            while session.is_open:
                sent += 1
                session.say(PingFrame(), PINGS)
                time.sleep(max(0.0, began + sent / PER_SECOND - time.monotonic()))
                while session.hear(0):
                    pass
