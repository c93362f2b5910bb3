"""A node's stats as families of Prometheus, one table."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import Final, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

import triack
import triack.sync
from triack.base.errors import NodeClosed, UsageError
from triack.base.reasons import Trouble
from triack.ordering.tiers import TIER_LABELS
from triack.stats.node_stats import HistogramStats, HoldStats, NodeStats, OutgoingStats

LOOK_S = 5.0
"""A node whose event loop does not answer for this long is not well, and a failed scrape shows that."""

Sample = tuple[tuple[str, ...], float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: after ``triack_``; that of a counter without ``_total``.
        help: a sentence.
        labels: names of its labels.
        samples: their values, and the metric's, in a node's stats.
        counter: whether it only grows while the process lives.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[NodeStats], Iterable[Sample]]
    counter: bool = False

    def empty(self) -> GaugeMetricFamily | CounterMetricFamily:
        """Make the metric without a value."""
        kind = CounterMetricFamily if self.counter else GaugeMetricFamily
        return kind(f"triack_{self.name}", self.help, labels=self.labels)

    def filled(self, stats: NodeStats) -> Metric:
        """Make the metric with its values."""
        metric = self.empty()
        for labels, value in self.samples(stats):
            metric.add_metric(labels, value)
        return metric


@dataclass(frozen=True, slots=True)
class Durations:
    """A metric that counts durations by length; its ``name`` follows ``triack_``, and ``help`` is a sentence."""

    name: str
    help: str
    read: Callable[[NodeStats], HistogramStats]
    counter = False

    def empty(self) -> HistogramMetricFamily:
        """Make the metric without a value."""
        return HistogramMetricFamily(f"triack_{self.name}", self.help)

    def filled(self, stats: NodeStats) -> Metric:
        """Make the metric with its values."""
        durations, metric = self.read(stats), self.empty()
        bounds = [*map(str, durations.bounds_s), "+Inf"]
        metric.add_metric((), list(zip(bounds, accumulate(durations.counts), strict=True)), durations.sum_s)
        return metric


class _Rows(Generic[T]):
    """Makes the metrics of one kind of thing: their labels, and the things in a node's stats.

    With ``join``, things of the same labels are one sample: each priority is another stream, and has no label.
    """

    def __init__(
        self,
        prefix: str,
        labels: tuple[str, ...],
        each: Callable[[NodeStats], Iterable[tuple[tuple[str, ...], T]]],
        join: Callable[[float, float], float] | None = None,
    ) -> None:
        self._prefix = prefix
        self._labels = labels
        self._each = each
        self._join = join

    def __call__(
        self,
        name: str,
        sentence: str,
        read: Callable[[T], float | None] = lambda _: 1,
        join: Callable[[float, float], float] | None = None,
        *,
        counter: bool = False,
    ) -> Family:
        """A metric; ``read`` gives its value, or None for no sample."""

        def samples(stats: NodeStats) -> Iterable[Sample]:
            found = ((labels, value) for labels, it in self._each(stats) if (value := read(it)) is not None)
            joined = join or self._join
            return found if joined is None else _merged(found, joined)

        return Family(f"{self._prefix}{name}", sentence, self._labels, samples, counter)


def _merged(samples: Iterable[Sample], join: Callable[[float, float], float]) -> Iterable[Sample]:
    merged: dict[tuple[str, ...], float] = {}
    for labels, value in samples:
        merged[labels] = join(merged[labels], value) if labels in merged else value
    return merged.items()


def _stream(it: OutgoingStats | HoldStats) -> tuple[str, str, str]:
    return it.peer, it.queue, it.delivery.label


_STREAM = ("peer", "queue", "delivery")
_queue = _Rows("queue_", ("queue",), lambda stats: (((name,), it) for name, it in stats.queues.items()))
_topic = _Rows("topic_", ("topic",), lambda stats: (((root,), it) for root, it in stats.topics.items()))
_durable = _Rows(
    "subscription_",
    ("topic", "subscription"),
    lambda stats: (
        ((root, one.name), one) for root, it in stats.topics.items() for one in it.subscriptions if one.durable
    ),
)
_bridge = _Rows("bridge_", ("bridge",), lambda stats: (((it.name,), it) for it in stats.bridges))
_refusals = _Rows(
    "bridge_",
    ("bridge", "reason"),
    lambda stats: (((it.name, reason), count) for it in stats.bridges for reason, count in it.refusals.items()),
)
_transit = _Rows(
    "transit_",
    ("destination", "queue", "delivery", "came_by"),
    lambda stats: (((it.final, it.queue, it.delivery.label, it.came_by), it) for it in stats.transit),
    add,
)
_outgoing = _Rows("outgoing_", _STREAM, lambda stats: ((_stream(it), it) for it in stats.outgoing), add)
_held = _Rows(
    "outgoing_",
    (*_STREAM, "reason"),
    lambda stats: (((*_stream(it), it.held), it) for it in stats.outgoing if it.held is not None),
    max,
)
_holds = _Rows("", (*_STREAM, "reason"), lambda stats: (((*_stream(it), it.reason), it) for it in stats.holds), max)
_link = _Rows("link_", ("peer",), lambda stats: (((peer,), it) for peer, it in stats.links.items()))
_session = _Rows(
    "link_",
    ("peer",),
    lambda stats: (((peer,), it.session) for peer, it in stats.links.items() if it.session is not None),
)
_waits = _Rows(
    "link_",
    ("peer", "waits_for"),
    lambda stats: (((peer, it.waits_for), it) for peer, it in stats.links.items() if it.waits_for is not None),
)
_node = _Rows("", (), lambda stats: [((), stats)])
_acks = _Rows(
    "",
    ("kind", "trigger"),
    lambda stats: (((kind, trigger), n) for kind, causes in stats.acks.items() for trigger, n in causes.items()),
)
# All tiers, and all names of troubles, so that a rate or an alert has a value before there is any.
_tiers = _Rows("", ("tier",), lambda stats: (((tier,), stats.tier_resends.get(tier, 0)) for tier in TIER_LABELS))
_troubles = _Rows(
    "",
    ("trouble",),
    lambda stats: (((it.value,), sum(one.trouble == it.value for one in stats.troubles)) for it in Trouble),
)


def _reasons(name: str, sentence: str, read: Callable[[NodeStats], dict[str, int]]) -> Family:
    def samples(stats: NodeStats) -> Iterator[Sample]:
        return (((reason,), count) for reason, count in read(stats).items())

    return Family(name, sentence, ("reason",), samples, counter=True)


FAMILIES: Final = (
    _queue("messages", "Messages that are not acknowledged.", lambda it: it.messages),
    _queue("in_hand", "Messages in the hands of readers.", lambda it: it.in_hand),
    _queue("bytes", "Of the packets that hold them.", lambda it: it.bytes),
    _queue("oldest_seconds", "Since the oldest was sent; nothing without one.", lambda it: it.oldest_s),
    _queue("full", "1 when the queue has reached its quota.", lambda it: it.is_full),
    _queue("arrived", "Messages that came into the queue.", lambda it: it.arrived, counter=True),
    _queue("left", "Messages acknowledged, expired, moved or purged.", lambda it: it.left, counter=True),
    _topic("messages", "Messages that some subscription wants.", lambda it: it.messages),
    _topic("bytes", "Size of the packets that hold them.", lambda it: it.bytes),
    _topic("waiting", "Messages that are not dispatched, as subscriptions have no room.", lambda it: it.waiting),
    _topic("full", "Whether publishers wait, or are refused, at its quota.", lambda it: it.is_full),
    _topic("arrived", "Messages published to it.", lambda it: it.arrived, counter=True),
    _topic("discarded", "Messages dropped for slow subscriptions.", lambda it: it.discarded, counter=True),
    _durable("pending", "Messages that wait for a durable subscription.", lambda it: it.pending),
    _durable("on_the_way", "Messages of it that were passed on to another node.", lambda it: it.on_the_way),
    _durable("oldest_seconds", "Age of the oldest of them.", lambda it: it.oldest_s),
    _outgoing("messages", "Messages that have not arrived yet.", lambda it: it.messages),
    _outgoing("packets", "Packets that the ack of their class has not freed.", lambda it: it.packets),
    _outgoing("bytes", "Of their bodies.", lambda it: it.bytes),
    _held("held", "1 while the destination has no room, with the reason."),
    _holds("held", "1 while this node has no room for what a peer has for it."),
    _outgoing("oldest_seconds", "Since the first of them was sent.", lambda it: it.oldest_s, max),
    _outgoing("stalled_seconds", "Since a message arrived there.", lambda it: it.stalled_s, max),
    _transit("messages", "Messages of other nodes that wait here for other nodes.", lambda it: it.messages),
    _transit("bytes", "Of the packets that hold them.", lambda it: it.bytes),
    _transit("oldest_seconds", "Since the first of them came, or was sent.", lambda it: it.oldest_s, max),
    _outgoing("accepted", "Messages accepted for the queue there.", lambda it: it.accepted, counter=True),
    _link("up", "1 when a session is open, or none is needed.", lambda it: it.state in ("up", "idle")),
    _link("sessions", "Sessions that were opened.", lambda it: it.sessions, counter=True),
    _link("resends", "Packets that left again.", lambda it: it.resends, counter=True),
    _link("gaps", "Times that another node answered than had acknowledged.", lambda it: it.gaps, counter=True),
    _link("window_closings", "Times that a publish window was full.", lambda it: it.window_closings, counter=True),
    _link("suspended", "1 when nothing is sent there any more.", lambda it: it.suspended is not None),
    _waits("waits", "1 with what is missing for what there is for the peer."),
    _troubles("troubles", "What stops messages now, by name.", lambda count: count),
    _bridge("up", "1 while it is connected to its broker.", lambda it: it.is_up),
    _bridge("waiting", "Messages on their way to the disk, or to the broker.", lambda it: it.waiting),
    _bridge("waits", "1 while it has no room, or what it needs is missing.", lambda it: it.waits_for is not None),
    _bridge("taken", "Messages of the broker that are on the disk.", lambda it: it.taken, counter=True),
    _bridge("given", "Messages that the broker has acknowledged.", lambda it: it.given, counter=True),
    _bridge("repeated", "Messages taken that the broker marked as sent again.", lambda it: it.repeated, counter=True),
    _refusals("refused", "Messages that can never be passed on.", lambda count: count, counter=True),
    _bridge("dropped", "Messages of QoS 0 that found no room.", lambda it: it.dropped, counter=True),
    _session("round_trip_seconds", "Smoothed; nothing before the first sample.", lambda it: it.round_trip_s),
    _session("window", "Packets that may be unacknowledged.", lambda it: it.window),
    _session("unacknowledged", "Packets that are.", lambda it: it.unacknowledged),
    _session("congestion_window_bytes", "How much may be on its way.", lambda it: it.congestion_window_bytes),
    _session("datagram_bytes", "The largest datagram.", lambda it: it.datagram_bytes),
    _node("sessions", "Open sessions, whichever end began them.", lambda it: len(it.sessions)),
    _reasons("drops", "What was dropped.", lambda it: it.drops),
    _reasons("closes", "Sessions that ended.", lambda it: it.closes),
    _reasons("dead_letters", "Messages that went to the dead-letter queue.", lambda it: it.dead_letters),
    _node("rollbacks", "Peers suspended for a store that was rolled back.", lambda it: len(it.rollbacks)),
    _node("store_low", "1 when nothing new is accepted for the disk.", lambda it: it.store_low),
    _node("store_room_bytes", "How much more the disk takes.", lambda it: it.room_bytes),
    _node("store_busy_seconds", "How long the store's current job takes.", lambda it: it.store_busy_s or 0),
    Durations("commit_seconds", "How long group commits took.", lambda it: it.commit_time),
    Durations("ack_seconds", "How long packets waited for the ack that frees them.", lambda it: it.ack_latency),
    Durations("time_in_queue_seconds", "From sending to the first reader.", lambda it: it.time_in_queue),
    _acks("acks", "Acks that left, by kind and trigger.", lambda count: count, counter=True),
    _tiers("tier_resends", "Packets sent again for want of an order ack.", lambda count: count, counter=True),
)
"""Names stay the same, as those of the stats do. docs/metrics.md lists them; a test compares."""


class NodeCollector(Collector):
    """A collector for a registry of ``prometheus_client``.

    A scrape may come from any thread: the node is asked in its own event loop, and the scrape waits for the answer.

    Args:
        node: a node that is open: ``triack.Node``, in whose event loop this is made, or ``triack.sync.SyncNode``.

    Raises:
        UsageError: it is something else, or no event loop runs where this is made of a ``triack.Node``.
    """

    def __init__(self, node: triack.Node | triack.sync.SyncNode) -> None:
        self._node = node
        self._loop: asyncio.AbstractEventLoop | None = None  # a node without ``async`` finds its own
        if isinstance(node, triack.Node):
            self._loop = _running_loop()
            if self._loop is None:
                raise UsageError("collect metrics: make the collector where the node's event loop runs")
        elif not isinstance(node, triack.sync.SyncNode):
            raise UsageError(f"collect metrics of a {type(node).__name__}: wanted a node")

    def describe(self) -> Iterator[Metric]:
        """Describe the metrics, before the node is asked."""
        yield from (family.empty() for family in FAMILIES)

    def collect(self) -> Iterator[Metric]:
        """Ask the node for its metrics; one that is not open has none.

        Raises TimeoutError if its event loop does not answer for ``LOOK_S`` seconds.
        """
        try:
            stats = self._look()
        except NodeClosed:
            return
        info = GaugeMetricFamily("triack_node", "Always 1.", labels=("name", "node_id", "version", "survives"))
        info.add_metric((self._node.name, self._node.node_id, triack.__version__, stats.survives), 1)
        yield info
        for family in FAMILIES:
            yield family.filled(stats)

    def _look(self) -> NodeStats:
        node, loop = self._node, self._loop
        if loop is None or _running_loop() is loop:
            return node.stats()
        answer = concurrent.futures.Future[NodeStats]()

        def look() -> None:
            try:
                answer.set_result(node.stats())
            except triack.TriackError as error:
                answer.set_exception(error)

        try:
            loop.call_soon_threadsafe(look)
        except RuntimeError as cause:
            raise NodeClosed(f"metrics of node {node.name}: its event loop has ended") from cause
        return answer.result(LOOK_S)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
