"""What a node promises about all streams that it sends: what goes to one queue of one peer is in one of them.

Only another class or priority, or a seal, makes another stream. A second one of the same may begin when the first has
ended, or goes to a node of another name, of which its next ``rerouted`` record tells.
"""

from __future__ import annotations

from typing import Final

from triack.tools.replay.checks.findings import Output, Record, settled
from triack.tools.replay.checks.side import OfNode

EVENTS: Final = frozenset({"queued", "rerouted", "stream_ended"})
"""What its judge looks at, of the node's own streams."""
_KEY: Final = ("queue", "peer_name", "class", "priority", "sealed")

Stream = tuple[int, int]
"""Its number, and its sequence."""


class SendingJudge(OfNode):
    """Judges all streams that one node sends."""

    def __init__(self, node: str, out: Output) -> None:
        super().__init__(node, out)
        # The streams of this start that something was put into: what each is for, and which one has it.
        self._keys: dict[Stream, tuple[object, ...]] = {}
        self._streams: dict[tuple[object, ...], Stream] = {}

    def _enter(self, start: int) -> None:
        super()._enter(start)
        self._keys.clear()
        self._streams.clear()

    def _look(self, record: Record) -> None:
        stream = record["stream"], record["sequence"]
        if record["event"] == "queued":
            self._queue(stream, record)
        elif (key := self._keys.pop(stream, None)) is not None and self._streams[key] == stream:
            del self._streams[key]

    def _queue(self, stream: Stream, record: Record) -> None:
        if record.get("recovered") or "sealed" not in record:
            # After a change of names two may be found with the same one: only one of them gets more. A log that does
            # not say which streams are sealed cannot show that two of them are alike.
            return
        key = tuple(map(record.get, _KEY))
        other = self._streams.get(key)
        if other == stream:
            return
        if other is not None:
            evidence = f"queued beside stream {other[0]}, which is for the same queue, class and priority"
            where = {name: record[name] for name in ("origin", "stream", "sequence")}
            due = settled(self._node, self._start, self._start)
            self._out.report(record, "claims", evidence, due, number=record["first"], **where)
        self._keys[stream], self._streams[key] = key, stream
