"""What grows in a node: each container in the code, and what bounds it.

``ROWS`` has those that an arriving packet can make grow, or a call of a client, by rows of the tables of "What a peer
can cost" (docs/peer-cost.md): by the beginning of a row's first cell. ``OTHERS`` has those that no peer makes grow, by
the reason. A line has a module's place, and classes with their attributes: ``place Class a b, Other c``.

``test_growth.py`` finds the containers, and fails for one that is in neither: the author of a new one decides who pays
for it.
"""


def names_in(lines: str) -> list[str]:
    """The containers that lines name, each as ``place Class.attribute``."""
    named = []
    for place, _, classes in (line.strip().partition(" ") for line in lines.splitlines()):
        for owner, *names in (one.split() for one in classes.split(",") if one):
            named += [f"{place} {owner}.{name}" for name in names]
    return named


ROWS = {
    "`limits.quota`": """
        queues/mailboxes/priority_queue.py Level _ready
        queues/mailboxes/disk_backlog.py DiskBacklog blocks _firsts _expiring _kept _streams _numbers
        queues/mailboxes/mailbox.py Mailbox _changed _orphans _runs
        queues/mailboxes/partials.py Partial rows, Partials by_stream
        queues/mailboxes/progress.py Setbacks failures deaths waits
        queues/mailboxes/reader_state.py ReaderLine apart, ReaderState lines begun chosen told excluded
        queues/mailboxes/returned.py Returned coming passed
        queues/mailboxes/leases.py Leases cells _free
        queues/mailboxes/local_queues.py LocalQueues untold
        queues/topics/contents.py Contents _ready _places _taken wanted
        queues/topics/dispatch_times.py DispatchTimes _lasts _times_ns
        queues/topics/release_backlog.py _Group takes, ReleaseBacklog _groups
        queues/topics/subscription.py _Line _ahead _gone, Subscription _partly
        queues/topics/topic_root.py TopicRoot placed freed _awaited _early _skipped
        queues/remote/forwarder.py _Way tickets, Forwarder _done _ways
        queues/journals/journals.py Journals missing
    """,
    "`limits.peer_quota_bytes`": "queues/mailboxes/quotas.py Account _levels _charged",
    "`limits.peer_memory_bytes`": """
        queues/streams/group_commit.py GroupCommit accepted stored refused ended passed_on dead_in_transit departed
        ordering/incoming.py IncomingSequence _held _held_order
        queues/streams/inbox.py Inbox _held_at
    """,
    "`limits.transit_quota`": """
        ordering/departing.py DepartingSequence entries _to_send
        ordering/transit.py TransitSequence _lowest _skips
        ordering/disk_backlog.py DiskBacklog blocks _firsts _expiring, _Block data
        queues/streams/departing_streams.py DepartingStreams wanting
        queues/transit/pending_dead_letters.py PendingDeadLetters waiting pieces
        queues/transit/relay_acks.py RelayAcks passed
    """,
    "queues that it has created": "queues/peers/peer_limits.py QueuePlaces _makers",
    "`max_queues`": """
        queues/mailboxes/local_queues.py LocalQueues mailboxes removed
        queues/mailboxes/mailbox.py Notices idled keeping relieved
        queues/topics/topics.py Topics _reserved
        queues/journals/journals.py Journals _names _told
    """,
    "`max_streams`": """
        queues/streams/incoming_stream.py IncomingStreams _by_origin _by_relay
        queues/streams/inbox.py Inbox _starts
        queues/peers/peer_limits.py StreamPlaces _told_limit
        queues/streams/holds.py Holds _streams _told, HoldsHere stopped
        queues/streams/owed_acks.py OwedAcks _owing _unasked due, Positions _streams
        queues/peers/origins.py Origins _brought
        queues/transit/transits.py Transits _streams _by_number _by_link _free_numbers _idle _gone _dropping _over
        queues/transit/relay_acks.py RelayAcks _waiting _again _stored
        queues/mailboxes/large_bodies.py Bodies _current
    """,
    "`max_sessions`": """
        queues/peers/conversations.py Conversations by_connection _accepted _by_node _by_name _by_path _by_source
        queues/peers/link.py Conversation awake
        queues/peers/handshake.py Handshakes awake
        queues/peers/kept_connections.py KeptConnections _open _told changed
    """,
    "`max_peer_subscriptions`": """
        queues/topics/topics.py Topics subscriptions _deleted _left _dropped _overdue _told_ns
        queues/topics/topic_root.py TopicRoot subscriptions unsaid
        queues/topics/trie.py _Level below here all
        queues/remote/peer_subscriptions.py PeerSubscriptions _forwarders _by_node stirred
    """,
    "`session.max_unacked_packet`": """
        session/acknowledgements/session_ack.py SessionAck _told
        session/acknowledgements/store_ack.py StoreAck _sizes
    """,
    "connects that were answered and not used yet": "queues/peers/conversations.py Conversations _half_open",
    "the newest connect of each node": "queues/peers/freshness.py Freshness _newest",
    "connections over TCP without a session": """
        transport/strangers.py Strangers _host_of _by_host
        transport/tcp.py TcpEndpoint _connections
    """,
    "a datagram over TCP that is not finished": "transport/frames.py LengthFramer _buffer",
    "unsent bytes of a TCP connection": "transport/connection.py Connection _unsent",
    "datagrams that wait for the node": "transport/turns.py _Source items, Turns _waiting",
    "sources of datagrams": "transport/turns.py Turns _known",
    "addresses that datagrams came from": """
        transport/called.py Called _known
        transport/routes.py Routes _routes _names
        transport/udp.py UdpEndpoint _ways _fixed_ways
        transport/batched.py BatchedSocket _refusals
    """,
    "datagrams that wait until a name is looked up": """
        transport/udp.py UdpEndpoint _waiting _tasks
        transport/routes.py Routes _pending, _Route options
        transport/resolve.py _Lookups _waiting
    """,
    "packets of which only pieces have come": "session/path/pieces.py Pieces _unfinished, _Unfinished some",
    "keys for datagrams of later epochs": "transport/data_keys.py OpeningKeys _ahead",
    "challenges that are not answered yet": "queues/peers/path.py Paths _answers",
    "answers that wait; packets that they refuse": "queues/peers/link.py Conversation control",
    "refused packets that are named in session acks": "session/acknowledgements/session_ack.py SessionAck _refused",
    "packets of this node that the other end says it has refused": """
        session/congestion/undecided.py Undecided _packets _numbers
    """,
    "invitations; enrolments that have begun": """
        transport/enrolment.py EnrolmentServer _invitations _closed _pending _arrivals
        node/shell/enrolling.py Enrolling _invited
    """,
    "hosts whose calls get no answer": "queues/manager/callers.py Callers _rows",
    "lines of the log from one cause": "node/files/operator_log.py _Limit _windows",
    "events of the node that a program has not read": """
        node/shell/link_events.py Events _waiting
        queues/streams/ack_events.py AckEvents _fates _unread _blocks
    """,
    "ranges of packets that came out of order": """
        ordering/duplicates.py DuplicateFilter _skips
        ordering/incoming.py IncomingSequence _skips
        ordering/rejections.py Rejections refused
    """,
    "ranges of ended streams": "queues/streams/incoming_ends.py EndedStreams _durable _express",
    "origins of which ended streams are known": "queues/streams/incoming_ends.py EndedStreams _relays",
    "streams without a place": "queues/peers/peer_limits.py _KeptOut streams, StreamPlaces _kept_out",
    "nodes that a peer has proved to be": "queues/peers/history.py Peers _written needed",
    "nodes on which nothing on the disk depends": "queues/peers/history.py Peers _known",
    "peers that were suspended": "queues/peers/suspended_peers.py SuspendedPeers _by_node _accused detected",
    "histories of nodes behind relays": """
        queues/peers/relayed_histories.py RelayedHistories _words unwritten _accused detected
    """,
    "nodes that a peer has sealed messages for": "queues/streams/sealing.py Sealing _bound",
    "addresses that nodes have announced": "queues/peers/history.py Peers addresses",
    "secrets that two keys share": "transport/noise.py Seals _mac_keys",
    "large bodies whose message has not come": "queues/mailboxes/large_bodies.py Bodies by_id _of_queue _whole",
    "parts of a large body": "queues/mailboxes/large_bodies.py Part _spans, Body parts, Bodies left at_once dying",
    "what a search by id knows": "queues/mailboxes/lookup.py Lookup _by_id _by_correlation",
    "streams that have passed": """
        queues/transit/return_routes.py Back upstreams downstreams, LastBrought _by, ReturnRoutes backs
    """,
    "rejections that wait for a session": "queues/transit/return_routes.py Back rejected",
    "ends of streams that wait for their answer": "queues/transit/transit_ends.py TransitEnds _ends",
    "ended streams of which packets may still be on their way": "queues/streams/incoming_ends.py AwaitedEnds ends _by",
    "streams that end here": "queues/transit/relay_acks.py RelayAcks _ended",
    "packets that the next hop gave back": "ordering/transit.py TransitSequence _lacking",
    "ranges of packets that a synchronous link awaits": """
        ordering/onward.py Awaited _runs
        queues/sync_links.py SyncLinks awaited _by_link changed
    """,
    "destinations without a route": "queues/transit/transit_room.py TransitNews news _unknown _full",
    "requests about subscriptions that wait": "",
    "answers about subscriptions that a node does not take": "",
    "administration messages that a node does not take": """
        queues/manager/administration.py Administration _answering unnoted
    """,
    "topics whose subscriptions were looked up": "queues/topics/subscriber_cache.py SubscriberCache _found",
    "connections; the first call of one": "node/control/server.py ControlServer _tasks",
    "calls of one connection": "node/control/calls.py Calls _tasks",
    "readers; open transactions": """
        node/control/kept.py Kept _by _in_order _steps_of
        node/control/intake.py Producer _failures
    """,
    "messages that readers have": """
        node/control/kept.py Kept _messages _held _taken_back
        node/handles/in_flight.py Held _since, InFlight _older
        node/handles/message.py Messages _messages
        stats/holding.py Holding _by_queue
    """,
    "steps of one transaction": """
        node/control/kept.py Kept _steps
        node/handles/taken.py Taken _steps _since _queues, Bridged _steps _given
        node/handles/transaction.py Transaction _sends _leaving _uploads _state _expected _waiting
    """,
    "receipts; invitations; answers": "node/control/calls.py Calls _answered",
    "what a client's program keeps": """
        node/client/connection.py Connection _waiting _parts _taken_back
        node/client/client_consumer.py ClientConsumer _last, ClientSubscriber _about
        node/client/client_events.py Feed _unread
        node/client/client_receipts.py ClientReceipts _places
    """,
}

OTHERS = {
    "settings, keys and files of the operator": """
        node/config/config.py Sources environment arguments
        node/config/keys.py NodeTable queues
        node/config/layers.py Layers said _problems tables _first
        node/config/lines.py _Reader lines _tokens _lists
        node/files/private_files.py MemoryFiles _contents _versions _waiting
        node/files/tls_files.py TlsFiles _paths
        queues/mailboxes/local_queues.py LocalQueues windows _declared
        queues/node_settings.py Limits queue_quota queue_journal, NodeSettings queue_redelivery topics forwards
        node/config/bridge_table.py BridgeTable give take, Take _levels _names
        node/config/bridge_rules.py MessageKey _rules
        node/shell/engine_handle.py EngineHandle bridges
        node/forwarding.py Forwarding _running
        queues/pauses.py Pauses by_name
        queues/routes.py Routes _exact _by_via _patterns choices
        queues/ways.py Ways news
        queues/set_quotas.py SetQuotas by_name
        queues/sync_links.py SyncLinks _links
        transport/enrolment.py EnrolmentServer _pairs
        transport/noise.py Seals _own
        transport/secure.py SecureChannels _own
    """,
    "one entry for each constant: a reason, a priority, a kind of timer, a bound, a state, a family of addresses": """
        queues/histogram.py Histogram counts _bounds_ns
        queues/mailboxes/large_bodies.py Bodies _drops
        queues/mailboxes/priority_queue.py PriorityQueue by_rank _by_priority
        queues/mailboxes/local_queues.py LocalQueues dead_letters declined_letters
        queues/mailboxes/mailbox.py Mailbox lengths, Notices drops
        queues/manager/receiver.py Receiver drops
        queues/journals/journals.py Journals drops
        queues/peers/suspended_peers.py SuspendedPeers drops
        queues/remote/peer_subscriptions.py PeerSubscriptions drops
        queues/streams/sealing.py Sealing drops
        queues/transit/relay_acks.py RelayAcks drops
        queues/transit/return_routes.py ReturnRoutes drops
        queues/topics/contents.py OneLine by_rank
        queues/manager/administration.py Administration drops queued
        queues/manager/engine.py Engine drops
        queues/manager/recorder.py Recorder _drops
        queues/manager/session_event_router.py SessionEventRouter closes drops
        queues/manager/transmitter.py Transmitter acks
        queues/streams/outbox.py Outbox resends
        queues/streams/incoming_ends.py IncomingEnds drops
        queues/streams/owed_acks.py OwedAcks drops sent
        session/path/path_mtu.py PathMtu _sizes
        transport/endpoint.py Endpoint drops
        transport/fragmenting.py Fragmenting _options
        transport/udp.py UdpEndpoint _outgoing
        node/shell/engine_handle.py EngineHandle dropped
    """,
    "of a fixed size": """
        queues/schedule.py Schedule news _clocks _deadlines _timers
        queues/sync_links.py SyncLinks listeners
        queues/clock_jumps.py _Jump ends, ClockJumps _jumps
        transport/batched.py BatchedSocket _buffer
        transport/handshake_load.py Admission _hosts_ns
        transport/secure.py _Caller _attempts _choices
        transport/warm_channels.py WarmChannels _warm
        session/acknowledgements/probing.py Probing due
        queues/streams/transit_stream.py TransitStream purged
        queues/topics/subscription.py Records fields
        node/shell/alarm.py Alarm _timers
        node/shell/driver.py Driver _endpoints _inboxes _tasks
    """,
    "a deadline, or a mark of something that is in another container": """
        queues/deadlines.py Deadlines _at heap
        queues/mailboxes/expiry.py Expiry expired
        queues/mailboxes/mailbox.py Notices dirty wanting read purged returned taken settled left whole topical
        queues/peers/peer_limits.py QueuePlaces wanted, StreamPlaces freed
        queues/topics/topics.py Topics _stirred _going_on _opened _growing
        queues/transit/pending_dead_letters.py Ended entries
        queues/fetching.py Fetches _asked sources
    """,
    "emptied with each turn of the loop or each commit, which take a bounded burst": """
        queues/journals/journals.py Journals ready express news
        queues/mailboxes/incoming_run.py IncomingRun about bodies counts sent_at_ms receive_by_ms lefts_ms
        queues/mailboxes/mailbox.py Notices news
        queues/topics/topics.py Topics news
        queues/mailboxes/local_commit.py LocalCommit queued settled waiters
        queues/manager/receiver.py Burst payloads counters
        queues/manager/callers.py Callers news
        queues/manager/effects.py Send datagrams
        queues/manager/link_news.py News news
        queues/manager/recorder.py _Run counts
        queues/manager/transmitter.py Transmitter _batches leaving
        queues/peers/handshake.py Handshakes replies
        queues/peers/link.py Link _awake, Links awake
        queues/peers/resuming.py Resuming unwritten news
        queues/streams/dead_lettering.py DeadLettering waiting unnoted, DeadMessage entries
        queues/streams/group_commit.py GroupCommit started dead_lettered ending over bridged
        queues/streams/holds.py Holds news
        queues/streams/retirement.py Retirement news
        queues/sync_links.py SyncLinks news
        queues/packing.py _Packer packed _bodies _groups _written
        queues/topics/subscription.py Records _told
        queues/topics/topic_root.py Dispatch assigned discarded
        session/session.py Session events
        transport/turns.py Burst turns
    """,
    "a value that is made once, as long as what it was made of": """
        queues/manager/browse.py BrowsedMessage properties
        node/handles/queue_admin.py OnTheWay own passing
        queues/transit/transit_purge.py TransitPurge _ends
        queues/mailboxes/queued_packet.py QueuedPacket pieces keys
        queues/packing.py Unpacked bodies
        queues/peers/history.py History _ends
        queues/topics/topics.py Topics _rows
        queues/topics/subscription.py Subscription _restored
        ordering/wire.py OnwardAckPacket ranges
        session/protocol/events.py AckSent ranges, TransmitRun payloads packets
        session/protocol/events.py RunArrived contents, PacketsAcked packets told, PacketsStored packets
        session/protocol/frames.py PacketRun ack_requested contents, AckFrame ranges, StoreAckFrame ranges
        node/shell/prepared.py PreparedList bodies keys each
        stats/node_stats.py QueueStats holders by_priority, HistogramStats bounds_s counts
        stats/node_stats.py NodeStats queues outgoing links sessions drops closes rollbacks dead_letters holds transit
        stats/node_stats.py NodeStats topics subscriptions declined_letters admin_acks troubles acks tier_resends ways
        stats/node_stats.py NodeStats bridges
        stats/troubles.py BridgeStats refusals
        stats/stream_stats.py StreamsStats outgoing incoming transit
        stats/topic_stats.py TopicStats subscriptions
    """,
    "what this node sends, by its programs' calls, and to the peers that they or the operator name": """
        ordering/outgoing.py _Whole entries unacked, OutgoingSequence _dates
        queues/ack_latency.py AckLatency _streams
        queues/peers/dialer.py Dialer _away
        queues/peers/history.py Peers _met
        queues/peers/link.py Link streams, Links _away
        queues/peers/resuming.py Resuming gaps _holders _told
        queues/peers/suspended_peers.py SuspendedPeers _leading
        queues/peers/turns.py _Group streams, Turns groups
        queues/stages.py _Wait left, StageTracker _starts _entries _failed _waiting
        queues/manager/publish_windows.py PublishWindows full news closings
        queues/streams/accepted_keys.py AcceptedKeys _by_name _by_ordinal _by_stream _unpacked
        queues/streams/stream_records.py StreamRecords topics
        queues/streams/outbox.py Outbox _queues _by_number unpacked
        queues/streams/outgoing_stream.py OutgoingStream readers pending _blocks
        queues/streams/retirement.py Retirement _sequences _numbers _free _drained _torn _idle _pressed _crowded
        queues/streams/retirement.py Retirement _untimed _ended _relayed_ends _near
        queues/streams/sent_copies.py _Missing entries, SentCopies asking waiting
        session/acknowledgements/store_ack_waiter.py StoreAckWaiter packets
        session/congestion/send_window.py SendWindow _packets lost flying _sendings
    """,
    "what programs of this node hold, ask for and wait for": """
        node/forwarding.py _Forwarder _ahead
        node/client/client_transaction.py ClientTransaction _classes _state _expected _last
        node/control/intake.py Chunk lines
        node/handles/consuming.py Consuming _lanes _tasks _held _on_error, Handlers _running _declared
        node/handles/requesting.py Requests _open
        node/handles/streaming.py Upload _part _receipts
        node/shell/driver.py Driver _progress
        node/shell/accepting.py Accepting _outgoing
        node/shell/engine_handle.py EngineHandle _state _handlers _body_locks
        node/shell/enrolling.py Enrolling _calls _tasks
        node/shell/link_events.py EventFeed _readers
        node/sync/send_buffer.py _Run messages rows, SendBuffer _runs
        queues/mailboxes/mailbox.py Mailbox listeners
        queues/manager/closing.py Departure _asked
        queues/manager/pings.py Pings waiting
        queues/manager/watching.py Watching readers
        queues/remote/remote_subscriptions.py RemoteSubscription waiters, _Requests tickets
        queues/remote/remote_subscriptions.py RemoteSubscriptions subscriptions _requests _live _dropping _left _refused
    """,
    "of simulations and tests": "transport/memory.py MemoryNetwork _endpoints",
}
