"""The engine of a queue manager: sessions, sequences and queues put together.

Pure: a host owns clock, sockets and disk. Inputs are the calls of the application and ``handle_*``. After every input,
and when ``next_deadline`` has come, the host calls ``poll`` and carries out its effects one by one
(``triack.queues.manager.effects`` has their order).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, assert_never

from triack.base.clock import WallClock
from triack.base.commit import Commit, StoreContent
from triack.base.datagram import Channels
from triack.base.delivery import Delivery
from triack.base.errors import TriackError
from triack.base.peers import Directory
from triack.base.reasons import DropReason
from triack.base.units import MS
from triack.queues.clock_jumps import ClockJumps
from triack.queues.fetching import Fetch
from triack.queues.journals.journals import Journals
from triack.queues.mailboxes.leases import Leases
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Lease, Mailbox, QueuedPacket, Run
from triack.queues.mailboxes.quotas import Payer
from triack.queues.mailboxes.redelivery import Return
from triack.queues.mailboxes.resolver import LocalQueue, RemoteQueue, Resolver, Target
from triack.queues.mailboxes.system_queues import SystemQueue
from triack.queues.manager.administration import Administration
from triack.queues.manager.callers import Callers
from triack.queues.manager.effects import Effect, Job, Send, StartJob, Tell, TellRollback, WriteRecords
from triack.queues.manager.jobs import Jobs
from triack.queues.manager.link_news import News
from triack.queues.manager.operator_settings import OperatorSettings
from triack.queues.manager.pings import Pings
from triack.queues.manager.publish_windows import PublishWindows
from triack.queues.manager.receiver import Receiver
from triack.queues.manager.recorder import Recorder, start_record
from triack.queues.manager.session_event_router import SessionEventRouter
from triack.queues.manager.transmitter import Giving, Transmitter
from triack.queues.manager.watching import Watching
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings, synced_by
from triack.queues.peers.handshake import Handshakes
from triack.queues.peers.link import Conversation, Links
from triack.queues.peers.origins import Origins
from triack.queues.peers.permissions import Permissions
from triack.queues.peers.session_settings import session_settings, traits_of
from triack.queues.remote.peer_subscriptions import PeerSubscriptions
from triack.queues.remote.remote_api import RemoteApi
from triack.queues.remote.remote_subscriptions import RemoteSubscriptions
from triack.queues.routes import BY_HAND, Route, Routes
from triack.queues.schedule import Phase, Schedule
from triack.queues.stages import Stage, Waiter
from triack.queues.streams.accepted_keys import Accepted
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.inbox import Inbox
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream, Row
from triack.queues.streams.sealing import Sealing
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.sync_links import SyncLinks
from triack.queues.topics.topics import Topics
from triack.queues.transit.packet_classifier import PacketClassifier
from triack.queues.transit.pending_dead_letters import PendingDeadLetters
from triack.queues.transit.relay_acks import RelayAcks
from triack.queues.transit.return_routes import ReturnRoutes
from triack.queues.transit.transit_purge import TransitPurge
from triack.queues.transit.transits import Transits
from triack.queues.ways import Ways
from triack.session.protocol.codec import content_limit_bytes
from triack.session.protocol.states import CloseReason

if TYPE_CHECKING:
    from random import Random


class Engine(OperatorSettings):
    """One queue manager without its I/O.

    Args:
        content: what the store had at the start.
        address: where the node listens, empty when it does not.
        queues: the only queues there are, or None to create them on arrival.
        channels: makes the channels that protect datagrams.
        random: for ids and jitter.
        now_ns: the monotonic clock.
        wall_offset_ns: wall clock minus monotonic clock.
        announced: the address that it tells peers, if not ``address``; empty for none.
        boot: names this boot of the machine, during which files lose nothing that was written; empty if unknown.
        routes: the way to nodes with which this one holds no session.

    Attributes:
        node_id: 16 bytes that name this node permanently.
        failure: the error that ended the store, or None.
        callers: those that call this node and get no answer.
        receiver: takes the datagrams that come.
        draining: whether the node is closing, or at rest, and accepts nothing new.
        watching: readers of acknowledgement events.
        routes: the way to each destination; change them with ``set_routes``.
        transits: the streams of other nodes that pass through this one.
        remote: subscriptions of other nodes to topics of this one, and of this node to theirs.
    """

    def __init__(
        self,
        content: StoreContent,
        *,
        name: str,
        address: str,
        settings: NodeSettings,
        queues: list[str] | None,
        channels: Channels,
        directory: Directory,
        random: "Random",
        now_ns: int,
        wall_offset_ns: int,
        recording: bool,
        announced: str | None = None,
        boot: str = "",
        routes: Iterable[Route] = (),
    ) -> None:
        self.node_id = content.node_id
        self.settings = settings
        self.drops: Counter[DropReason] = Counter()
        self.failure: TriackError | None = None
        self.draining, self.watching = False, Watching()
        self._directory = directory
        self.routes = Routes(directory, routes)
        self._origins = Origins()
        self.resolver = Resolver(directory, address)
        self.wall = WallClock(wall_offset_ns)
        self._recorder = Recorder(content.node_id, content.incarnation, wall_offset_ns, now_ns) if recording else None
        self._note_start({"name": name, **start_record(address, settings)}, content.records, boot, now_ns)
        self._schedule = Schedule()
        self.queues = LocalQueues(
            settings, queues, self.wall, self.drops, self._record, self._payer_of, words=content.leases
        )
        self.inbox = self._make_inbox(channels)
        self.outbox = self._make_outbox(content, random, now_ns)
        self.publish_windows = PublishWindows(settings.publish_window, self.outbox)
        said = address if announced is None else announced
        self.handshakes = self._make_handshakes(content, name, said, channels, random)
        self.routes.has_met = self.handshakes.peers.has_met
        self.inbox.order_acks.history = self.handshakes.history
        self.news = News(self.handshakes.index.at)
        self.callers, self.pings = Callers(directory), Pings(self.wall, random)
        self.transits = self._make_transits(name)
        self.administration = self._make_administration()
        self.journals = Journals(self.queues, self._is_store_low, self.drops, self._record)
        self.outbox.copies.keep = self.journals.keep_sent
        self.topics = Topics(settings, self.queues, self.drops, self._record)
        self.topics.pack = self._pack
        self.jobs = Jobs(
            self._schedule,
            self.wall,
            self.handshakes.number,
            synced=synced_by(settings),
            recorder=self._recorder,
        )
        self.remote = self._make_remote(content)
        self.inbox.on_refused = self.remote.handle_refused
        self._router = self._make_router()
        self._transmitter = self._make_transmitter()
        self.receiver = Receiver(
            *(self.jobs.turn, self.handshakes, self.callers, self.pings, self.drops),
            *(self._report, self._close, self._is_open),
        )
        self.inbox.route = self._transmitter.route
        self._register()
        self._restore(content, now_ns)

    def _register(self) -> None:
        """Let each room register its work. Those of one phase have their turns in this order."""
        sync_links = self.outbox.sync_links
        sync_links.listeners += (self.outbox.handle_link_mode, self.transits.handle_link_mode)
        for room in (
            *(self._transmitter, self.administration, self.inbox, self.queues, self.topics, self.remote),
            *(self.outbox, self.transits, self.journals, sync_links, self.ways, self.watching, self.publish_windows),
        ):
            room.register(self._schedule)
        self._schedule.tell(self.news.news, self.callers.news)

    def _make_handshakes(
        self, content: StoreContent, name: str, address: str, channels: Channels, random: "Random"
    ) -> Handshakes:
        return Handshakes(
            content,
            name=name,
            address=address,
            settings=self.settings,
            channels=channels,
            directory=self._directory,
            random=random,
            links=self.outbox.links,
            on_served=self.outbox.handle_session_opened,
            give_up=self.outbox.give_up,
            positions=self.inbox.positions.tell,
            drops=self.drops,
            record=self._record,
            report=self._report,
        )

    def _make_router(self) -> SessionEventRouter:
        return SessionEventRouter(
            self.node_id,
            inbox=self.inbox,
            outbox=self.outbox,
            transits=self.transits,
            handshakes=self.handshakes,
            jobs=self.jobs,
            news=self.news,
            drops=self.drops,
            recorder=self._recorder,
            record=self._record,
            on_opened=self._handle_opened,
        )

    def _handle_opened(self, neighbour: str, now_ns: int, *, is_first: bool) -> None:
        """A session with a neighbour is open; from a peer's first one on, messages for it need no relay."""
        if is_first and self.routes.all:
            self._handle_routes_changed(now_ns)
        self.remote.own.handle_session_opened(neighbour)

    def _make_remote(self, content: StoreContent) -> RemoteApi:
        return RemoteApi(
            PeerSubscriptions(
                self.settings,
                self.topics,
                self.queues,
                self.outbox,
                self._directory,
                draw=self.draw_runs,
                conversations=self.handshakes.index,
                proved_of=self._proved_of,
                keyless=self.handshakes.channels.seals is None,
                drops=self.drops,
                node_id=self.node_id,
            ),
            RemoteSubscriptions(
                self.queues,
                self.outbox,
                content.incarnation,
                recheck=self.inbox.handle_directory_changed,
                routes=self.routes,
            ),
            name_of=self.name_of,
            way_back=self._way_back,
            commit=self._commit,
            is_open=self._is_open,
        )

    def _is_open(self) -> bool:
        """Whether this node says anything of its own."""
        return not self.draining and self.failure is None

    def _proved_of(self, node_id: bytes, sealed: bool) -> str:
        return self._owner_of(node_id) or (self.inbox.sealing.sealer_of(node_id) if sealed else "")

    def _way_back(self, node_id: bytes, stream: int) -> str:
        """The name by which messages go to a subscriber: if it asks by a relay, the one that the relay gives it.

        A session that it had before may have ended silently. Where a route says how to reach it, that counts. The name
        is empty for this node, and for one whose name leads to another node with another key: what one of them asks
        would be answered to the other.
        """
        owner, brought = self._owner_of(node_id), self._origins.of(node_id)
        by_relay = self.inbox.relay_of(node_id, stream) or self.handshakes.index.open_with(owner) is None
        if owner and brought is not None and by_relay and self.routes.way_of(owner).is_direct:
            return brought.name
        return "" if self._is_shared(node_id) else self.name_of(node_id)

    def _is_shared(self, node_id: bytes) -> bool:
        """Whether the session of its peer's name is with another node, which has another key."""
        link = self.outbox.links.get(self._owner_of(node_id))
        there = None if link is None else link.conversation
        if there is None or not there.is_open or there.peer_id == node_id:
            return False
        return self.handshakes.peers.key_of(node_id) not in (b"", there.channel.peer_key)

    def _make_inbox(self, channels: Channels) -> Inbox:
        named = self._payer_of, self._owner_of, self._origins
        permissions = Permissions(self.node_id, self._directory, *named, keyless=channels.seals is None)
        return Inbox(
            self.settings,
            self.queues,
            self.wall,
            self.drops,
            self._record,
            permissions=permissions,
            sealing=Sealing(
                self.node_id,
                channels.seals,
                directory=self._directory,
                routes=self.routes,
                owner_of=self._owner_of,
                drops=self.drops,
                record=self._record,
            ),
        )

    def _make_outbox(self, content: StoreContent, random: "Random", now_ns: int) -> Outbox:
        lowest_share = self.settings.lowest_priority_share
        links = Links(self.settings.reconnect, random, calls=not self.resolver.address, lowest_share=lowest_share)
        called = links.contact_of, links.call, links.ask
        links.ways = Ways(self.routes, *called, self._handle_routes_changed, self._is_open)
        return Outbox(
            content.node_id,
            content.incarnation,
            self.settings,
            content_bytes=self._content_bytes,
            wall=self.wall,
            queues=self.queues,
            has_room=self.inbox.has_room,
            links=links,
            routes=self.routes,
            sync_links=SyncLinks(self.routes, self._record, now_ns),
            sealing=self.inbox.sealing,
            record=self._record,
        )

    def _make_transits(self, name: str) -> Transits:
        records, admission = StreamRecords(self._record), self.inbox.admission
        open_with = self.handshakes.index.open_with
        return Transits(
            self.settings,
            door=PacketClassifier(self.node_id, name, self._directory, self.routes, admission.permissions),
            admission=admission,
            links=self.outbox.links,
            returns=ReturnRoutes(self.node_id, open_with, records, self.drops),
            words=RelayAcks(open_with, self.routes.onward_interval_ns, records, self.drops),
            sync_links=self.outbox.sync_links,
            letters=PendingDeadLetters(self.queues.put_dead_letter, self.drops),
            wall=self.wall,
            pauses=self.queues.pauses,
        )

    def _is_store_low(self) -> bool:
        return self.inbox.admission.disk_room.is_low

    def _commit(self) -> Commit:
        return self.jobs.group.commit

    def _make_administration(self) -> Administration:
        administration = Administration(
            self.node_id,
            self.outbox,
            self.queues,
            self.routes,
            self._directory,
            name_of=self.name_of,
            commit=self._commit,
            drops=self.drops,
            record=self._record,
        )
        self.queues.tell = self.outbox.dead_lettering.tell = self.transits.letters.tell = administration.tell
        self.outbox.note_asked = administration.note_asked
        return administration

    def _pack(self) -> None:
        """Make packets of all that was accepted until now, those of durable classes in the next commit."""
        self.outbox.pack_express(self.jobs.group)
        self.outbox.pack_durable(self.jobs.group)

    def _make_transmitter(self) -> Transmitter:
        return Transmitter(
            self.handshakes,
            self.outbox,
            self.transits,
            self.news,
            report=self._report,
            recorder=self._recorder,
            pings=self.pings,
            wall=self.wall,
        )

    def _note_start(self, about: dict[str, Any], records: int, boot: str, now_ns: int) -> None:
        """Begin the log with this start, and with what is known of the log of the one before."""
        self._record("node_started", now_ns, **about)
        self._record("start_before", now_ns, records=records, **({"boot": boot} if boot else {}))

    def _payer_of(self, node_id: bytes) -> Payer:
        owner = self.handshakes.peers.owner(node_id)
        brought = None if owner else self._origins.of(node_id)
        return owner or (node_id if brought is None else brought.via)

    def _owner_of(self, node_id: bytes) -> str:
        return self.handshakes.peers.owner(node_id)

    def _restore(self, content: StoreContent, now_ns: int) -> None:
        jumps = ClockJumps(content.jump)
        jumps.restore(content.state, content.streams, self.jobs.group.commit)
        self._schedule.handle_restored(content, self.jobs.turn(now_ns), jumps)
        self.outbox.links.keep_touch(self._directory)

    # ---- the application

    @property
    def leases(self) -> Leases:
        """The notes of the leased messages."""
        return self.queues.leases

    def name_of(self, node_id: bytes) -> str:
        """The name of a node in destinations; empty for this node."""
        if node_id == self.node_id:
            return ""
        brought = None if self._owner_of(node_id) else self._origins.of(node_id)
        if brought is None:
            return self.handshakes.reach.name_of(node_id)
        # A name that a key has proved outranks what a relay says.
        sealer = self.inbox.sealing.sealer_of(node_id)
        return f"{sealer}{BY_HAND}{brought.via}" if sealer else brought.name

    def set_routes(self, routes: Iterable[Route], now_ns: int) -> None:
        """Have these routes, and no others: what has not arrived yet uses them from now on."""
        self.jobs.turn(now_ns)
        self.routes.replace(routes)
        self.ways.handle_routes_changed()
        self._handle_routes_changed(now_ns)

    @property
    def ways(self) -> Ways:
        """Which neighbours are in use of routes that have several."""
        return self.outbox.links.ways

    def _handle_routes_changed(self, now_ns: int) -> None:
        self.outbox.handle_routes_changed(self.jobs.turn(now_ns))
        self.transits.handle_routes_changed(now_ns)
        self.remote.own.handle_routes_changed()

    def purge_transit(self, purge: TransitPurge, now_ns: int) -> int:
        """Remove the next portion of what waits here for a node. Returns the number of messages."""
        return purge.step(self.jobs.turn(now_ns))

    def outgoing_stream(
        self, where: str, queue: str, delivery: Delivery, priority: int | None = None, *, seal: bool = False
    ) -> OutgoingStream:
        """The outgoing stream to a queue; ``where`` is a peer's name or an address, empty for a queue of this node."""
        return self.outgoing_to(self.resolver.resolve(where, queue), delivery, priority, seal=seal)

    def outgoing_to(
        self, target: Target, delivery: Delivery, priority: int | None = None, *, seal: bool = False
    ) -> OutgoingStream:
        """The outgoing stream to a resolved target; with ``seal``, one whose packets leave sealed in any case."""
        commit = self.jobs.group.commit
        match target:
            case RemoteQueue(peer, queue):
                return self.outbox.outgoing_stream(peer, queue, delivery, commit, priority, seal)
            case LocalQueue() | SystemQueue():
                return self.outbox.outgoing_stream("", target.name, delivery, commit, priority)
            case _:
                assert_never(target)

    def current(self, outgoing: OutgoingStream) -> OutgoingStream:
        """The outgoing stream with this one's destination, for callers that have kept this one for a while."""
        return self.outbox.current(outgoing, self.jobs.group.commit)

    def submit(self, outgoing: OutgoingStream, message: bytes | Outgoing, size_bytes: int) -> int:
        """Accept a message. Messages submitted between two calls of ``poll`` are committed together."""
        ticket = self.outbox.submit(outgoing, message, size_bytes)
        self.publish_windows.handle_submitted(outgoing, 1)
        return ticket

    def take_ordinal(self) -> int:
        """The ordinal of a large message."""
        return self.outbox.take_ordinal()

    def give_up_body(self, parts: OutgoingStream, ordinal: int) -> None:
        """Send no more of a large body, and let its destination free it; ``parts`` is the stream of its parts."""
        self.outbox.give_up_upload(self.current(parts), ordinal)

    def submit_many(self, outgoing: OutgoingStream, messages: list[bytes | Outgoing], size_bytes: int) -> list[Row]:
        """Accept messages, in order, as one."""
        rows = self.outbox.submit_many(outgoing, messages, size_bytes)
        self.publish_windows.handle_submitted(outgoing, sum([row.messages for row in rows]))
        return rows

    def submit_once(self, outgoing: OutgoingStream, message: Outgoing, size_bytes: int, now_ns: int) -> Accepted:
        """Accept a message with a key, or return the one that was accepted with the key before."""
        before = outgoing.submitted
        accepted = self.outbox.submit_once(outgoing, message, size_bytes, self.wall.ms(now_ns), self.jobs.group.commit)
        self.publish_windows.handle_submitted(outgoing, outgoing.submitted - before)
        return accepted

    def await_stage(self, outgoing: OutgoingStream, ticket: int, stage: Stage, waiter: Waiter) -> None:
        """Call ``waiter`` when a message reaches a stage; request the acks of packets in flight."""
        entries = outgoing.stages.wait(ticket, stage, waiter)
        link = self.outbox.links.get(outgoing.via)
        if stage is Stage.QUEUED or link is None or link.conversation is None:
            return
        if entries and any(entry.sends for entry in entries):
            link.conversation.session.ping()
            link.conversation.wake()

    def await_commit(self, waiter: Any, *, transacted: bool = False) -> None:
        """Call ``waiter`` with None when everything requested so far is durable, or with the store's error.

        ``transacted``: a transaction is in it.
        """
        group = self.jobs.group
        group.waiters.append(waiter)
        group.transacted = group.transacted or transacted

    def note_bridge(self, event: str, now_ns: int, **fields: Any) -> None:
        """Log what a bridge says of itself, behind what was handed out before."""
        if self._recorder is not None:
            self._schedule.run(Phase.NOTE, self.jobs.turn(now_ns))
            self._record(event, now_ns, **fields)

    def fetch(self, fetch: Fetch) -> None:
        """Fetch bodies for a caller."""
        self.jobs.fetches.ask(fetch)

    def set_state(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application with the next commit; None removes it."""
        self.jobs.group.commit.state[key] = value

    def make_queue(self, name: str) -> Mailbox:
        """The queue of that name."""
        return self.queues.make_queue(name, self.jobs.group.commit)

    def open_run(self, mailbox: Mailbox, now_ns: int) -> Run | None:
        """The next messages of a queue that have not expired, to be drawn one by one.

        Returns a run from which at least one message can be drawn. None when there is none, or its body is still being
        read from the disk; the queue notifies its listeners when to ask again.
        """
        notices, now_ms = self.queues.notices, self.wall.ms(now_ns)
        while not notices.settles and (run := mailbox.open_run(now_ms)) is not None:
            if run.packet.receive_by_ms and run.packet.has_expired(now_ms):
                self.queues.expiry.expire(mailbox, [run.packet])
                continue
            reason = self.queues.why_dead(mailbox, run)
            if reason is None:
                if not run.first and not run.redelivered:
                    self.queues.waits.observe((now_ms - run.packet.sent_at_ms) * MS, run.packet.count)
                return run
            self.queues.dead_letter(mailbox, run.lease(run.draw()), reason, self.jobs.turn(now_ns))
        return None

    def draw_runs(self, mailbox: Mailbox, most: int, most_bytes: int, now_ns: int) -> list[tuple[Run, range]]:
        """Hand out the next messages of a queue, ``most`` at most; see ``open_run``.

        Once the drawn messages have ``most_bytes``, no further run is begun. Returns the runs, and the indices drawn
        from each; fewer than ``most`` when there are no more now.
        """
        drawn: list[tuple[Run, range]] = []
        if not self.queues.notices.settles:
            runs, most_bytes = mailbox.open_whole(most, most_bytes)
            for sent_at_ms, alike in groupby(runs, key=_SENT_AT):
                drawn += (together := [(run, range(run.end)) for run in alike])
                most -= (messages := sum([run.end for run, _ in together]))
                self.queues.waits.observe((self.wall.ms(now_ns) - sent_at_ms) * MS, messages)
        while most > 0 and most_bytes > 0 and (run := self.open_run(mailbox, now_ns)) is not None:
            killed = bool(mailbox.reader.setbacks.deaths) and run.killed
            if killed and drawn:
                break
            # A message that may have killed its reader is handed out alone, so that no others count as killed with it.
            indices = run.draw_many(most)
            drawn.append((run, indices))
            most = 0 if killed else most - len(indices)
            most_bytes -= run.size_of(indices)
        return drawn

    def choose(self, mailbox: Mailbox, place: int, pieces: Sequence[bytes], now_ns: int) -> Run | None:
        """Hand out one message, whatever waits before it; see ``Mailbox.choose``."""
        run = None if self.queues.notices.settles else mailbox.choose(place, pieces, self.wall.ms(now_ns))
        reason = None if run is None else self.queues.why_dead(mailbox, run)
        if run is not None and reason is not None:
            self.queues.dead_letter(mailbox, run.lease(run.first), reason, self.jobs.turn(now_ns))
            return None
        return run

    def take(self, mailbox: Mailbox, now_ns: int) -> Lease | None:
        """The next message of a queue, for readers of single messages; see ``open_run``."""
        run = self.open_run(mailbox, now_ns)
        if run is None:
            return None
        lease = run.lease(run.draw())
        self.leases.hold([(lease.packet, 1 << lease.index)])
        return lease

    def acknowledge(self, mailbox: Mailbox, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages of packets are done, message i if bit i is set; durable with the next commit.

        The acknowledgement survives the process immediately if everything requested before is on the disk. Otherwise it
        must not: a crash might lose what the handler has sent, while the message that it handled would not be
        redelivered.
        """
        queues = self.queues
        queues.note_read(mailbox, done)
        notes = queues.leases
        if notes.words is not None:
            # The answer to a message must be as durable as what it reports.
            notes.settle(done, not (self.outbox.unpacked or queues.untold or self.jobs.adds_any))
        mailbox.acknowledge_many(done)

    def give_back(self, mailbox: Mailbox, lease: Lease, way: Return, now_ns: int) -> None:
        """A message was not processed: redeliver it, or dead-letter it when it has failed too often."""
        self.queues.give_back(mailbox, lease, way, self.jobs.turn(now_ns))

    # ---- the network

    def handle_datagram(self, data: bytes, sender: str, now_ns: int) -> None:
        """Handle a datagram from an address. A bad one is dropped and counted by its reason."""
        self.handle_datagrams([data], sender, now_ns)

    def handle_datagrams(self, burst: list[bytes], sender: str, now_ns: int) -> None:
        """Handle datagrams that came together from an address, in order, with less work than one by one."""
        self.receiver.handle_datagrams(burst, sender, now_ns)

    def handle_path_lost(self, address: str, now_ns: int) -> None:
        """The transport says that an address cannot be reached any more."""
        self.jobs.turn(now_ns)
        for conversation in self.handshakes.index.at(address):
            self._close(conversation, CloseReason.PATH_LOST)

    def handle_directory_changed(self, now_ns: int) -> None:
        """The directory has changed: sessions of peers that are no longer trusted end with the next ``poll``."""
        self.jobs.turn(now_ns)
        for node_id in self.handshakes.peers.handle_directory(self._directory):
            self.inbox.admission.handle_proved(node_id)
        self.inbox.handle_directory_changed()
        self._handle_routes_changed(now_ns)
        self.remote.handle_directory_changed()
        self.callers.handle_directory_changed()
        self.handshakes.handle_directory_changed(now_ns)

    def handle_settings(self, settings: NodeSettings) -> None:
        """Apply settings of which only quotas, the reserve of the disk and the waits of failed messages differ."""
        self.settings = settings
        self.queues.handle_settings(settings)
        self.topics.handle_settings(settings)
        self.remote.of_peers.settings = settings
        self.inbox.handle_settings(settings)

    def _report(self, conversation: Conversation) -> None:
        if conversation.session.events:
            self.jobs.stirred = True
            self._router.take(conversation, self.jobs.group)

    def _close(self, conversation: Conversation, reason: CloseReason) -> None:
        conversation.session.close(reason)
        conversation.wake()
        self._report(conversation)

    def _content_bytes(self, peer: str, in_force_bytes: int | None) -> int:
        """The largest content that fits a datagram to a peer, at its address or, without a session, all its addresses.

        That of UDP when its address is unknown.
        """
        if in_force_bytes is None:
            in_force_bytes = min(
                min(traits_of(address).base_bytes, session_settings(self.settings, address).max_datagram_bytes)
                for address in self.handshakes.reach.addresses_of(peer) or ("udp:",)
            )
        return content_limit_bytes(self.handshakes.codec, in_force_bytes, self.handshakes.channels.overhead_bytes)

    # ---- the clock

    def handle_timer(self, now_ns: int) -> None:
        """Run everything that is due."""
        self._schedule.handle_timer(self.jobs.turn(now_ns))

    def next_deadline(self) -> int | None:
        """When ``poll`` must be called at the latest, or None. The host is idle until then."""
        deadline_ns = self._schedule.soonest()
        if self.jobs.lazy_until_ns is not None and (lazy_ns := self.jobs.next_deadline()) is not None:
            deadline_ns = lazy_ns if deadline_ns is None or lazy_ns < deadline_ns else deadline_ns
        if self._recorder is not None:
            self._recorder.due_ns = deadline_ns
        return deadline_ns

    # ---- outputs

    def poll(self, now_ns: int) -> list[Effect]:
        """Advance the time, and return what is to be done now, in this order; see ``triack.queues.manager.effects``."""
        effects: list[Effect] = []
        jobs, schedule = self.jobs, self._schedule
        schedule.handle_timer(jobs.turn(now_ns))
        # The disk is slowest, so its job starts first.
        if jobs.running is None and (job := jobs.poll(at_once=self.draining)) is not None:
            self._start(job, effects, now_ns)
        jobs.stirred = False
        is_more = schedule.run(Phase.PACK_EXPRESS, jobs.group, Phase.WATCH)
        if self.queues.notices.topical:
            # Express messages may have entered topics meanwhile, and continue.
            if self.remote.dispatch(jobs.group):
                is_more = schedule.run(Phase.PACK_EXPRESS, jobs.group, Phase.SEND) or is_more
            schedule.run(Phase.NOTE, jobs.group, Phase.WATCH)
        if jobs.running is None and (is_more or jobs.stirred or self.outbox.wanting):
            if (job := jobs.poll(at_once=self.draining)) is not None:
                self._start(job, effects, now_ns)
            schedule.run(Phase.NOTE, jobs.group, Phase.WATCH)
        if self._recorder is not None and (data := self._recorder.take(self.drops, now_ns)):
            effects.append(WriteRecords(data))
        for news in schedule.news:
            if news:
                effects += map(Tell, news)
                news.clear()
        for finder in (self.handshakes.suspended, self.handshakes.told):
            if finder.detected:
                effects += map(TellRollback, finder.detected)
                finder.detected.clear()
        kept = self.handshakes.index.kept_connections
        vouches, releases = kept.take() if kept.changed else ((), ())
        effects += vouches
        effects += starmap(Send, self._transmitter.leaving)
        self._transmitter.leaving = []
        effects += releases
        return effects

    # ---- outputs: the disk

    def _start(self, job: Job, effects: list[Effect], now_ns: int) -> None:
        """Give the store a job; the session log has what the job changes before."""
        self.jobs.running = job
        if self._recorder is not None:
            self._schedule.run(Phase.NOTE, self.jobs.group)
            if data := self._recorder.take(self.drops, now_ns):
                effects.append(WriteRecords(data))
            if type(job) is GroupCommit:
                job.commit.records = self._recorder.lines.written
        effects.append(StartJob(job))

    def handle_done(self, job: Job, now_ns: int) -> None:
        """The store has done a job: if it is a commit, its content is durable."""
        self.jobs.turn(now_ns)
        if type(job) is GroupCommit:
            self.handshakes.history.handle_committed(job.commit)
        self.jobs.handle_done(job)

    def handle_store_failed(self, job: Job | None, error: TriackError, now_ns: int) -> None:
        """The store has failed: acknowledge nothing more, close every session, and notify all waiters."""
        self.jobs.turn(now_ns)
        self.failure = error
        self._transmitter.giving = Giving.NOTHING
        self._schedule.handle_failure(self._transmitter.deadlines)
        self.leases.handle_end()
        self.pings.fail(error)
        for conversation in list(self.handshakes.conversations.values()):
            self._close(conversation, CloseReason.STORE_FAILED)
        self.jobs.fail(job, error)
        for outgoing in self.outbox.streams:
            outgoing.stages.fail_all(str(error))
        self.watching.end()
        for mailbox in self.queues.mailboxes.values():
            mailbox.interrupt()

    @property
    def acks(self) -> Counter[tuple[str, str]]:
        """Acks that left: session, store and order acks, by trigger."""
        order = {("order", trigger): count for trigger, count in self.inbox.order_acks.sent.items()}
        return self._transmitter.acks + Counter(order)

    @property
    def closes(self) -> Counter[str]:
        """Sessions that ended, by reason."""
        return self._router.closes

    @property
    def rollbacks(self) -> dict[str, str]:
        """Suspended peers: node id in hex, and whose store was rolled back (own, peer, unknown)."""
        return self.handshakes.suspended.sides

    # ---- closing

    def rest(self) -> None:
        """Accept nothing new, and send nothing but answers."""
        self.draining = True
        if self.failure is None:
            self._transmitter.giving = Giving.ANSWERS

    def drain(self, now_ns: int) -> None:
        """Accept nothing new; let the sessions finish."""
        turn = self.jobs.turn(now_ns)
        self.rest()
        self.inbox.order_acks.request_all()
        self.inbox.send_order_acks(turn)
        for conversation in list(self.handshakes.conversations.values()):
            self._transmitter.fill(conversation, now_ns)
            conversation.session.drain(now_ns)
            conversation.wake()
            self._report(conversation)

    @property
    def is_behind(self) -> bool:
        """Whether half of one peer's memory share waits for the disk: more packets would soon be refused and resent."""
        return self.queues.waiting.total_bytes >= self.settings.limits.peer_memory_bytes // 8

    @property
    def busy_storing(self) -> bool:
        """Whether anything accepted is not yet durable."""
        return self.jobs.busy or bool(self.outbox.unpacked)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do for a node that drains."""
        return not self.handshakes.conversations and not self.busy_storing

    def stop(self, error: TriackError, now_ns: int) -> None:
        """Close what is left. One more ``poll`` must follow: a store that is free then begins its last commit.

        If the store is busy, that commit never happens, and its waiters get the error.
        """
        self.jobs.turn(now_ns)
        self.leases.handle_end()
        self.pings.fail(error)
        self.jobs.interrupt(error)
        for conversation in list(self.handshakes.conversations.values()):
            self._close(conversation, CloseReason.LOCAL_STOP)

    def finish(self, now_ns: int) -> bytes:
        """The last records of the session log, after the store is closed and the last poll."""
        self._schedule.run(Phase.NOTE, self.jobs.turn(now_ns))
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return b""
        recorder.add_drops(self.drops, now_ns)
        recorder.add("node_stopped", now_ns)
        return recorder.take(self.drops, now_ns)


_SENT_AT = attrgetter("packet.sent_at_ms")
