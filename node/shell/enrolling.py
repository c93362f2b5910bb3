"""Both sides of enrolments at a node: see ``triack.transport.enrolment`` for the protocol.

Promise: a node that has proved that it knows a code is in the trust file, durably, before it is welcomed. The
operator's name for it takes precedence over its own, and no enrolment adds a key to a known peer. A failed attempt gets
no answer. Each wait ends: with the hour of the code, with the time that a call may take, or with the node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from triack.base.checks import check_timeout
from triack.base.datagram import Kind, read_header
from triack.base.errors import EnrolmentFailed, ProtocolError, TransportError, TriackError, UsageError, WaitTimeout
from triack.base.names import check_name
from triack.base.peers import Peer
from triack.base.reasons import DropReason
from triack.base.units import SECOND, in_ns
from triack.node.files import operator_log
from triack.node.files.access import Access, Secured
from triack.node.files.keys import KeyKind, encode_key
from triack.node.files.trust import TrustFile
from triack.node.shell.event_loop import end_tasks, settle
from triack.node.shell.platform import PLATFORM, Platform
from triack.transport.address import Address
from triack.transport.endpoint import Endpoint
from triack.transport.enrolment import LIFE_NS, Arrival, Enrolled, EnrolmentClient, EnrolmentServer
from triack.transport.invitation import Invitation, decode_code
from triack.transport.tcp import Tls

Change = Callable[[TrustFile], Peer]


@dataclass(frozen=True, slots=True)
class EnrolledPeer:
    """A peer that is trusted since an enrolment.

    Attributes:
        name: this node's name for it.
        key: its public key, as text.
        addresses: where it may be, the best first; none for a peer that only connects itself.
    """

    name: str
    key: str
    addresses: tuple[str, ...]


class OpenInvitation:
    """A one-time code that a node has given out, good for one hour; with ``node.invite``.

    Attributes:
        code: the code for the other node's operator; pass it on privately.
    """

    def __init__(self, code: str, withdraw: Callable[[], None]) -> None:
        self.code = code
        self._withdraw = withdraw
        self._end: asyncio.Future[EnrolledPeer] = asyncio.get_running_loop().create_future()

    async def enrolled(self, timeout: float | None = None) -> EnrolledPeer:
        """Wait until a node has come with the code, and is trusted.

        Args:
            timeout: seconds to wait, None for as long as the code is good.

        Raises:
            WaitTimeout: no node came in that time; the code is still good.
            EnrolmentFailed: the code has expired or was withdrawn; or the node that came cannot be trusted, and the
                code is used up.
            NodeClosed, StoreFailed: the node has ended.
        """
        check_timeout("wait for an enrolment", timeout)
        try:
            async with asyncio.timeout(timeout):  # not ``wait_for``: see ``Receipt``
                return await asyncio.shield(self._end)
        except TimeoutError:
            raise WaitTimeout(f"no node came with the code within {timeout} s") from None

    def withdraw(self) -> None:
        """Make the code invalid; does nothing if it is already used."""
        self._withdraw()

    def _finish(self, end: EnrolledPeer | TriackError) -> None:
        settle(self._end, end)
        self._end.exception()  # there may be no waiter left

    def __repr__(self) -> str:
        return "<OpenInvitation>"


@dataclass(slots=True)
class _Invited:
    opened: OpenInvitation
    name: str | None
    may_send: tuple[str, ...] | None
    expiry: asyncio.TimerHandle


@dataclass(slots=True)
class _Call:
    client: EnrolmentClient
    address: str
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    trouble: str = ""


class Enrolling:
    """All enrolments of one node."""

    def __init__(
        self,
        name: str,
        addresses: Iterable[str],
        *,
        access: Access,
        platform: Platform,
        send: Callable[[str, list[bytes]], Awaitable[None]],
        change_trust: Callable[[Change], Awaitable[Peer]],
    ) -> None:
        self._name = name
        self._addresses = tuple(addresses)
        self._access = access
        self._entropy = platform.entropy
        self._now_ns = platform.monotonic_ns
        self._send = send
        self._change_trust = change_trust
        self._server: EnrolmentServer | None = None
        self._keys: tuple[bytes, ...] = ()
        self._invited: dict[Invitation, _Invited] = {}
        self._calls: dict[int, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: TriackError | None = None

    # ---- the side that invites

    def invite(self, name: str | None, may_send: Iterable[str] | None) -> OpenInvitation:
        """Make a code; see ``Node.invite``."""
        if name is not None:
            name = check_name(name)
        now_ns = self._now_ns()
        invitation = Invitation.make(self._entropy, now_ns)
        self._serving().invite(invitation, now_ns)
        opened = OpenInvitation(
            invitation.code, lambda: self._finish(invitation, EnrolmentFailed("the code was withdrawn"))
        )
        expiry = asyncio.get_running_loop().call_later(
            (invitation.expires_at_ns - now_ns) / SECOND,
            lambda: self._finish(invitation, EnrolmentFailed("no node came with the code, and it has expired")),
        )
        patterns = None if may_send is None else tuple(may_send)
        self._invited[invitation] = _Invited(opened, name, patterns, expiry)
        return opened

    def _serving(self) -> EnrolmentServer:
        identity = self._access.identity
        if self._server is None:
            key = identity.keys[0].private_bytes_raw()
            self._server = EnrolmentServer(
                key, self._name, self._addresses, entropy=self._entropy, suite=self._access.suite
            )
        if self._keys != identity.public:
            self._server.use_keys(key.private_bytes_raw() for key in identity.keys)
            self._keys = identity.public
        return self._server

    def _finish(self, invitation: Invitation, end: EnrolledPeer | TriackError) -> None:
        invited = self._invited.pop(invitation, None)
        if invited is None:
            return
        assert self._server is not None
        self._server.withdraw(invitation)
        invited.expiry.cancel()
        invited.opened._finish(end)  # noqa: SLF001 - its other half

    async def _welcome(self, arrival: Arrival) -> None:
        """Trust a node that has come with a code, and confirm it; without trust, send nothing."""
        invited = self._invited.get(arrival.invitation)
        if invited is None:  # it was withdrawn at the same moment
            return
        try:
            peer = await self._trust(arrival.enrolled, invited.name, invited.may_send)
        except TriackError as error:
            why = f"the node that came with the code cannot be trusted: {error}"
            operator_log.warning(f"enrolment refused: {why}", node=self._name)
            self._finish(arrival.invitation, EnrolmentFailed(f"{why}; the code is used up"))
            return
        welcome = self._serving().confirm(arrival)
        self._finish(arrival.invitation, peer)
        if welcome:
            await self._send(arrival.sender, [welcome])

    async def _trust(self, enrolled: Enrolled, name: str | None, may_send: Iterable[str] | None) -> EnrolledPeer:
        directory = self._access.directory
        if name is None and directory.with_key(enrolled.key) is None and directory.named(enrolled.name) is not None:
            # It may be in no file, but an argument of ``triack.open``.
            raise UsageError(f"trust {enrolled.name}: there is a peer of that name, and this is no key of it")
        own = self._access.identity.public
        peer = await self._change_trust(lambda file: file.enrol(*enrolled, name=name, may_send=may_send, own=own))
        key = encode_key(KeyKind.PUBLIC, enrolled.key)
        operator_log.info(f"peer {peer.name} enrolled", node=self._name, peer=peer.name, key=key)
        return EnrolledPeer(peer.name, key, peer.addresses)

    # ---- the side that was invited

    async def call(
        self, code: str, url: str, name: str | None, may_send: Iterable[str] | None, timeout: float | None
    ) -> EnrolledPeer:
        """Enrol at another node; see ``Node.enrol``."""
        check_timeout("enrol", timeout)
        secret = decode_code(code)
        address = Address.parse(url)
        if name is not None:
            name = check_name(name)
        client = EnrolmentClient(
            secret,
            self._access.identity.keys[0].private_bytes_raw(),
            self._name,
            self._addresses,
            scheme=address.scheme,
            entropy=self._entropy,
            now_ns=self._now_ns(),
            life_ns=LIFE_NS if timeout is None else in_ns(timeout),
            suite=self._access.suite,
        )
        call = _Call(client, str(address))
        self._calls[client.connection_id] = call
        try:
            await self._talk(call)
        finally:
            del self._calls[client.connection_id]
        found = client.result
        if found is None:
            raise EnrolmentFailed(
                f"enrol at {address}: no answer. The code is wrong, used or expired, no node listens there, or it uses "
                f"another suite: these look all the same{f'. Last: {call.trouble}' if call.trouble else ''}"
            )
        try:
            return await self._trust(found._replace(addresses=(str(address), *found.addresses)), name, may_send)
        except UsageError as error:
            raise EnrolmentFailed(f"enrol at {address}: the node there trusts this one now, but: {error}") from error

    async def _talk(self, call: _Call) -> None:
        client = call.client
        while (deadline_ns := client.next_deadline()) is not None:
            call.changed.clear()
            datagram = client.poll_transmit()
            if datagram is not None:
                await self._send(call.address, [datagram])
            with suppress(TimeoutError):
                async with asyncio.timeout((deadline_ns - self._now_ns()) / SECOND):
                    await call.changed.wait()
            if self._ended is not None:
                raise self._ended
            client.handle_timer(self._now_ns())

    # ---- the network

    async def handle_datagram(self, datagram: bytes, sender: str) -> None:
        """Handle a datagram of kind ENROL. Raises ProtocolError: the caller drops it, and counts the reason."""
        header, now_ns = read_header(datagram), self._now_ns()
        call = self._calls.get(header.connection_id)
        if call is not None:
            call.client.handle_datagram(datagram, header, now_ns)
            call.changed.set()
            return
        if self._server is None:
            raise ProtocolError(DropReason.NOT_INVITED)
        server = self._serving()
        reply = server.handle_datagram(datagram, header, sender, now_ns)
        if reply:
            await self._send(sender, [reply])
        arrival = server.poll_enrolled()
        if arrival is not None:
            # In a task: the disk may be slow, and other datagrams must not wait.
            task = asyncio.get_running_loop().create_task(self._welcome(arrival), name="triack-enrol")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def handle_trouble(self, address: str, cause: str) -> None:
        """The system reports that an address cannot be reached for now."""
        for call in self._calls.values():
            if call.address == address:
                call.trouble = cause

    def end(self, error: TriackError) -> None:
        """The node has ended: every waiting call gets this error."""
        self._ended = error
        for invitation in list(self._invited):
            self._finish(invitation, error)
        for call in self._calls.values():
            call.changed.set()
        for task in self._tasks:
            task.cancel()


async def enrol_at_rest(
    data: str | Path,
    code: str,
    url: str,
    *,
    own_name: str,
    addresses: Iterable[str] = (),
    name: str | None = None,
    may_send: Iterable[str] | None = None,
    timeout: float | None = None,
    suite: str,
    tls: Tls | None = None,
) -> EnrolledPeer:
    """Enrol the node of a data directory that no process runs; its key is made if it has none.

    Raises:
        UsageError, AddressError: an argument is not valid.
        EnrolmentFailed: no answer, or the other node cannot be trusted.
        IdentityError, StoreError: the directory's files cannot be used.
    """
    platform, access = PLATFORM.get(), Secured({}, suite)
    files = platform.open_files(Path(data), own_name)
    await asyncio.to_thread(access.open, files, platform.entropy)
    # A few datagrams one by one: batches bring nothing.
    endpoint = await platform.open_endpoint(
        Address.parse(url).scheme, None, loopback_only=False, tls=tls, udp="portable"
    )

    async def change_trust(change: Change) -> Peer:
        return await asyncio.to_thread(change, access.trust)

    async def send(address: str, datagrams: list[bytes]) -> None:
        await endpoint.send(datagrams, address)

    enrolling = Enrolling(
        check_name(own_name), addresses, access=access, platform=platform, send=send, change_trust=change_trust
    )
    endpoint.on_trouble = enrolling.handle_trouble
    receiving = asyncio.create_task(_receive(endpoint, enrolling), name="triack-enrol")
    try:
        return await enrolling.call(code, url, name, may_send, timeout)
    finally:
        await end_tasks([receiving])
        await endpoint.close()


async def _receive(endpoint: Endpoint, enrolling: Enrolling) -> None:
    while True:
        try:
            burst = await endpoint.receive()
        except TransportError:
            return
        for datagram, sender in burst:
            if datagram[:1] == bytes([Kind.ENROL]):
                try:
                    await enrolling.handle_datagram(datagram, sender)
                except ProtocolError as error:
                    endpoint.drops[error.reason] += 1
