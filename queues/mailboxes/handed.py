"""Session log records of handed-out messages: neighbouring packets share one record."""

from collections.abc import Iterable, Iterator
from typing import Any

from triack.base.delivery import LABELS, Delivery, default_priority
from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket
from triack.queues.mailboxes.run import Run


def handed_fields(queue: str, runs: Iterable[Run], *, in_arrival_order: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the fields of a `handed` record for each series of packets with successive numbers, of runs in order."""
    for fields, first in _series(queue, runs):
        packet = first.packet
        priority = {} if in_arrival_order else said_priority(Delivery(packet.delivery), packet.priority)
        yield {**fields, "redelivered": first.redelivered, **priority}


def fields_of_runs(queue: str, runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """Yield the same for records of other events, which have fewer fields."""
    return (fields for fields, _ in _series(queue, runs))


def said_priority(delivery: Delivery, priority: int) -> dict[str, Any]:
    """The field ``priority`` of a record, unless it is the default of its class."""
    return {} if priority == default_priority(delivery) else {"priority": priority}


def _series(queue: str, runs: Iterable[Run]) -> Iterator[tuple[dict[str, Any], Run]]:
    """Yield the common fields of each series, and its first run."""
    first = before = None
    fields: dict[str, Any] = {}
    last = [0, 0]  # of the series' counts
    for run in runs:
        packet = run.packet
        if (
            before is None
            or run.first
            or packet.number != before.packet.number + 1
            or packet.stream != before.packet.stream
            or packet.sequence != before.packet.sequence
            or packet.origin != before.packet.origin
            or run.redelivered is not before.redelivered
            or run.chosen
            or before.chosen
        ):
            if first is not None:
                yield fields, first
            first, fields, last = run, _begin(queue, run), [0, 0]
        messages = run.next - run.first
        if last[1] == messages:
            last[0] += 1
        else:
            last = [1, messages]
            fields["counts"].append(last)
        before = run
    if first is not None:
        yield fields, first


def as_runs(leases: list[Lease]) -> list[Run]:
    """Return removed messages, in order, as runs that are drawn to their end."""
    runs: list[Run] = []
    for lease in leases:
        if not runs or runs[-1].packet is not lease.packet or runs[-1].next != lease.index:
            runs.append(Run(lease.packet, lease.index, lease.index, redelivered=lease.redelivered))
        runs[-1].next = lease.index + 1
    return runs


def settled_runs(settled: dict[QueuedPacket, int]) -> list[Run]:
    """Acknowledged messages, given as bits of their packets, as runs that are drawn to their end."""
    runs: list[Run] = []
    for packet, bits in settled.items():
        if bits + 1 == 1 << packet.count:  # most are whole
            runs.append(Run(packet, 0, packet.count, redelivered=False, drawn=True))
            continue
        first = 0
        while bits >> first:
            first += ((bits >> first) & -(bits >> first)).bit_length() - 1
            rest = ~(bits >> first)
            end = first + (rest & -rest).bit_length() - 1
            runs.append(Run(packet, first, end, redelivered=False, drawn=True))
            first = end
    return runs


def _begin(queue: str, run: Run) -> dict[str, Any]:
    packet = run.packet
    return {
        "queue": queue,
        "origin": packet.origin.hex(),
        "stream": packet.stream,
        "sequence": packet.sequence,
        "class": LABELS[packet.delivery],
        "number": packet.number,
        "place": run.first,
        "counts": [],
        **({"chosen": True} if run.chosen else {}),
    }
