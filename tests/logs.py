"""Session logs in memory, as tests like to look at them: one record for each packet."""

from collections.abc import Iterable, Iterator
from typing import Any

from triack.tools.replay.log.files import parse_records

Record = dict[str, Any]


def single_records(log: bytes) -> list[Record]:
    """The records of a log, those of several packets taken apart."""
    return list(taken_apart(parse_records(log)))


def taken_apart(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records of one packet each: `count` are its messages; `first` and `last` those that were handed out."""
    for record in records:
        event = record["event"]
        counts = [count for packets, count in record.get("counts", ()) for _ in range(packets)]
        if event == "handed" and counts:
            place = record["place"]
            for step, count in enumerate(counts):
                yield {**record, "number": record["number"] + step, "first": place, "last": place + count - 1}
                place = 0
        elif event not in ("packet_sent", "packet_received"):
            yield record
        else:
            for step in range(record["packets"]):
                one = {**record, "packet": record["packet"] + step, "packets": 1}
                if counts:
                    number = record["number"] + step
                    named = number - 1 if step and record["class"] == "transactional" else record["previous"]
                    one |= {"number": number, "previous": named, "count": counts[step], "counts": [[1, counts[step]]]}
                yield one
