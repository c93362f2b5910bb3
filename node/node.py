"""A queue manager for asyncio: the public face of Triack."""

import asyncio
import atexit
import os
import random
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from triack.base.checks import check_kind, check_texts
from triack.base.clock import ClockJump, ClockReading, find_jump, in_words
from triack.base.commit import StoreContent
from triack.base.datagram import Channels
from triack.base.errors import NodeClosed, StoreDamaged, StoreError, TriackError, UsageError
from triack.base.names import check_name, check_queue
from triack.base.units import SECOND, in_ns
from triack.node.control import handover
from triack.node.control.control_frames import DOORS
from triack.node.control.server import ControlServer
from triack.node.files import operator_log
from triack.node.files.access import DEFAULT_SUITE, Access, Keyless, Secured
from triack.node.files.keys import IDENTITY_FILE, KeyKind, encode_key
from triack.node.files.log_file import Recorded
from triack.node.files.notes import read_signed_note
from triack.node.files.ownership import is_folder_of
from triack.node.files.tls_files import TlsFiles
from triack.node.forwarding import Forwarding
from triack.node.handles.consuming import Handlers
from triack.node.handles.requesting import Requests
from triack.node.handles.verbs import Reloaded, Verbs
from triack.node.shell.driver import Driver
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.holding import works_for
from triack.node.shell.life import Life, LifeEvent, LifeState
from triack.node.shell.log_keeper import keep_log
from triack.node.shell.platform import PLATFORM, Log, Platform
from triack.node.shell.worker import Worker
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import NodeSettings, synced_by
from triack.queues.routes import Route, check_routes
from triack.store.folder import STORE_FILE, as_folder, check_unused
from triack.store.runs import Reading
from triack.store.store import Store
from triack.transport.address import Address
from triack.transport.connection import Waits
from triack.transport.endpoint import Endpoint
from triack.transport.tcp import Tls
from triack.transport.udp import check_sockets

if TYPE_CHECKING:
    from triack.node.config.config import Config, Sources
    from triack.node.config.reload import Reload


class _Unsaid(Enum):
    """Stands for an argument that was not given, where None has a meaning."""

    UNSAID = "not given"


def open_node(
    name: str | None = None,
    *,
    data: str | Path | Literal[_Unsaid.UNSAID] | None = _Unsaid.UNSAID,
    listen: str | None = None,
    log: str | Path | None = None,
    insecure: bool | None = None,
    queues: Sequence[str] | None = None,
    peers: dict[str, str] | None = None,
    routes: Sequence[Route] = (),
    announce: str | None = None,
    suite: str | None = None,
    tls: Tls | None = None,
    settings: NodeSettings | None = None,
    config: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> "Node":
    """A node, to be started by ``async with`` or ``await node.start()``.

    ``name`` and ``data`` must be given, here or by ``config``.

    Args:
        name: a label for people, 1-124 letters, digits, ``.``, ``_``, ``-`` or ``$``.
        data: its data directory, made when it does not exist, and a key in it; None keeps everything in memory, the
            key as well, for tests.
        listen: ``udp://host:port``, ``tcp://host:port`` or ``memory://name``; port 0 takes a free one. None: it only
            connects.
        log: directory for the session log; None records nothing.
        insecure: True runs it without keys, and on loopback addresses only: it cannot authenticate peers.
        queues: the only queues it has; None makes a queue when the first message for it arrives.
        peers: addresses by name, for destinations like ``plant-b/orders``, besides the entries of ``triack trust`` and
            ``node.trust``; a node with keys needs the key from there.
        routes: by which peers messages for other nodes go (``Route``), in the order in which they are tried.
        announce: the address at which peers that it has connected to may find it, if it is not the one at which it
            listens; empty for none. Without it, a node that listens on all addresses of its machine announces none.
        suite: cipher and hash: ``25519_AESGCM_SHA256``, the default, or ``25519_ChaChaPoly_BLAKE2s``; the same at all
            peers.
        tls: TLS around ``tcp``, for networks that let nothing else through.
        settings: limits and timeouts.
        config: a file ``triack.toml`` with all of that. Arguments beat the environment variables ``TRIACK_*``, which
            beat the file. A node that was opened without ``config`` reads no variables.
        overrides: with ``config``, other keys of that file by their paths: ``{"session.max_unacked_packet": 128}``.

    Raises:
        AddressError: a name or address cannot be read.
        ConfigError: the file, or a variable, cannot be used; with every mistake, by line and key.
        NotLoopback: an insecure node would listen beyond loopback, or know a peer there.
        UsageError: there is no such suite, an argument is missing or of a wrong type, ``settings`` is given with
            ``config``, or ``tls.server`` is set without listening on ``tcp``.
    """
    given = _Arguments(name, data, listen, log, insecure, queues, peers, routes, announce, suite, tls, settings)
    if config is not None:
        return _open_by_file(config, given, overrides or {})
    if overrides is not None:
        raise UsageError("open: overrides are keys of a file, and config= names none")
    return _make(given)


open = open_node  # as users call it


@dataclass(frozen=True, slots=True)
class _Arguments:
    """Arguments of ``open_node``, as they were given."""

    name: str | None
    data: str | Path | Literal[_Unsaid.UNSAID] | None
    listen: str | None
    log: str | Path | None
    insecure: bool | None
    queues: Sequence[str] | None
    peers: Mapping[str, str] | None
    routes: Sequence[Route]
    announce: str | None
    suite: str | None
    tls: Tls | None
    settings: NodeSettings | None


def _make(given: _Arguments) -> "Node":
    """Check the arguments, and make the node; see ``open_node``."""
    name, data, tls = given.name, given.data, given.tls
    if name is None or data is _Unsaid.UNSAID:
        raise UsageError(f"open: {'a name' if name is None else 'data, a directory or None,'} is missing")
    name = check_name(name)
    check_kind(f"open {name}: peers", given.peers, dict | None)
    check_kind(f"open {name}: tls", tls, Tls | None)
    check_kind(f"open {name}: settings", given.settings, NodeSettings | None)
    known = {check_name(peer): str(Address.parse(address)) for peer, address in (given.peers or {}).items()}
    access = Keyless(name, known) if given.insecure else Secured(known, given.suite or DEFAULT_SUITE)
    listening = None if given.listen is None else Address.parse(given.listen, listening=True)
    if listening is not None:
        access.check_listening(listening)
    if tls is not None and tls.server is not None and (listening is None or listening.scheme != "tcp"):
        where = "does not listen" if listening is None else f"listens on {listening}"
        raise UsageError(f"open {name}: tls.server is for who listens on tcp, and the node {where}")
    queues, announce = given.queues, given.announce
    return Node(
        name,
        access,
        data=None if data is None else as_folder(f"open {name}: data", data),
        listen=listening,
        routes=check_routes(f"open {name}", given.routes),
        announce=str(Address.parse(announce)) if announce else announce,
        tls=tls,
        log=None if given.log is None else as_folder(f"open {name}: log", given.log),
        queues=None if queues is None else [*map(check_queue, check_texts(f"open {name}: queues", queues))],
        settings=given.settings or NodeSettings(),
    )


def _open_by_file(config: str | Path, given: _Arguments, overrides: Mapping[str, object]) -> "Node":
    from triack.node.config.config import sources_of  # noqa: PLC0415 - it costs as much as a third of Triack

    if given.settings is not None:
        raise UsageError("open: settings and config exclude each other; overrides= changes single keys of the file")
    said: dict[str, object] = {
        name: getattr(given, name) for name in ("name", "listen", "log", "insecure", "queues", "announce", "suite")
    }
    if given.data is not _Unsaid.UNSAID:
        said["data"] = "none" if given.data is None else as_folder("open: data", given.data).absolute()
    sources = sources_of(
        as_folder("open: config", config), said, given.peers or {}, check_routes("open", given.routes), overrides
    )
    return open_configured(sources, sources.read(), tls=given.tls)


def open_configured(sources: "Sources", config: "Config", *, tls: Tls | None = None) -> "Node":
    """A node by its configuration, which its ``reload`` reads again from the same sources. Raises as ``open_node``."""
    from triack.node.config.reload import Reload  # noqa: PLC0415 - as above

    it, peers, routes = config.node, dict(config.peers), config.routes
    if it.name is None or ("node", "data") not in config.said:
        missing = "node.name" if it.name is None else "node.data"
        raise UsageError(f"open: {missing} is missing: {sources.file or 'the configuration'} has none, nor an argument")
    if tls is None and any((it.tls_cert, it.tls_key, it.tls_ca)):
        tls = TlsFiles(*(None if file is None else Path(file) for file in (it.tls_cert, it.tls_key, it.tls_ca)))
    settings = config.settings
    given = (it.name, it.data, it.listen, it.log, it.insecure, it.queues, peers, routes, it.announce, it.suite)
    node = _make(_Arguments(*given, tls, settings))
    node._reload = Reload(sources, config)  # noqa: SLF001 - this makes it
    return node


_OPEN: "weakref.WeakSet[Node]" = weakref.WeakSet()
"""The nodes of this process that were started on the real machine."""


@atexit.register
def _tell_unclosed() -> None:
    for node in list(_OPEN):
        node._handle_exit()  # noqa: SLF001 - no verb


class Node(Verbs):
    """One queue manager. Make it with ``triack.open``.

    Each call raises NodeClosed before the start and after the end of the node, and StoreFailed after its store has
    failed.
    """

    def __init__(
        self,
        name: str,
        access: Access,
        *,
        data: Path | None,
        settings: NodeSettings,
        listen: Address | None = None,
        announce: str | None = None,
        tls: Tls | None = None,
        log: Path | None = None,
        queues: list[str] | None = None,
        routes: tuple[Route, ...] = (),
        at_rest: bool = False,
    ) -> None:
        self._routes = routes
        self.name = name
        self.settings = settings
        self._platform, self._doors = PLATFORM.get(), DOORS.get()
        self._data = data
        self._listen = listen
        self._log = log
        self._queues = queues
        self._announce = announce
        self._tls = tls
        self._access = access
        self._life = Life(name)
        self._at_rest = at_rest
        self._running = None
        self._asking = None
        self._control: ControlServer | None = None
        self._reading = Reading()
        self._closing: asyncio.Task[None] | None = None
        self._reload: Reload | None = None
        self._process = os.getpid()
        self._handling = Handlers(self, _never)
        self._forwarding = Forwarding(self, name)

    def __repr__(self) -> str:
        at = f" at {self.address}" if self._life.state is LifeState.OPEN and self.address else ""
        return f"<Node {self.name}{at}, {self._life.state.value}>"

    # ---- life

    async def start(self) -> Self:
        """Open the store and the endpoint. ``async with`` calls it.

        Returns:
            The node itself.

        Raises:
            UsageError: it was started before.
            StoreInUse: another process has the data directory. A command such as ``triack send`` that has it while
                no node runs gives way, and goes on through this node.
            StoreDamaged, StoreError, StoreFailed: the store cannot be used; the message names path and cause.
            IdentityError: its key or its peers cannot be read, or other users may read or write them.
            TransportError: it cannot listen on the address.
        """
        self._life.handle(LifeEvent.START)
        try:
            self._running = await self._open_at_last()
        except BaseException:
            self._life.handle(LifeEvent.GIVEN_UP)
            raise
        self._life.handle(LifeEvent.STARTED)
        if type(self._platform) is Platform and not self._at_rest:
            _OPEN.add(self)
        if not self._at_rest:
            assert self._asking is not None
            self._asking.resume()
            await self._forwarding.follow(self.settings.forwards)
        self._handling.start()
        return self

    async def _open_at_last(self) -> EngineHandle:
        """Open the node, after a command that has the directory has given way."""
        data, is_here_to_stay = self._data, not self._at_rest and handover.PASSING.get() is None
        if data is None or not is_here_to_stay or not self._platform.control_sockets:
            return await self._open()
        return await handover.open_claiming(data, self._open)

    async def _open(self) -> EngineHandle:
        platform = self._platform
        worker = platform.worker()
        check_sockets(self.settings.udp)  # at once, and not when the first datagram leaves
        async with AsyncExitStack() as opened:
            store, content = await self._open_store(opened, worker)
            endpoint = await self._open_endpoint(self._listen.scheme, self._listen) if self._listen else None
            if endpoint is not None:
                opened.push_async_callback(endpoint.close)
            channels = await self._open_channels(worker, endpoint, content)
            log = self._open_log(store, content.incarnation)
            if log is not None:
                opened.callback(log.close)
            try:
                settings = replace(self.settings, survives="nothing") if store.in_memory else self.settings
                # In the thread: a million messages take seconds, and a signal must end them.
                engine = await worker.start(
                    lambda: self._make_engine(content, channels, endpoint, settings, recording=log is not None)
                )
            except (KeyError, ValueError) as cause:
                raise StoreDamaged(f"open store {store.path}: {type(cause).__name__}: {cause}") from cause
            # The last await: a process that connects finds a node that is open.
            self._control = await self._open_control(endpoint)
            opened.pop_all()
        driver = Driver(self.name, engine, platform, worker, store, log, endpoint, open_endpoint=self._open_endpoint)
        driver.on_failure = self._life.fail
        port = EngineHandle(
            self.name,
            life=self._life,
            engine=engine,
            driver=driver,
            platform=platform,
            access=self._access,
            announced=self._announced(endpoint),
            fixed_queues=self._queues is not None,
            state=content.state,
        )
        # Without keys, the answering node knows the asking one only by the address in the request.
        address = self._announced(endpoint) if self._access.loopback_only else ""
        self._asking = Requests(port, driver, platform.entropy, engine.drops, address)
        self._access.watch(driver.start_task, driver.work, port.handle_directory_changed)
        if isinstance(self._tls, TlsFiles):
            driver.start_task(self._tls.watch(), "triack-tls")
        if log is not None and self._log is not None and settings.log_keep_s is not None and not self._at_rest:
            node, keep_s = content.node_id.hex(), settings.log_keep_s
            driver.start_task(keep_log(self._log, node, keep_s, platform.prune_log), "triack-log")
        platform.note_node(self.name, port.stats)
        return port

    async def _open_channels(self, worker: Worker, endpoint: Endpoint | None, content: StoreContent) -> Channels:
        platform, access = self._platform, self._access
        files = platform.open_files(self._data, self.name)
        if access.loopback_only:  # there is nothing to read
            return access.open(files, platform.entropy)
        platform.introduce(files, self.name, endpoint.address if endpoint is not None else "")
        lost, channels = await worker.start(
            lambda: (content.peers and files.read(IDENTITY_FILE) is None, access.open(files, platform.entropy))
        )
        if lost:
            why = "it has made one, and who trusts another key of it does not answer"
            operator_log.warning(f"node {self.name} has met other nodes and had no key: {why}", node=self.name)
        return channels

    async def _open_endpoint(self, scheme: str, listen: Address | None = None) -> Endpoint:
        return await self._platform.open_endpoint(
            scheme,
            None if listen is None else str(listen),
            loopback_only=self._access.loopback_only,
            tls=self._tls,
            waits=Waits(self.settings.session.connect_timeout_s, self.settings.session.longest_silence_s),
            udp=self.settings.udp,
        )

    async def _open_store(self, opened: AsyncExitStack, worker: Worker) -> tuple[Store, StoreContent]:
        platform, stores = self._platform, list[Store]()
        self._reading = Reading()
        survives, data = self.settings.survives, self._data
        if survives == "nothing" and data is not None:
            check_unused(data)
            data = None

        def open_and_load() -> StoreContent:
            # What was not synced may be torn anywhere after a loss of power; that is no damage then.
            torn = synced_by(self.settings) != (True, True)
            stores.append(platform.open_store(data, self.settings.limits.store_log_bytes, torn=torn))
            node_id, start = platform.entropy(16), int.from_bytes(platform.entropy(8)) >> 1
            return stores[0].load(node_id, start, self._reading)

        def close() -> None:
            for store in stores:
                store.close()

        # A call that is cancelled here must still close the store that the worker opens meanwhile.
        opened.callback(close)
        opened.callback(worker.close)
        opened.callback(self._reading.give_up)
        content = await worker.start(open_and_load)
        return stores[0], content

    def _open_log(self, store: Store, incarnation: int) -> Log | None:
        note_in = None if store.in_memory or self._at_rest else self._data
        try:
            return self._platform.open_log(self._log, self.name, incarnation, note_in)
        except StoreError as error:
            if not self._at_rest:
                raise
            operator_log.warning(f"{error}; what is done now is not in it", node=self.name)
            return None

    async def _open_control(self, endpoint: Endpoint | None) -> ControlServer | None:
        """Let other processes of this machine use the node, if they can find it: by its data directory."""
        if self._data is None or self._at_rest or not self._platform.control_sockets:
            return None
        address = "" if endpoint is None else endpoint.address
        control = ControlServer(self, self._data, address, self._doors)
        try:
            await control.start()
        except (OSError, TriackError) as error:
            operator_log.warning(f"other processes cannot use node {self.name}: {error}", node=self.name)
            return None
        return control

    def _make_engine(
        self,
        content: StoreContent,
        channels: Channels,
        endpoint: Endpoint | None,
        settings: NodeSettings,
        *,
        recording: bool,
    ) -> Engine:
        platform = self._platform
        now_ns = platform.monotonic_ns()
        reading = platform.read_clock()
        content.jump = find_jump(ClockReading.unpack(content.clock), reading)
        self._tell_clock(reading, content.jump)
        engine = Engine(
            content,
            name=self.name,
            address=endpoint.address if endpoint is not None else "",
            settings=settings,
            queues=self._queues,
            channels=channels,
            directory=self._access.directory,
            random=random.Random(platform.entropy(16)),
            now_ns=now_ns,
            wall_offset_ns=reading.system_ns - now_ns,
            recording=recording,
            announced=self._announced(endpoint),
            boot=platform.boot(),
            routes=self._routes,
        )
        if self._at_rest:
            engine.rest()
        engine.callers.describe_key = partial(encode_key, KeyKind.PUBLIC)
        return engine

    def _tell_clock(self, reading: ClockReading, jump: ClockJump | None) -> None:
        """Log that the clock was set since the last start, or that it was never set."""
        if jump is not None:
            how = f"set {'forward' if jump.by_ms > 0 else 'back'} by {in_words(abs(jump.by_ms))}"
            why = f"node {self.name}: the clock of this machine was {how} since the last start"
            then = "what messages and keys have left of their lives does not change"
            operator_log.warning(f"{why}; {then}", node=self.name, by_ms=jump.by_ms)
        if not reading.is_set:
            date = time.strftime("%Y-%m-%d", time.gmtime(reading.system_ns // SECOND))
            why = f"node {self.name}: the clock of this machine is not set, it shows {date}"
            then = "what it sends has that date until the clock is set and the node is started again"
            operator_log.warning(f"{why}; {then}", node=self.name)

    def _announced(self, endpoint: Endpoint | None) -> str:
        """The address that it announces to others; empty for none."""
        if self._announce is not None:
            return self._announce
        return "" if endpoint is None or self._listen is None or self._listen.is_wildcard else endpoint.address

    async def close(self) -> None:
        """Make everything accepted durable, send messages on their way, close.

        This waits for the disk, and for messages as long as they make progress, at most ``close_timeout_s``.
        Unacknowledged messages stay on the disk and go out when the node is opened again; messages that the disk has
        not taken by then are lost. One line of the log for operators gives their numbers and destinations. Every
        further call waits for the first one; if a call is cancelled, closing goes on by itself. A call in a handler of
        this node returns immediately, and the node closes when the handler has returned.
        """
        if self._running is None:
            return
        if self._closing is None:
            if self._life.is_alive:
                self._life.check_alive()  # in the right event loop
                self._life.handle(LifeEvent.CLOSE)
            self._closing = asyncio.create_task(self._close(self._running), name="triack-close")
        if not works_for(self):
            await asyncio.shield(self._closing)

    async def _close(self, port: EngineHandle) -> None:
        await self._handling.stop()
        await self._forwarding.follow({})
        if self._control is not None:
            await self._control.close()
        try:
            await port.close(in_ns(self.settings.close_timeout_s))
        finally:
            if self._life.is_alive:
                self._life.handle(LifeEvent.CLOSED)
            port.tell_everyone()
        await port.finish_handlers(in_ns(self.settings.close_timeout_s))

    def _handle_exit(self) -> None:
        """The program ends: a node that was not closed says on standard error, or in the log, what has not arrived."""
        if self._life.is_alive and self._running is not None and self._process == os.getpid():
            self._running.handle_exit()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._life.is_alive and kind is not None and issubclass(kind, Exception):
            self._port.fail_dropped()
        await self.close()

    async def _read_settings_again(self) -> Reloaded:
        port, reload = self._port, self._reload
        if reload is None or reload.sources.file is None:
            raise UsageError(f"reload node {self.name}: it was opened without a file of settings")
        reloaded = await reload.take_up(port)
        self.settings = reload.running.settings
        await self._forwarding.follow(self.settings.forwards)
        return reloaded

    @property
    def _port(self) -> EngineHandle:
        if self._running is None:
            raise NodeClosed(f"node {self.name} is not open: it was not started")
        return self._running


async def _never() -> bool:
    """A node that has ended is not back."""
    return False


def rows_read(node: Node) -> int:
    """How many rows of its store a node that starts has read, for those who wait: it grows until the node is open."""
    return node._reading.rows  # noqa: SLF001 - no verb


def on_reload(node: Node, call: "Callable[[Config], None]") -> None:
    """Have a call made after each reading of the settings; for the tools that serve a node with a configuration."""
    assert node._reload is not None, "it has one"  # noqa: SLF001 - no verb
    node._reload.on_change = call  # noqa: SLF001 - no verb


def port_of(node: Node) -> EngineHandle:
    """The port of a running node, for the tools that serve it. Raises NodeClosed before the start."""
    return node._port  # noqa: SLF001 - users see the verbs of ``Node``, tools ask here


_UNKNOWN = "node"
"""The name of a node whose name is unknown."""


def open_at_rest(data: str | Path) -> Node:
    """The node of a data directory that no process runs, started as any other. Raises UsageError: there is no store.

    It neither listens nor sends: messages in an outgoing queue go out when the node runs again. It goes on with the
    session log of the last start, if that is still in its place, so that a replay misses none of its starts.
    """
    folder = as_folder("open: data", data)
    if not (folder / STORE_FILE).exists():
        raise UsageError(f"there is no node in {folder}: it has no {STORE_FILE}")
    recorded = read_signed_note(folder, Recorded)
    name = _UNKNOWN if recorded is None else recorded[0].name
    log = None if recorded is None or not is_folder_of(Path(recorded[0].log), recorded[1]) else Path(recorded[0].log)
    return Node(
        name,
        Secured({}, DEFAULT_SUITE) if (folder / IDENTITY_FILE).exists() else Keyless(name, {}),
        data=folder,
        log=log,
        settings=NodeSettings(),
        at_rest=True,
    )
