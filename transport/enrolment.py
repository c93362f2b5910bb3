"""Enrolment: two nodes that know a one-time code learn each other's keys, and that these are the right ones.

    1 HELLO    header 20, ephemeral 32, zeros 172, mac of the cookie 16, mac 16        256 bytes
    2 RETRY    header 20, cookie 16, mac 16                                             52
    3 ANSWER   header 20, ephemeral 32, static 48, tag 16, mac 16                      132
    4 PROOF    header 20, static 48, sealed proof 32 + who + zeros + 16              1,200
    5 WELCOME  header 20, sealed proof 32 + who + 16                                 1,200 at most

It is Noise XX, with the code around it. The client chooses the header's connection id; the counter is the number of the
step. ``who`` is a count, then a name and addresses, each after its length (two bytes, big-endian).

A stranger gets no answer: the macs of steps 1 to 3 are keyed by the code, and those of the answers cover the mac of the
hello that they answer. Before a cookie has shown that the client receives at its address (``cookies``), nothing is kept
and no shared secret computed. An HMAC (RFC 2104), keyed by the code, over the handshake's hash (Noise, revision 34,
section 11.2) and the prover's own static key proves that no third party is in between. Wrong codes use up nothing. Each
datagram has at most one answer, which is no longer than itself.

    client  CALLING --answer--> PROVING --welcome--> ENROLLED
            CALLING, PROVING --30 s, or its host's limit--> FAILED; until then it repeats its last datagram,
            twice a second
    server  (nothing) --hello with a good cookie--> ASKED --proof--> PROVED --confirmed by its host--> WELCOMED
            ASKED --the invitation ends, or 16 newer ones--> (nothing); a repeated hello or proof gets the same
            answer again

Pure, but for ``entropy``: the clock is an argument.
"""

import hmac
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag

from triack.base.datagram import HEADER_BYTES, Header, Kind
from triack.base.errors import AddressError, ProtocolError, UsageError
from triack.base.names import check_name
from triack.base.reasons import DropReason
from triack.base.transitions import next_state
from triack.base.units import MS, SECOND
from triack.transport.address import Address
from triack.transport.cookies import MAC_BYTES, Cookies, Entropy, mac, mac_fits, mac_key
from triack.transport.invitation import Invitation
from triack.transport.noise import AESGCM_SHA256, KEY_BYTES, TAG_BYTES, Handshake, KeyPair, Pattern, Suite

HELLO_BYTES = 256
"""Longer than the answers to it, with room for the answers of later versions."""
PROOF_BYTES = 1_200
"""The welcome, with as much content, must not be longer, and the length of names stays hidden. Each path that carries
QUIC carries it (RFC 9000, section 14.1)."""
REPEAT_NS = 500 * MS
"""Between two tries of a client: people wait for it, and it is longer than most round trips."""
LIFE_NS = 30 * SECOND
"""Life of a client, unless its host says otherwise: 60 tries for three round trips. If a third is lost, it fails once
in a million million times."""
INVITATIONS_MAX = 16
"""Open at a time: every hello of a stranger is compared with each."""
CLOSED_MAX = 16
"""Ended codes that are still recognised, for the operator: every hello of a stranger is compared with each."""
PENDING_MAX = 16
"""Clients that have begun: only one that knows a code can begin."""
ADDRESSES_MAX = 8
"""Addresses of one node: more than it has."""
_HELLO, _RETRY, _ANSWER, _PROOF, _WELCOME = range(1, 6)
_RETRY_BYTES = HEADER_BYTES + 2 * MAC_BYTES  # header, cookie, mac
_ANSWER_BYTES = HEADER_BYTES + 2 * (KEY_BYTES + TAG_BYTES) + MAC_BYTES
"""The key in the clear has no tag, but the empty payload has one."""
_HMAC_BYTES = 32
"""Of SHA-256."""
_WHO_BYTES_MAX = PROOF_BYTES - HEADER_BYTES - KEY_BYTES - TAG_BYTES - _HMAC_BYTES - TAG_BYTES
_NO_COOKIE = bytes(MAC_BYTES)
"""Replaces a cookie's mac while there is no cookie."""
_ID_BYTES = 8
"""Of a connection id."""
_CLIENT, _SERVER = b"triack enrol client", b"triack enrol server"
"""The side of a proof: neither side can show the other's proof."""
_LENGTH = Struct("!H")


class _MacKeys(NamedTuple):
    hello: bytes
    retry: bytes
    answer: bytes

    @classmethod
    def of(cls, secret: bytes) -> "_MacKeys":
        return cls(*(mac_key(b"triack enrol " + step, secret) for step in (b"hello", b"retry", b"answer")))


class Enrolled(NamedTuple):
    """What one side has learned of the other."""

    name: str
    key: bytes
    addresses: tuple[str, ...]


class Arrival(NamedTuple):
    """A client that has proved that it knows the code of an invitation."""

    invitation: Invitation
    enrolled: Enrolled
    sender: str
    connection_id: int


@dataclass(slots=True)
class _Pending:
    """A client that has shown a cookie.

    Attributes:
        pair: the key of this node that it learns.
        ephemeral: the client's.
        answer: the handshake's second message.
        proof: the datagram that proved it, empty until one did.
        welcome: the datagram that answers it, empty until the host has confirmed it.
    """

    invitation: Invitation
    macs: _MacKeys
    pair: KeyPair
    handshake: Handshake
    ephemeral: bytes
    answer: bytes
    proof: bytes = b""
    welcome: bytes = b""


class EnrolmentServer:
    """The side that has invited. Raises UsageError: the name or an address cannot be one, or they are too long."""

    __slots__ = ("_arrivals", "_closed", "_cookies", "_entropy", "_invitations", "_pairs", "_pending", "_suite", "_who")

    def __init__(
        self, key: bytes, name: str, addresses: Iterable[str], *, entropy: Entropy, suite: Suite = AESGCM_SHA256
    ) -> None:
        self._pairs = [KeyPair.of(key)]
        self._who = _encode_who(name, tuple(addresses))
        self._entropy = entropy
        self._suite = suite
        self._cookies = Cookies(entropy)
        self._invitations: dict[Invitation, _MacKeys] = {}
        self._closed: deque[_MacKeys] = deque(maxlen=CLOSED_MAX)
        self._pending: OrderedDict[tuple[str, int], _Pending] = OrderedDict()
        self._arrivals: deque[Arrival] = deque()

    def use_keys(self, keys: Iterable[bytes]) -> None:
        """Have these private keys from now on, the first of them for calls to others.

        A client that has begun continues, unless it would learn a removed key.
        """
        self._pairs = [KeyPair.of(key) for key in keys]
        there = {pair.public for pair in self._pairs}
        for place in [place for place, one in self._pending.items() if one.pair.public not in there]:
            del self._pending[place]

    def invite(self, invitation: Invitation, now_ns: int) -> None:
        """Let a client that knows its secret enrol. Raises UsageError: 16 are open."""
        self._close_expired(now_ns)
        if len(self._invitations) >= INVITATIONS_MAX:
            raise UsageError(f"invite: {INVITATIONS_MAX} invitations are open")
        self._invitations[invitation] = _MacKeys.of(invitation.secret)

    def withdraw(self, invitation: Invitation) -> None:
        """End the invitation, and forget the clients that have begun with it and have not finished.

        Does nothing if it has been used or has expired.
        """
        macs = self._invitations.pop(invitation, None)
        if macs is not None:
            self._closed.append(macs)
        gone = [place for place, one in self._pending.items() if one.invitation == invitation and not one.proof]
        for place in gone:
            del self._pending[place]

    def open_invitations(self, now_ns: int) -> list[Invitation]:
        """The invitations that are neither used, withdrawn nor expired."""
        self._close_expired(now_ns)
        return list(self._invitations)

    def handle_datagram(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> bytes:
        """Return the datagram that answers this one, or empty. ``confirm`` answers a proof, once it gave an arrival.

        Raises:
            ProtocolError: ``not-invited``, ``code-expired``, ``too-short``, ``bad-header``, ``unknown-connection``,
                ``replayed``, ``bad-tag``, ``bad-hello``, ``own-node``: nothing is answered then.
        """
        self._close_expired(now_ns)
        step = _read_step(header)
        if step == _HELLO:
            return self._handle_hello(datagram, header, sender, now_ns)
        if step == _PROOF:
            return self._handle_proof(datagram, header, sender)
        raise ProtocolError(DropReason.BAD_HEADER, f"step {step}")

    def poll_enrolled(self) -> Arrival | None:
        """The next client that has proved that it knows a code, or None. It waits to be confirmed."""
        return self._arrivals.popleft() if self._arrivals else None

    def confirm(self, arrival: Arrival) -> bytes:
        """Return the welcome for its sender. First trust the sender, durably: the welcome says that it is trusted."""
        place = arrival.sender, arrival.connection_id
        pending = self._pending.get(place)
        if pending is None:  # 16 newer ones took its place, or its key is gone
            return b""
        handshake = pending.handshake
        header = _header(arrival.connection_id, _WELCOME)
        said = _prove(arrival.invitation.secret, _SERVER, handshake.hash, pending.pair.public) + self._who
        _, sealing = handshake.split()
        pending.welcome = header + self._suite.aead(sealing).encrypt(self._suite.nonce(0), said, header)
        return pending.welcome

    # ---- steps

    def _handle_hello(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> bytes:
        said, shown = datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]
        if len(datagram) != HELLO_BYTES:
            raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
        found = next((entry for entry in self._invitations.items() if mac_fits(entry[1].hello, said, shown)), None)
        if found is None:
            is_over = any(mac_fits(macs.hello, said, shown) for macs in self._closed)
            raise ProtocolError(DropReason.CODE_EXPIRED if is_over else DropReason.NOT_INVITED)
        invitation, macs = found
        if not self._cookies.fits(sender, said[:-MAC_BYTES], said[-MAC_BYTES:], now_ns):
            retry = _header(header.connection_id, _RETRY) + self._cookies.make(sender, now_ns)
            return retry + mac(macs.retry, retry + shown)
        pending = self._pending.get((sender, header.connection_id))
        if pending is None:
            pending = self._begin(datagram, header, sender, invitation, macs)
        elif pending.ephemeral != _ephemeral(datagram) or pending.invitation != invitation:
            raise ProtocolError(DropReason.REPLAYED, "HELLO")
        answer = _header(header.connection_id, _ANSWER) + pending.answer
        return answer + mac(macs.answer, answer + shown)

    def _begin(self, datagram: bytes, header: Header, sender: str, invitation: Invitation, macs: _MacKeys) -> _Pending:
        prologue = _prologue(sender.partition(":")[0], datagram[:HEADER_BYTES])
        pair = self._pairs[0]
        handshake = Handshake(Pattern.XX, self._suite, initiator=False, prologue=prologue, static=pair)
        handshake.read(_ephemeral(datagram))
        answer = handshake.write(b"", self._entropy(KEY_BYTES))
        pending = _Pending(invitation, macs, pair, handshake, _ephemeral(datagram), answer)
        if len(self._pending) >= PENDING_MAX:
            self._pending.popitem(last=False)
        self._pending[sender, header.connection_id] = pending
        return pending

    def _handle_proof(self, datagram: bytes, header: Header, sender: str) -> bytes:
        place = sender, header.connection_id
        pending = self._pending.get(place)
        if pending is None:
            raise ProtocolError(DropReason.UNKNOWN_CONNECTION)
        if pending.proof:
            if pending.proof != datagram:
                raise ProtocolError(DropReason.REPLAYED, "PROOF")
            return pending.welcome
        if len(datagram) != PROOF_BYTES:
            raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
        before = pending.handshake.hash
        payload = pending.handshake.read(datagram[HEADER_BYTES:], self._admit)
        try:
            enrolled = _check(payload, pending.invitation.secret, _CLIENT, before, pending.handshake.remote_static)
        except ProtocolError:
            del self._pending[place]  # its handshake has ended
            raise
        pending.proof = datagram
        self._arrivals.append(Arrival(pending.invitation, enrolled, sender, header.connection_id))
        self.withdraw(pending.invitation)
        return b""

    def _admit(self, key: bytes) -> None:
        if any(key == pair.public for pair in self._pairs):
            raise ProtocolError(DropReason.OWN_NODE)

    def _close_expired(self, now_ns: int) -> None:
        for invitation in [one for one in self._invitations if now_ns >= one.expires_at_ns]:
            self.withdraw(invitation)


class ClientState(Enum):
    """How far the side that was invited has come; see the module's table."""

    CALLING = "calling"
    PROVING = "proving"
    ENROLLED = "enrolled"
    FAILED = "failed"


class ClientEvent(Enum):
    """An event of that side."""

    ANSWERED = "answered"
    """The server has shown that it knows the code."""
    WELCOMED = "welcomed"
    """The server trusts this node now."""
    EXPIRED = "expired"


TRANSITIONS: dict[ClientState, dict[ClientEvent, ClientState]] = {
    ClientState.CALLING: {ClientEvent.ANSWERED: ClientState.PROVING, ClientEvent.EXPIRED: ClientState.FAILED},
    ClientState.PROVING: {ClientEvent.WELCOMED: ClientState.ENROLLED, ClientEvent.EXPIRED: ClientState.FAILED},
    ClientState.ENROLLED: {},
    ClientState.FAILED: {},
}


class EnrolmentClient:
    """The side that was invited: it has something to send from the start.

    Raises UsageError: the name or an address cannot be one, or they are too long.
    """

    __slots__ = (
        "_cookie",
        "_datagram",
        "_ephemeral",
        "_handshake",
        "_has_to_send",
        "_macs",
        "_pair",
        "_repeat_ns",
        "_secret",
        "_suite",
        "_until_ns",
        "_who",
        "connection_id",
        "result",
        "state",
    )

    def __init__(
        self,
        secret: bytes,
        key: bytes,
        name: str,
        addresses: Sequence[str],
        *,
        scheme: str,
        entropy: Entropy,
        now_ns: int,
        life_ns: int = LIFE_NS,
        suite: Suite = AESGCM_SHA256,
    ) -> None:
        self._secret = secret
        self._macs = _MacKeys.of(secret)
        self._pair = KeyPair.of(key)
        self._who = _encode_who(name, tuple(addresses))
        self._suite = suite
        self.connection_id = int.from_bytes(entropy(_ID_BYTES))
        self.state = ClientState.CALLING
        self.result: Enrolled | None = None
        prologue = _prologue(scheme, _header(self.connection_id, _HELLO))
        self._handshake = Handshake(Pattern.XX, suite, initiator=True, prologue=prologue, static=self._pair)
        self._ephemeral = self._handshake.write(b"", entropy(KEY_BYTES))
        self._cookie = b""
        self._datagram = self._hello()
        self._has_to_send = True
        self._repeat_ns, self._until_ns = now_ns + REPEAT_NS, now_ns + life_ns

    def _move(self, event: ClientEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or badly."""
        return self.state in (ClientState.ENROLLED, ClientState.FAILED)

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` has something to do, in nanoseconds; None once it has ended."""
        return None if self.is_over else min(self._repeat_ns, self._until_ns)

    def handle_timer(self, now_ns: int) -> None:
        """Repeat the last datagram, or give up; does nothing before ``next_deadline``."""
        if self.is_over:
            return
        if now_ns >= self._until_ns:
            self._move(ClientEvent.EXPIRED)
            self._has_to_send = False
        elif now_ns >= self._repeat_ns:
            self._has_to_send = True
            self._repeat_ns = now_ns + REPEAT_NS

    def poll_transmit(self) -> bytes | None:
        """The datagram to send to the server now, or None."""
        if not self._has_to_send:
            return None
        self._has_to_send = False
        return self._datagram

    def handle_datagram(self, datagram: bytes, header: Header, now_ns: int) -> None:
        """Accept a datagram of the server.

        Raises:
            ProtocolError: ``bad-header``, ``unknown-connection``, ``unexpected-accept``, ``not-invited``, ``bad-tag``,
                ``bad-hello``, ``own-node``: nothing has changed then.
        """
        step = _read_step(header)
        if header.connection_id != self.connection_id:
            raise ProtocolError(DropReason.UNKNOWN_CONNECTION)
        if self.state is ClientState.CALLING and step == _RETRY:
            self._handle_retry(datagram)
        elif self.state is ClientState.CALLING and step == _ANSWER:
            self._handle_answer(datagram, now_ns)
        elif self.state is ClientState.PROVING and step == _WELCOME:
            self._handle_welcome(datagram)
        else:
            raise ProtocolError(DropReason.UNEXPECTED_ACCEPT, f"step {step}")

    def _hello(self) -> bytes:
        said = _header(self.connection_id, _HELLO) + self._ephemeral
        said = said.ljust(HELLO_BYTES - 2 * MAC_BYTES, b"\0")
        said += mac(self._cookie, said) if self._cookie else _NO_COOKIE
        return said + mac(self._macs.hello, said)

    def _handle_retry(self, datagram: bytes) -> None:
        said = self._check_mac(datagram, self._macs.retry, _RETRY_BYTES)
        # Obey the first one immediately, later ones when it is time to repeat, so that two nodes do not play ping-pong.
        self._has_to_send = not self._cookie
        self._cookie = said[HEADER_BYTES:]
        self._datagram = self._hello()

    def _handle_answer(self, datagram: bytes, now_ns: int) -> None:
        said = self._check_mac(datagram, self._macs.answer, _ANSWER_BYTES)
        self._handshake.read(said[HEADER_BYTES:], self._admit)
        proof = _prove(self._secret, _CLIENT, self._handshake.hash, self._pair.public)
        message = self._handshake.write((proof + self._who).ljust(_HMAC_BYTES + _WHO_BYTES_MAX, b"\0"))
        self._datagram = _header(self.connection_id, _PROOF) + message
        self._move(ClientEvent.ANSWERED)
        self._has_to_send = True
        self._repeat_ns = now_ns + REPEAT_NS

    def _handle_welcome(self, datagram: bytes) -> None:
        _, opening = self._handshake.split()
        try:
            said = self._suite.aead(opening).decrypt(
                self._suite.nonce(0), datagram[HEADER_BYTES:], datagram[:HEADER_BYTES]
            )
        except InvalidTag:
            raise ProtocolError(DropReason.BAD_TAG) from None
        self.result = _check(said, self._secret, _SERVER, self._handshake.hash, self._handshake.remote_static)
        self._move(ClientEvent.WELCOMED)
        self._has_to_send = False

    def _check_mac(self, datagram: bytes, key: bytes, length: int) -> bytes:
        """The bytes before the mac, which also covers the hello's mac."""
        said, shown = datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]
        if len(datagram) != length or not mac_fits(key, said + self._datagram[-MAC_BYTES:], shown):
            raise ProtocolError(DropReason.NOT_INVITED)
        return said

    def _admit(self, key: bytes) -> None:
        if key == self._pair.public:
            raise ProtocolError(DropReason.OWN_NODE)


# ---- common to both sides


def _prologue(scheme: str, header: bytes) -> bytes:
    """What both ends agree on without sending it: the transport, and the header of the hello."""
    return b"Triack enrol " + scheme.encode() + b" " + header


def _header(connection_id: int, step: int) -> bytes:
    return Header(Kind.ENROL, connection_id, step).encode()


def _read_step(header: Header) -> int:
    if header.epoch:
        raise ProtocolError(DropReason.BAD_HEADER, f"epoch {header.epoch}")
    return header.counter


def _ephemeral(hello: bytes) -> bytes:
    return hello[HEADER_BYTES : HEADER_BYTES + KEY_BYTES]


def _prove(secret: bytes, label: bytes, transcript: bytes, key: bytes) -> bytes:
    """The proof that the owner of that key knows the code and took part in this handshake."""
    return hmac.digest(secret, label + transcript + key, "sha256")


def _check(payload: bytes, secret: bytes, label: bytes, transcript: bytes, key: bytes) -> Enrolled:
    """The identity of the side, if it has proved that it knows the code."""
    if not hmac.compare_digest(_prove(secret, label, transcript, key), payload[:_HMAC_BYTES]):
        raise ProtocolError(DropReason.NOT_INVITED, "proof")
    name, *addresses = _decode_who(payload[_HMAC_BYTES:])
    return Enrolled(name, key, tuple(addresses))


def _encode_who(name: str, addresses: tuple[str, ...]) -> bytes:
    texts = [check_name(name), *(str(Address.parse(address)) for address in addresses)]
    said = bytes([min(len(texts), 255)]) + b"".join(_LENGTH.pack(len(text.encode())) + text.encode() for text in texts)
    if len(addresses) > ADDRESSES_MAX or len(said) > _WHO_BYTES_MAX:
        size = f"{len(addresses)} addresses, {len(said)} bytes"
        raise UsageError(f"enrol as {name}: {size}; at most {ADDRESSES_MAX}, and {_WHO_BYTES_MAX} bytes")
    return said


def _decode_who(data: bytes) -> list[str]:
    """Read a name and addresses, and zeros to the end."""
    count, at, texts = (data[0] if data else 0), 1, list[str]()
    if not 1 <= count <= 1 + ADDRESSES_MAX:
        raise ProtocolError(DropReason.BAD_HELLO, f"{count} texts")
    for _ in range(count):
        end = at + _LENGTH.size
        end += int.from_bytes(data[at:end])
        if at + _LENGTH.size > len(data) or end > len(data):
            raise ProtocolError(DropReason.BAD_HELLO, "a text that ends early")
        try:
            text = data[at + _LENGTH.size : end].decode()
            texts.append(str(Address.parse(text)) if texts else check_name(text))
        except (UnicodeDecodeError, AddressError) as error:
            raise ProtocolError(DropReason.BAD_HELLO, "a name or an address that cannot be one") from error
        at = end
    if any(data[at:]):
        raise ProtocolError(DropReason.BAD_HELLO, "something after the last text")
    return texts
