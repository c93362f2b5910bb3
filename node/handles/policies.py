"""The acknowledgements of other systems as settings of a node: how many are held back, how long, and which calls wait.

Each preset is a ``NodeSettings``, and each function makes one with other numbers, which have the names and the ranges
of their source; use ``dataclasses.replace`` for other changes. Presets decide when acknowledgements leave and when
senders give up, but not what they mean: in each of them a store ack is about a disk, and a transactional message
arrives once, in order.

A window, a share and a count are packets. MSMQ and Solace count messages, so there each message has its own packet; in
the others small messages that are sent together share one.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import NamedTuple

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_between
from triack.base.errors import UsageError
from triack.ordering.order_settings import OrderSettings
from triack.queues.blocking import Blocking
from triack.queues.node_settings import ALL_ROOTS, Journal, Limits, NodeSettings, Reconnect, Strategy, Topic
from triack.session.protocol.settings import WINDOW_MAX, SessionSettings

__all__ = [
    "AMPS",
    "DEFAULT",
    "HORNETQ",
    "MSMQ",
    "PRESETS",
    "SOLACE",
    "WSO2",
    "Value",
    "amps",
    "hornetq",
    "msmq",
    "solace",
    "values",
    "wso2",
]

_NEVER = 0x7FFFFFFF
"""Packets after which a sender asks for an order ack, for sources without such a request."""
_OFF = -1
"""HornetQ's value of ``confirmation-window-size`` for no window."""
_ACK_TIMEOUT_MIN_S, _ACK_TIMEOUT_MAX_S = 20.0, 120.0
"""The range of MSMQ's ack timeout ([MS-MQQB] 2.2.2.1). It computes its default, and the formula is not public."""
_LONG_LIVE_S = 345_600.0
"""MSMQ's default for the time to reach a queue, four days (``MachineCache\\LongLiveTime``)."""


def msmq(
    *,
    max_unacked_packet: int = 64,
    idle_ack_delay_s: float = 0.5,
    ack_timeout_s: float | None = None,
    seq_max_ack_delay_s: float = 10.0,
    try_connect_interval_s: float = 5.0,
) -> NodeSettings:
    """MSMQ: session acks at half the window or ``IdleAckDelay``, store acks after 8 round trips, order acks in bursts.

    Args:
        max_unacked_packet: 1 to 65535 (``MaxUnackedPacket``).
        idle_ack_delay_s: 0 to 60 (``IdleAckDelay``).
        ack_timeout_s: 20 to 120 (``AckTimeout``, [MS-MQQB] 2.2.2.1); None, as there, computes it for each session from
            its round trip, within that range. It counts twice for a peer that is reached by its address, as for direct
            names there.
        seq_max_ack_delay_s: at most a day (``SeqMaxAckDelay``).
        try_connect_interval_s: 0.001 to 3600 (``TryConnectInterval``).

    Raises:
        UsageError: a value is out of its range.
    """
    check_between("msmq: max_unacked_packet", max_unacked_packet, 1, WINDOW_MAX)
    check_between("msmq: idle_ack_delay_s", idle_ack_delay_s, 0, 60)
    if ack_timeout_s is not None:
        check_between("msmq: ack_timeout_s", ack_timeout_s, _ACK_TIMEOUT_MIN_S, _ACK_TIMEOUT_MAX_S)
    check_between("msmq: seq_max_ack_delay_s", seq_max_ack_delay_s, 0, 86_400)
    check_between("msmq: try_connect_interval_s", try_connect_interval_s, 0.001, 3_600)
    wait_s = try_connect_interval_s
    return NodeSettings(
        session=SessionSettings(
            max_unacked_packet=max_unacked_packet,
            ack_trigger=AckTrigger(delay_s=idle_ack_delay_s, piggyback_after=0.75),
            store_ack_trigger=AckTrigger(delay_s=0.5, delay_rtts=8, delay_max_s=120.0, piggyback_after=0.75),
            ack_timeout_s=ack_timeout_s,
            ack_timeout_min_s=_ACK_TIMEOUT_MIN_S,
            ack_timeout_max_s=_ACK_TIMEOUT_MAX_S,
            direct_ack_timeouts=2,
            store_ack_timeout_s=240.0,
            connect_timeout_s=60.0,
            cleanup_interval_s=300.0,
        ),
        order=OrderSettings(
            order_ack_idle_s=0.5,
            seq_max_ack_delay_s=seq_max_ack_delay_s,
            order_ack_every=_NEVER,
            seq_resend_13_s=30.0,
            seq_resend_46_s=300.0,
            seq_resend_79_s=1800.0,
            seq_resend_10_s=21600.0,
        ),
        reconnect=Reconnect(first_s=wait_s, most_s=wait_s, unanswered_most_s=wait_s, jitter=0),
        messages_per_packet=1,
        time_to_reach_queue_s=_LONG_LIVE_S,
        limits=Limits(journal=Journal(when_full="stop")),
    )


def solace(*, window: int = 50, publish_ack_timer_s: float = 2.0) -> NodeSettings:
    """Solace guaranteed messages: acks at a third of the window, rounded down, or after a second; resends without end.

    A sender waits when as many messages as the window to one queue are not acknowledged; see ``publish_window``.

    Args:
        window: 1 to 255 (``PubWindowSize``), of each queue, and of the session that all of them share.
        publish_ack_timer_s: 0.02 to 60 (``PubAckTimer``): packets without an order ack by then are resent, each time.

    Raises:
        UsageError: a value is out of its range.
    """
    check_between("solace: window", window, 1, 255)
    check_between("solace: publish_ack_timer_s", publish_ack_timer_s, 0.02, 60)
    trigger = AckTrigger(window_share=1 / 3, delay_s=1.0, piggyback_after=None)
    held_s = min(1.0, publish_ack_timer_s / 2)
    return NodeSettings(
        session=SessionSettings(max_unacked_packet=window, ack_trigger=trigger),
        order=OrderSettings(
            order_ack_idle_s=held_s,
            seq_max_ack_delay_s=held_s,
            order_ack_every=trigger.threshold(window) or 1,
            seq_resend_13_s=publish_ack_timer_s,
            seq_resend_46_s=publish_ack_timer_s,
            seq_resend_79_s=publish_ack_timer_s,
            seq_resend_10_s=publish_ack_timer_s,
        ),
        messages_per_packet=1,
        publish_window=window,
    )


def hornetq(
    *,
    confirmation_window_bytes: int = 10 * 1024 * 1024,
    client_failure_check_period_s: float = 30.0,
    retry_interval_s: float = 2.0,
    block_on_durable_send: bool = True,
    block_on_non_durable_send: bool = False,
    block_on_acknowledge: bool = False,
    journal_sync_transactional: bool = True,
    journal_sync_non_transactional: bool = True,
) -> NodeSettings:
    """HornetQ: acks after a number of bytes, or at the flush every two seconds; no window in packets.

    Sends of durable messages wait. The window is that of its bridges between servers, as its clients have none; a
    bridge does not wait with each send.

    Args:
        confirmation_window_bytes: 1 to 2^31 - 1 (``confirmation-window-size`` of a bridge), or -1, the default of a
            client, for none: no number of bytes makes an ack due, and what was sent and not confirmed when a session is
            lost is not sent again (``after_session_lost="hand back"``), as only a window makes HornetQ reattach.
        client_failure_check_period_s: 4 to 120: a silent peer is given up (``client-failure-check-period``); no less
            than twice the flush.
        retry_interval_s: 0.001 to 3600, between attempts to connect (``retry-interval``, multiplier 1).
        block_on_durable_send: whether ``send`` of a message on disk returns only when the next node has stored it
            (``BlockOnDurableSend``).
        block_on_non_durable_send: whether ``send`` of an express message returns only when it has arrived there.
        block_on_acknowledge: whether a consumer's acknowledgement is on the disk before it gets the next message.
        journal_sync_transactional: whether a commit with transactional messages, or of a transaction, is synced before
            anything is said of it (``journal-sync-transactional``); without, it survives a crash of the process.
        journal_sync_non_transactional: the same of recoverable messages, and of acknowledgements of consumers outside
            of transactions (``journal-sync-non-transactional``).

    Raises:
        UsageError: a value is out of its range.
    """
    if has_window := confirmation_window_bytes != _OFF:
        check_between("hornetq: confirmation_window_bytes", confirmation_window_bytes, 1, 0x7FFFFFFF)
    check_between("hornetq: client_failure_check_period_s", client_failure_check_period_s, 4, 120)
    check_between("hornetq: retry_interval_s", retry_interval_s, 0.001, 3_600)
    wait_s = retry_interval_s
    return NodeSettings(
        session=SessionSettings(
            max_unacked_packet=WINDOW_MAX,
            ack_trigger=AckTrigger(
                window_share=None,
                bytes_=confirmation_window_bytes if has_window else None,
                delay_s=2.0,
                piggyback_after=None,
            ),
            ack_timeout_s=client_failure_check_period_s,
        ),
        order=OrderSettings(order_ack_idle_s=2.0, seq_max_ack_delay_s=2.0),
        reconnect=Reconnect(
            first_s=wait_s,
            most_s=wait_s,
            unanswered_most_s=wait_s,
            jitter=0,
            after_session_lost="resend" if has_window else "hand back",
        ),
        blocking=Blocking(
            durable="stored" if block_on_durable_send else None,
            express="received" if block_on_non_durable_send else None,
            acknowledge=block_on_acknowledge,
        ),
        survives="power loss" if journal_sync_transactional else "process crash",
        recoverable_survives="power loss" if journal_sync_non_transactional else "process crash",
    )


def amps(
    *, ack_conflation_s: float = 1.0, logon_ack_conflation_s: float = 1.0, error_on_publish_gap: bool = False
) -> NodeSettings:
    """AMPS: one ack an interval, with the highest number that it covers; no window in packets.

    A publisher hears of a message after both intervals at the latest: they add up, so lowering one may have no effect.

    Args:
        ack_conflation_s: 0.001 to 50 (``AckConflationInterval`` of a destination): the longest that the first ack waits
            on a link.
        logon_ack_conflation_s: 0.001 to 50 (``ack_conflation`` of a client's logon): the same for the events of the
            application (``Node.acknowledgements``).
        error_on_publish_gap: whether to stop sending to a node that lacks messages which another node acknowledged in
            its place (the publish store's option of that name); otherwise the gap is reported, and sending continues.

    Raises:
        UsageError: a value is out of its range.
    """
    check_between("amps: ack_conflation_s", ack_conflation_s, 0.001, 50)
    check_between("amps: logon_ack_conflation_s", logon_ack_conflation_s, 0.001, 50)
    return NodeSettings(
        session=SessionSettings(
            max_unacked_packet=WINDOW_MAX,
            ack_trigger=AckTrigger(window_share=None, delay_s=ack_conflation_s, piggyback_after=None),
            ack_timeout_min_s=max(2.0, 2 * ack_conflation_s),
            store_ack_timeout_min_s=max(10.0, 2 * ack_conflation_s),
        ),
        order=OrderSettings(
            order_ack_idle_s=ack_conflation_s,
            seq_max_ack_delay_s=ack_conflation_s,
            order_ack_every=_NEVER,
            seq_resend_13_s=max(30.0, 2 * ack_conflation_s),
        ),
        ack_events=AckTrigger(window_share=None, delay_s=logon_ack_conflation_s),
        reconnect=Reconnect(gap="error" if error_on_publish_gap else "warn"),
    )


def wso2(
    *,
    strategy: Strategy = "discard_none",
    max_unacked_messages: int = 1_000,
    delivery_timeout_s: float = 60.0,
    ack_wait_s: float = 60.0,
    maximum_redelivery_attempts: int = 10,
) -> NodeSettings:
    """WSO2 Message Broker: the strategies of topics, and what a subscriber may leave unacknowledged.

    It acknowledges between a broker and its subscribers; between two nodes it is as ``DEFAULT``.

    Args:
        strategy: ``discard_none``, ``slowest_sub_rate`` or ``discard_allowed`` (``strategyName``).
        max_unacked_messages: 1 to 1,000,000 (``maxUnackedMessages``).
        delivery_timeout_s: 0.001 to a day (``deliveryTimeout``).
        ack_wait_s: 0.001 to a day (``AndesAckWaitTimeOut``). Its client takes a check period of 10 s off that; here it
            is exact.
        maximum_redelivery_attempts: 0 to 1,000,000 (``maximumRedeliveryAttempts``).

    Raises:
        UsageError: a value is out of its range.
    """
    check_between("wso2: max_unacked_messages", max_unacked_messages, 1, 1_000_000)
    check_between("wso2: delivery_timeout_s", delivery_timeout_s, 0.001, 86_400)
    check_between("wso2: ack_wait_s", ack_wait_s, 0.001, 86_400)
    check_between("wso2: maximum_redelivery_attempts", maximum_redelivery_attempts, 0, 1_000_000)
    return NodeSettings(
        max_redeliveries=maximum_redelivery_attempts,
        topics={
            ALL_ROOTS: Topic(
                strategy=strategy,
                max_unacked=max_unacked_messages,
                delivery_timeout_s=delivery_timeout_s,
                ack_wait_s=ack_wait_s,
            )
        },
    )


DEFAULT = NodeSettings()
MSMQ = msmq()
SOLACE = solace()
HORNETQ = hornetq()
AMPS = amps()
WSO2 = wso2()
PRESETS = {"DEFAULT": DEFAULT, "MSMQ": MSMQ, "SOLACE": SOLACE, "HORNETQ": HORNETQ, "AMPS": AMPS, "WSO2": WSO2}
BETWEEN_NODES = {name: settings for name, settings in PRESETS.items() if settings is not WSO2}
"""Those that differ in what two nodes say to each other."""

_OURS = "Triack; the source documents none"
"""For values that no document states. The others that follow are titles of documents, each named several times."""
_BLOG = "John Breakwell, MSMQ and Session Acks"
"""Corrects the registry page of MaxUnackedPacket."""
_AMPS_ACKS = "60East, Acknowledgment Conflation and Publish Acknowledgements"
"""The interval, once a second."""
_THRESHOLD = "Solace, Acknowledging Published Messages"
"""A third of the window or one second."""
_FLUSH = "HornetQ, RemotingServiceImpl: confirmations are flushed every 2,000 ms"
"""Its source is public."""
_STRATEGY = "broker.xml, topicMessageDeliveryStrategy"
"""Of subscriptions that are not durable."""
SOURCES: dict[str, dict[str, str]] = {
    "DEFAULT": {},
    "MSMQ": {
        "session.max_unacked_packet": "registry, MaxUnackedPacket",
        "session.ack_trigger.window_share": _BLOG,
        "session.ack_trigger.delay_s": "registry, IdleAckDelay",
        "session.ack_trigger.piggyback_after": "[MS-MQQB] 3.1.7.11",
        "session.store_ack_trigger.window_share": _BLOG,
        "session.store_ack_trigger.delay_s": "[MS-MQQB] 3.1.5.3.2",
        "session.store_ack_trigger.delay_rtts": "[MS-MQQB] 3.1.5.3.2",
        "session.store_ack_trigger.delay_max_s": "[MS-MQQB] 3.1.5.3.2",
        "session.store_ack_trigger.piggyback_after": "[MS-MQQB] 3.1.7.11",
        "session.ack_timeout_min_s": "[MS-MQQB] 2.2.2.1",
        "session.connect_timeout_s": "[MS-MQQB] 3.1.2.1, session initialization timer",
        "session.direct_ack_timeouts": "[MS-MQQB] 3.1.2.4, QosCleanupIntervalMultiplier",
        "session.store_ack_timeout_s": "Triack: twice the longest delay, as MSMQ computes it",
        "session.cleanup_interval_s": "[MS-MQQB] 3.1.2.2",
        "order.order_ack_idle_s": "[MS-MQQB] 3.1.2.7",
        "order.seq_max_ack_delay_s": "registry, SeqMaxAckDelay",
        "order.order_ack_every": "MSMQ never asks",
        "order.seq_resend_13_s": "registry, SeqResend13Time",
        "order.seq_resend_46_s": "registry, SeqResend46Time",
        "order.seq_resend_79_s": "registry, SeqResend79Time",
        "order.seq_resend_10_s": "registry, SeqResend10Time",
        "reconnect.first_s": "[MS-MQQB], TryConnectInterval",
        "reconnect.most_s": "[MS-MQQB], TryConnectInterval",
        "reconnect.unanswered_most_s": "[MS-MQQB], TryConnectInterval",
        "reconnect.jitter": "[MS-MQQB], TryConnectInterval is constant",
        "messages_per_packet": "registry, MaxUnackedPacket, which counts messages",
        "time_to_reach_queue_s": "registry, MachineCache\\LongLiveTime",
        "survives": "[MS-MQMQ] 2.2.20.4, recoverable messages are persisted before they are acknowledged",
        "limits.journal.when_full": "MSMQ, JournalQuota: once it is exceeded, no more copies are made",
    },
    "SOLACE": {
        "session.max_unacked_packet": "Solace API, ADPublishWindowSize",
        "session.ack_trigger.window_share": f"{_THRESHOLD}; rounded down, which is ours",
        "session.ack_trigger.delay_s": _THRESHOLD,
        "session.ack_trigger.piggyback_after": _OURS,
        "order.order_ack_idle_s": _THRESHOLD,
        "order.seq_max_ack_delay_s": _THRESHOLD,
        "order.order_ack_every": _THRESHOLD,
        "order.seq_resend_13_s": "Solace API, ADPublishAckTimerInMsecs",
        "order.seq_resend_46_s": "Solace API, ADPublishAckTimerInMsecs",
        "order.seq_resend_79_s": "Solace API, ADPublishAckTimerInMsecs",
        "order.seq_resend_10_s": "Solace API, ADPublishAckTimerInMsecs",
        "publish_window": "Solace API, ADPublishWindowSize",
        "messages_per_packet": "Solace API, ADPublishWindowSize, which counts messages",
        "survives": "Solace, Understanding Guaranteed Message Publish Window Sizes and Acknowledgments",
    },
    "HORNETQ": {
        "session.max_unacked_packet": "HornetQ, ChannelImpl: the window does not block",
        "session.ack_trigger.window_share": "HornetQ counts bytes",
        "session.ack_trigger.bytes_": "HornetQ, confirmation-window-size of bridges",
        "session.ack_trigger.delay_s": _FLUSH,
        "session.ack_trigger.piggyback_after": _OURS,
        "session.ack_timeout_s": "HornetQ, client-failure-check-period",
        "order.order_ack_idle_s": _FLUSH,
        "order.seq_max_ack_delay_s": _FLUSH,
        "reconnect.first_s": "HornetQ, retry-interval",
        "reconnect.most_s": "HornetQ, max-retry-interval",
        "reconnect.unanswered_most_s": "HornetQ, max-retry-interval",
        "reconnect.jitter": "HornetQ, retry-interval is constant",
        "blocking.durable": "HornetQ, BlockOnDurableSend",
        "blocking.express": "HornetQ, BlockOnNonDurableSend",
        "blocking.acknowledge": "HornetQ, BlockOnAcknowledge",
        "survives": "HornetQ, journal-sync-transactional",
        "recoverable_survives": "HornetQ, journal-sync-non-transactional",
    },
    "AMPS": {
        "session.max_unacked_packet": "60East, MemoryPublishStore: no window",
        "session.ack_trigger.window_share": _AMPS_ACKS,
        "session.ack_trigger.delay_s": _AMPS_ACKS,
        "session.ack_trigger.piggyback_after": _OURS,
        "session.ack_timeout_min_s": "Triack: twice the interval",
        "session.store_ack_timeout_min_s": "Triack: twice the interval",
        "order.order_ack_idle_s": _AMPS_ACKS,
        "order.seq_max_ack_delay_s": _AMPS_ACKS,
        "order.order_ack_every": "AMPS never asks",
        "order.seq_resend_13_s": "Triack: at least twice the interval",
        "survives": "60East, Understanding Message Persistence",
        "reconnect.gap": "60East, MemoryPublishStore: a gap at logon is an error if that is asked for",
        "ack_events.window_share": _AMPS_ACKS,
        "ack_events.delay_s": _AMPS_ACKS,
    },
    "WSO2": {
        "max_redeliveries": "broker.xml, maximumRedeliveryAttempts",
        "topics.*.strategy": f"{_STRATEGY}, strategyName",
        "topics.*.max_unacked": "broker.xml, ackHandling/maxUnackedMessages",
        "topics.*.delivery_timeout_s": f"{_STRATEGY}, deliveryTimeout",
        "topics.*.ack_wait_s": "client, AndesAckWaitTimeOut; there 50 s, as a check period of 10 s is taken off",
    },
}
"""The source of each value of a preset; a setting that is not here has its default."""


class Value(NamedTuple):
    """One setting of a preset: its path in ``NodeSettings``, its value, and where that is from."""

    setting: str
    value: object
    source: str


def values(name: str) -> list[Value]:
    """The values of the preset with that name, in the order of its settings. Raises UsageError when there is none."""
    if name not in PRESETS:
        raise UsageError(f"no policy {name}; there are {', '.join(PRESETS)}")
    sources = SOURCES[name] or dict.fromkeys(path for source in SOURCES.values() for path in source)
    return [Value(path, value, sources[path] or "Triack") for path, value in paths(PRESETS[name]) if path in sources]


def paths(settings: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every setting, those of its parts by their paths, with its value."""
    for field in fields(settings):  # type: ignore[arg-type]
        if field.init:
            value = getattr(settings, field.name)
            yield prefix + field.name, value
            if is_dataclass(value):
                yield from paths(value, f"{prefix}{field.name}.")
            elif field.name == "topics" and ALL_ROOTS in value:
                yield from paths(value[ALL_ROOTS], f"{prefix}{field.name}.{ALL_ROOTS}.")
