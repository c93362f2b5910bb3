"""Reads records of version 1 of the session log as records of today's.

It had a record for each packet that was sent, received or handed out, said of each all that it has, and lacked some
names. What a record of it cannot have said stays absent.
"""

from __future__ import annotations

from typing import Any

VERSION = 1
"""What its records have in ``v``."""


def count_records(record: dict[str, Any]) -> int:
    """Return how many records version 1 wrote for one of today's: one for each packet.

    Args:
        record: as today's version has it.
    """
    if record["event"] == "handed":
        return sum(packets for packets, _ in record["counts"])
    packets: int = record.get("packets", 1)
    return packets


def modernize(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as today's version has it.

    Args:
        record: any record; of another version it is returned as it is.
    """
    if record.get("v") != VERSION or type(record["v"]) is bool:
        return record
    record = {**record, "v": 2}
    event = record.get("event")
    if event in ("packet_sent", "packet_received"):
        record["packets"] = 1
        if "count" in record:
            record["counts"] = [[1, record.pop("count")]]
    elif event == "handed" and type(record.get("first")) is int and type(record.get("last")) is int:
        first, last = record.pop("first"), record.pop("last")
        record |= {"place": first, "counts": [[1, last - first + 1]]}
    elif event == "queued" and "peer_address" in record:
        record["peer_name"] = record.pop("peer_address")
    elif event in ("session_opened", "session_closed", "rollback_detected"):
        record.setdefault("peer_name", "")
    return record
