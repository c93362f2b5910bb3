"""Datagrams between addresses: over UDP, TCP or memory.

This layer carries bytes and knows nothing of sessions, ordering or queues.

    address.py    the canonical text of addresses and destinations
    endpoint.py   the protocol of endpoints, and how to open one
    udp.py  tcp.py  memory.py   the three endpoints
    batched.py  portable.py     the two kinds of UDP socket
    frames.py  received.py  resolve.py  routes.py  connection.py  strangers.py   their parts
    insecure.py   the channel of nodes without keys; the layout of a datagram is in ``triack.base.datagram``
"""
