"""The tables of the report: per link, per queue, and how long messages took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from triack.tools.replay.log.schema import Timeline
from triack.tools.replay.log.series import LATENCY_BUCKETS_PER_DECADE

WAYS_MAX: Final = 20
"""Ways of one stream that the report shows; where routes change often there may be very many."""
BETWEEN: Final = "between"
"""How the name of a number begins that was counted for a node and its peer, in whatever sessions."""


def join_links(numbers: Mapping[str, int], peers: Mapping[tuple[str, str], str]) -> dict[str, int]:
    """Return numbers in which those of sessions whose peers are known are added up by peer."""
    joined: dict[str, int] = {}
    for name, value in numbers.items():
        what, *rest = name.split("\t")
        if what == "link" and (peer := peers.get((rest[0], rest[1]))) is not None:
            _add(joined, "\t".join((BETWEEN, rest[0], peer, rest[2])), value)
        else:
            _add(joined, name, value)
    return joined


def fill_tables(timeline: Timeline, numbers: Mapping[str, int]) -> None:
    """Put the numbers of links and queues, and the names of nodes, in."""
    parts = [(name.split("\t"), value) for name, value in sorted(numbers.items()) if "\t" in name]
    called = _name_nodes(timeline, parts)
    peers = {(line.node, line.session): line.peer for line in timeline.sessions}
    takers: dict[tuple[str, int], list[str]] = {}
    for part, value in parts:
        match part:
            case ["link" | "between" as what, node, other, count]:
                peer = peers.get((node, other), "") if what == "link" else other
                _count_link(timeline, node, peer, count, value)
            case ["queue", count, node, queue]:
                _add(timeline.queues.setdefault((timeline.names.get(node, node), queue), {}), count, value)
            case ["reader", node, count, topic, subscription, pattern]:
                reader = timeline.names.get(node, node), topic, subscription, pattern
                _add(timeline.readers.setdefault(reader, {}), count, value)
            case ["hand" | "bridge" as what, node, *whose, count]:
                known: dict[Any, dict[str, int]] = timeline.hands if what == "hand" else timeline.bridges
                _add(known.setdefault((timeline.names.get(node, node), *whose), {}), count, value)
            case ["policy", node, *shown, peer]:
                timeline.policies.setdefault((node, peer), {})[tuple(map(int, shown))] = value
            case ["hold", node, origin, number, wall_ns, reason]:
                timeline.holds.setdefault((node, origin, int(number)), []).append((int(wall_ns), reason))
            case ["pause", node, queue, wall_ns, reason]:
                timeline.pauses.setdefault((node, queue), []).append((int(wall_ns), reason))
            case ["stream" | "priority" | "way" | "dwell" | "flow", *_]:
                _count_stream(timeline, part, value, takers)
    for stream, names in takers.items():
        timeline.flows.takers.setdefault(stream, {_only(called.get(name, {name}), name) for name in names})
    for line in timeline.sessions:
        timeline.links.setdefault((line.node, line.peer), {})


def _name_nodes(timeline: Timeline, parts: list[tuple[list[str], int]]) -> dict[str, set[str]]:
    """Put the names of nodes in; return which nodes are called so."""
    called: dict[str, set[str]] = {}
    for (what, *rest), _ in parts:
        if what in ("name", "alias") and "" not in rest:
            node, name = rest
            called.setdefault(name, set()).add(node)
            # A node knows its own name best: that replaces what others call it.
            if what == "name" or node not in timeline.names:
                timeline.names[node] = name
    return called


def _only(nodes: set[str], name: str) -> str:
    """Return the node that is called so, or the name where several are."""
    return next(iter(nodes)) if len(nodes) == 1 else name


def _count_stream(timeline: Timeline, part: list[str], value: int, takers: dict[tuple[str, int], list[str]]) -> None:
    """Put a number of a stream in; ``takers`` gets how its origin calls the nodes that it is for."""
    kind, origin, number, *more = part
    stream = origin, int(number)
    match [kind, *more]:
        case ["stream", queue]:
            timeline.streams[stream] = queue
        case ["priority", priority]:
            timeline.priorities[stream] = int(priority)
        case ["way", node, peer]:
            timeline.ways.setdefault(stream, []).append((node, peer))
        case ["dwell", relay, bucket]:
            timeline.dwell.setdefault((*stream, relay), {})[int(bucket)] = value
        case ["flow", what]:
            word, _, of = what.partition(" ")
            if word == "took":
                timeline.flows.delays.setdefault(stream, {})[int(of)] = value
            elif word == "to":
                timeline.flows.takers.setdefault(stream, set()).add(of)
            elif word == "called":
                # By no name: it is for itself.
                takers.setdefault(stream, []).append(of or origin)
            else:
                timeline.flows.counts.setdefault(stream, {})[what] = value


def _count_link(timeline: Timeline, node: str, peer: str, what: str, value: int) -> None:
    """Counts of arrived and of acknowledged packets belong to the link of the other direction."""
    if what.startswith("trip "):
        trips = timeline.trips.setdefault((node, peer), {})
        bucket = int(what.removeprefix("trip "))
        trips[bucket] = trips.get(bucket, 0) + value
        return
    here = what in ("received", "duplicate") or what.startswith("ack ")
    _add(timeline.links.setdefault((peer, node) if here else (node, peer), {}), what, value)


def _add(counts: dict[str, int], what: str, value: int) -> None:
    counts[what] = counts.get(what, 0) + value


def percentile_ms(counts: Mapping[int, int], share: float, per_decade: int = LATENCY_BUCKETS_PER_DECADE) -> float:
    """Return the latency that this share of messages did not exceed: the end of its bucket, milliseconds."""
    left = math.ceil(share * sum(counts.values()))
    upper = 0.0
    for bucket in sorted(counts):
        upper = 10 ** ((bucket + 1) / per_decade) / 1000
        left -= counts[bucket]
        if left <= 0:
            break
    return upper


def ways_of(timeline: Timeline, stream: tuple[str, int]) -> list[list[str]]:
    """Return the ways of a stream as lines of nodes, from its origin on; a node that was met before ends a line."""
    following: dict[str, list[str]] = {}
    for node, peer in sorted(timeline.ways[stream]):
        following.setdefault(node, []).append(peer)
    lines, waiting = list[list[str]](), [[stream[0]]]
    while waiting and len(lines) < WAYS_MAX:
        line = waiting.pop()
        further = [] if line[-1] in line[:-1] else following.get(line[-1], [])
        waiting += [[*line, peer] for peer in reversed(further)]
        lines += [] if further else [line]
    return lines


def latency_totals(timeline: Timeline) -> dict[int, int]:
    """Return latency bucket -> messages, over the whole time."""
    return {int(bucket): sum(counts.values()) for bucket, counts in timeline.parts("latency").items()}


def percentiles_over_time(timeline: Timeline, share: float) -> dict[int, float]:
    """Return bucket of time -> the latency that this share of its messages did not exceed, milliseconds."""
    by_time: dict[int, dict[int, int]] = {}
    for latency, counts in timeline.parts("latency").items():
        for bucket, count in counts.items():
            by_time.setdefault(bucket, {})[int(latency)] = count
    return {bucket: percentile_ms(counts, share) for bucket, counts in sorted(by_time.items())}
