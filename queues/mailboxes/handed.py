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
    for run in runs:
        if before is None or not _follows(before, run):
            if first is not None:
                yield fields, first
            first, fields = run, _begin(queue, run)
        counts, messages = fields["counts"], run.next - run.first
        if counts and counts[-1][1] == messages:
            counts[-1][0] += 1
        else:
            counts.append([1, messages])
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


def settled_runs(settled: dict[QueuedPacket, int]) -> Iterator[Run]:
    """Yield acknowledged messages, given as bits of their packets, as runs that are drawn to their end."""
    for packet, bits in settled.items():
        if bits and not bits & (bits + 1):  # most are whole
            run = Run(packet, 0, 0, redelivered=False)
            run.next = bits.bit_length()
            yield run
            continue
        first = 0
        while bits >> first:
            first += ((bits >> first) & -(bits >> first)).bit_length() - 1
            run = Run(packet, first, first, redelivered=False)
            rest = ~(bits >> first)
            first = run.next = first + (rest & -rest).bit_length() - 1
            yield run


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


def _follows(before: Run, after: Run) -> bool:
    one, other = before.packet, after.packet
    return (
        after.first == 0
        and other.number == one.number + 1
        and other.stream == one.stream
        and other.sequence == one.sequence
        and other.origin == one.origin
        and after.redelivered is before.redelivered
        and not (after.chosen or before.chosen)
    )
