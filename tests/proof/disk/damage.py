"""Damage in meaning: records that are well formed and wrong, as a faulty node or a faulty recorder would write them."""

from collections.abc import Callable
from random import Random
from typing import Any

Record = dict[str, Any]
Records = list[Record]

CLASSES = ("express", "recoverable", "transactional")
REASONS = ("ack-timeout", "store-ack-timeout", "path-lost", "superseded", "drained", "idle", "peer-closed")
# What a changed number must not touch: the frame of every record, which is not a statement about messages.
FRAME = ("v", "incarnation", "n")
STEPS = (-64, -2, -1, -1, 1, 1, 2, 64)
PAUSES_NS = (1_000_000, 300_000_000, 900_000_000, 5_000_000_000)


def drop(random: Random, records: Records) -> None:
    """A record is not there."""
    del records[random.randrange(len(records))]


def drop_block(random: Random, records: Records) -> None:
    """Some records in a row are not there."""
    at = random.randrange(len(records))
    del records[at : at + random.randrange(2, 12)]


def drop_event(random: Random, records: Records) -> None:
    """No record of one event, from some point on."""
    event = random.choice(records)["event"]
    at = random.randrange(len(records))
    records[at:] = [record for record in records[at:] if record["event"] != event]


def cut_short(random: Random, records: Records) -> None:
    """The log ends early."""
    del records[random.randrange(len(records) // 2, len(records)) :]


def double(random: Random, records: Records) -> None:
    """A record is there twice."""
    at = random.randrange(len(records))
    _put(random, at, dict(records[at]), records)


def move(random: Random, records: Records) -> None:
    """A record comes too early or too late."""
    at = random.randrange(len(records))
    _put(random, at, records.pop(at), records)


def _put(random: Random, at: int, record: Record, records: Records) -> None:
    """Insert a record near a place in the log of its incarnation, with the time that it is there."""
    life = [index for index, other in enumerate(records) if other["incarnation"] == record["incarnation"]]
    if not life:
        records.insert(at, record)
        return
    to = max(life[0], min(life[-1] + 1, at + random.choice([-200, -40, -8, -2, -1, 1, 2, 8, 40, 200])))
    neighbour = records[max(life[0], to - 1)]
    records.insert(to, {**record, "at_ns": neighbour["at_ns"], "wall_ns": neighbour["wall_ns"]})


def change_number(random: Random, records: Records) -> None:
    """A number is off by a little."""
    record = random.choice(records)
    names = [name for name, value in record.items() if type(value) is int and name not in (*FRAME, "at_ns", "wall_ns")]
    if names:
        name = random.choice(names)
        record[name] = max(0, record[name] + random.choice(STEPS))


def hold_up(random: Random, records: Records) -> None:
    """The process stood still for a while."""
    at, pause_ns = random.randrange(len(records)), random.choice(PAUSES_NS)
    for record in records[at:]:
        if record["incarnation"] == records[at]["incarnation"]:
            record["at_ns"] += pause_ns
            record["wall_ns"] += pause_ns


def change_ranges(random: Random, records: Records) -> None:
    """A range is wider, narrower, split in two, new or gone."""
    choice = [record for record in records if "ranges" in record]
    if not choice:
        return
    record = random.choice(choice)
    ranges = [list(span) for span in record["ranges"]]
    if not ranges:
        begin = record.get("cumulative", 0) + random.randrange(1, 4)
        ranges = [[begin, begin + random.randrange(3)]]
    else:
        at = random.randrange(len(ranges))
        first, last = ranges[at]
        ranges[at : at + 1] = random.choice(
            [[], [[first, last + 1]], [[max(1, first - 1), last]], [[first, first], [last, last]], [[first, first]]]
        )
    record["ranges"] = disjoint(ranges)


def disjoint(ranges: list[list[int]]) -> list[list[int]]:
    """The same numbers as ascending ranges without overlap, which is what the contract says."""
    joined: list[list[int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined


def change_class(random: Random, records: Records) -> None:
    """A record speaks of another class."""
    choice = [record for record in records if "class" in record and record["event"] != "position_recovered"]
    if choice:
        random.choice(choice)["class"] = random.choice(CLASSES)


def flip(random: Random, records: Records) -> None:
    """A yes is a no."""
    choice = [(record, name) for record in records for name, value in record.items() if type(value) is bool]
    if choice:
        record, name = random.choice(choice)
        record[name] = not record[name]


def change_reason(random: Random, records: Records) -> None:
    """A session ended for another reason."""
    choice = [record for record in records if record["event"] == "session_closed"]
    if choice:
        random.choice(choice)["reason"] = random.choice(REASONS)


def mix_up(random: Random, records: Records) -> None:
    """Something of one record stands in another of the same event."""
    record = random.choice(records)
    other = random.choice([it for it in records if it["event"] == record["event"]])
    names = [name for name in record if name in other and name not in (*FRAME, "node", "event", "at_ns", "wall_ns")]
    if names and not (record["event"] == "position_recovered" and record["class"] != other["class"]):
        name = random.choice(names)
        record[name] = other[name]


DAMAGES: tuple[Callable[[Random, Records], None], ...] = (
    drop, drop, drop_block, drop_event, cut_short, double, double, move, move, change_number, change_number,
    change_number, hold_up, change_ranges, change_ranges, change_class, flip, change_reason, mix_up, mix_up,
)  # fmt: skip


def damage(random: Random, records: Records) -> Records:
    """A changed copy of one node's records: one to three kinds of damage; the serials fit again, but for some."""
    changed = [dict(record) for record in records]
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        if changed:
            random.choice(DAMAGES)(random, changed)
    if random.random() < 0.9:
        renumber(changed)
    else:
        # The order of a node's records is that of their serials, and no serial is there twice.
        by_serial = {(record["incarnation"], record["n"]): record for record in changed}
        changed = [by_serial[serial] for serial in sorted(by_serial)]
    return changed


def renumber(records: Records) -> None:
    """Give the records the serials that a node would have given them in this order."""
    records.sort(key=lambda record: record["incarnation"])
    serials: dict[int, int] = {}
    for record in records:
        record["n"] = serials[record["incarnation"]] = serials.get(record["incarnation"], 0) + 1
