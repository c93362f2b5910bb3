"""The secure channel: Noise IKpsk2, one handshake of two messages for UDP and TCP alike, and keys that change.

    CONNECT   header 20, ephemeral 32, static 48, sealed 2 + hello + zeros + 16, mac of the cookie 16, mac 16
    ACCEPT    header 20, ephemeral 32, sealed hello + 16, mac 16
    RETRY     header 20, cookie 16, mac 16
    others    header 20, sealed payload + 16

The initiator knows the responder's public key, and sends its own encrypted to it; each must be in the other's
directory. Each connect is a new handshake with fresh keys, so one that is lost or late costs nothing but itself.
The prologue binds protocol, version, suite, kind of transport and the connect's header; other headers are associated
data, or under the mac.

A stranger gets no answer at all. A connect is checked cheapest first: its length; the mac that shows that the sender
knows our public key; under load the mac that proves its address; only then is a shared secret computed. The caller of
``answer`` may ask for the second mac at any time. A connect has at most one answer, which is never longer than itself.

    initiator    CALLING --accept opened--> CALLED --data sealed--> TALKING
                 a later accept replaces an earlier one until data is sealed; none does afterwards
    responder    ASKED --accept sealed--> TALKING

An idle channel keeps only its keys; in a forked child no channel can be used (``warm_channels``).

Pure, but for ``entropy``: the clock is an argument.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from triack.base.datagram import HEADER_BYTES, Answer, Channel, Header, Kind, Opened
from triack.base.errors import ProtocolError, UsageError
from triack.base.peers import Directory, Peer
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.transport.cookies import COOKIE_LIFE_NS, MAC_BYTES, Cookies, Entropy, mac, mac_fits, mac_key
from triack.transport.data_keys import OVERHEAD_BYTES, OpeningKeys, SealingKeys
from triack.transport.handshake_load import Admission
from triack.transport.noise import AESGCM_SHA256, KEY_BYTES, TAG_BYTES, Handshake, KeyPair, Pattern, Seals, Suite
from triack.transport.warm_channels import WarmChannels

CONNECT_BYTES = 1_200
"""The least size of a connect, longer than any accept; each path for QUIC carries it (RFC 9000, section 14.1)."""
ATTEMPTS_MAX = 32
"""Connects whose accept is still opened, the newest ones: more than leave within ten seconds."""
RETRY_PAUSE_NS = 1 * SECOND
"""Between two obeyed requests to prove an address. Each costs a whole connect, and an attacker who sees our connects,
and knows the key that we dial, could repeat them forever."""
_LENGTH = Struct("!H")
_CONNECT_ADDS = HEADER_BYTES + 2 * KEY_BYTES + 2 * TAG_BYTES + _LENGTH.size + 2 * MAC_BYTES
"""Bytes of a connect beside its hello and the zeros that make it long enough."""
_RETRY_BYTES = HEADER_BYTES + 2 * MAC_BYTES  # header, cookie, mac
_NO_COOKIE = bytes(MAC_BYTES)
"""Replaces a cookie's mac while there is no cookie."""
# Looked up once: each look at a member of an enum costs more than the comparison.
_CONNECT, _ACCEPT, _RETRY, _DATA, _CHALLENGE, _RESPONSE = (
    Kind.CONNECT,
    Kind.ACCEPT,
    Kind.RETRY,
    Kind.DATA,
    Kind.CHALLENGE,
    Kind.RESPONSE,
)


class _MacKeys(NamedTuple):
    """The keys derived from a public key, to show that one knows it."""

    hello: bytes
    retry: bytes

    @classmethod
    def of(cls, public: bytes) -> "_MacKeys":
        return cls(mac_key(b"triack mac1", public), mac_key(b"triack retry", public))


class _Own(NamedTuple):
    pair: KeyPair
    macs: _MacKeys


class _Choice(NamedTuple):
    """The pair of keys of a call: both sides may have several while they replace old ones."""

    own: _Own
    peer_key: bytes
    peer_macs: _MacKeys


@dataclass(slots=True)
class _Attempt:
    turn: int
    choice: _Choice
    handshake: Handshake
    mac: bytes
    retried: bool = False


class SecureChannels:
    """Makes channels that hide, authenticate and keep strangers out."""

    __slots__ = ("_admission", "_cookies", "_directory", "_entropy", "_own", "_suite", "_warm", "seals")

    def __init__(
        self, keys: Iterable[bytes], directory: Directory, *, entropy: Entropy, suite: Suite = AESGCM_SHA256
    ) -> None:
        self._directory = directory
        self._entropy = entropy
        self._suite = suite
        self._cookies = Cookies(entropy)
        self._admission = Admission(entropy(KEY_BYTES))
        self._warm = WarmChannels()
        self.seals = Seals(entropy, suite)
        self.use_keys(keys)

    def use_keys(self, keys: Iterable[bytes]) -> None:
        """Use these private keys from now on; conversations that have begun keep theirs. Raises UsageError: none."""
        pairs = [KeyPair.of(key) for key in keys]
        if not pairs:
            raise UsageError("a secure channel needs a private key")
        self._own = {pair.public: _Own(pair, _MacKeys.of(pair.public)) for pair in pairs}
        self.seals.use_keys(pairs)

    @property
    def overhead_bytes(self) -> int:
        """Header and tag."""
        return OVERHEAD_BYTES

    def knows(self, peer: str) -> bool:
        """Whether the directory has a usable key of that peer."""
        return bool(self._keys_of(peer))

    def _keys_of(self, peer: str) -> list[bytes]:
        known = self._directory.named(peer)
        return [] if known is None else [key for key in known.keys if self._can_call(key)]

    def dial(self, peer: str, scheme: str) -> Channel:
        """The channel of a conversation that begins here. Raises ProtocolError ``no-key``: see ``Channels``."""
        known, keys = self._directory.named(peer), self._keys_of(peer)
        if known is None or not keys:
            raise ProtocolError(DropReason.NO_KEY, peer)
        choices = [_Choice(own, key, _MacKeys.of(key)) for key in keys for own in self._own.values()]
        return _Caller(self._suite, self._entropy, self._warm, scheme, known, choices)

    def _can_call(self, key: bytes) -> bool:
        """Whether a key is another node's, and a point that can share secrets."""
        own = next(iter(self._own.values()))
        try:
            own.pair.exchange(key)
        except ValueError:
            return False
        return key not in self._own

    def answer(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> Answer:
        """The channel that a connect asks for, and the connect's payload. Raises ProtocolError: see ``Channels``."""
        if len(datagram) < CONNECT_BYTES:
            raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
        said, shown = datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]
        own = next((own for own in self._own.values() if mac_fits(own.macs.hello, said, shown)), None)
        if own is None:
            raise ProtocolError(DropReason.BAD_MAC)
        if not self._admission.is_loaded(now_ns):
            answer = self._agree(own, datagram, sender)
            # Only for trusted peers: nothing is kept of a stranger, not even a secret for its cookie.
            proved = self._has_proved(said, sender, now_ns)
            return answer if proved else answer._replace(retry=self._retry(own, header, shown, sender, now_ns))
        if not self._has_proved(said, sender, now_ns):
            return Answer(None, b"", self._retry(own, header, shown, sender, now_ns))
        if not self._admission.admits(sender, now_ns):
            raise ProtocolError(DropReason.TOO_MANY_CONNECTS)
        return self._agree(own, datagram, sender)

    def _has_proved(self, said: bytes, sender: str, now_ns: int) -> bool:
        """Whether a connect proves that its sender receives at its address."""
        named, shown = said[:-MAC_BYTES], said[-MAC_BYTES:]
        return shown != _NO_COOKIE and self._cookies.fits(sender, named, shown, now_ns)

    def _retry(self, own: _Own, header: Header, shown: bytes, sender: str, now_ns: int) -> bytes:
        said = Header(_RETRY, header.connection_id, header.counter).encode() + self._cookies.make(sender, now_ns)
        return said + mac(own.macs.retry, said + shown)

    def _agree(self, own: _Own, datagram: bytes, sender: str) -> Answer:
        prologue = _prologue(sender.partition(":")[0], datagram[:HEADER_BYTES])
        handshake = Handshake(Pattern.IKPSK2, self._suite, initiator=False, prologue=prologue, static=own.pair)
        callers: list[Peer] = []

        def admit(key: bytes) -> None:
            if key in self._own:
                raise ProtocolError(DropReason.OWN_NODE)
            caller = self._directory.with_key(key)
            if caller is None:
                raise ProtocolError(DropReason.UNTRUSTED, key.hex())
            handshake.psk = caller.psk
            callers.append(caller)

        try:
            payload = _unpad(handshake.read(datagram[HEADER_BYTES : -2 * MAC_BYTES], admit))
        except ProtocolError as error:
            if error.reason == DropReason.BAD_TAG and not callers:
                # The mac shows that the sender knows our key, but its own key cannot be read.
                raise ProtocolError(DropReason.OTHER_SUITE) from error
            raise
        channel = _Answerer(self._suite, self._entropy, self._warm, callers[0], handshake, len(datagram))
        return Answer(channel, payload)


class _Secured:
    """The channel of either end once there are keys."""

    __slots__ = ("__weakref__", "_entropy", "_is_warm", "_opening", "_sealing", "_suite", "_warm", "peer", "peer_key")

    def __init__(self, suite: Suite, entropy: Entropy, warm: WarmChannels, peer: str, peer_key: bytes) -> None:
        self._suite = suite
        self._entropy = entropy
        self._warm = warm
        self._is_warm = False
        self.peer = peer
        self.peer_key = peer_key
        self._sealing: SealingKeys | None = None
        self._opening: OpeningKeys | None = None

    def cool(self) -> None:
        """Drop the ciphers; the keys can make them again."""
        self._is_warm = False
        if self._sealing is not None and self._opening is not None:
            self._sealing.cool()
            self._opening.cool()

    def _warm_up(self) -> bool:
        """Whether the keys may be used: not if another process has them too."""
        self._is_warm = self._warm.admit(self)
        return self._is_warm

    @property
    def overhead_bytes(self) -> int:
        """Header and tag."""
        return OVERHEAD_BYTES

    def seal_run(self, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        """Return whole datagrams of data. Raises UsageError if there are no keys yet, or no longer any."""
        if self._sealing is None or not (self._is_warm or self._warm_up()):
            raise self._refuse(_DATA.name, "the handshake is not over")
        return self._sealing.seal(_DATA, connection_id, counter, payloads, now_ns)

    def open(self, datagram: bytes, header: Header, now_ns: int) -> bytes:
        """Return the payload of a datagram. Raises ProtocolError: see ``Channel``, and ``not-open`` without keys."""
        kind = header.kind
        if kind is _DATA or kind is _CHALLENGE or kind is _RESPONSE:
            if self._opening is None or not (self._is_warm or self._warm_up()):
                raise ProtocolError(DropReason.NOT_OPEN)
            opened = self._opening.open([datagram], [header.counter], header.epoch, now_ns)
            if opened.errors:
                raise opened.errors[0]
            return opened.payloads[0]
        return self._open_hello(datagram, header, now_ns)

    def open_run(self, datagrams: list[bytes], counters: list[int], header: Header, now_ns: int) -> Opened:
        """Return the payloads of data that came together."""
        if self._opening is None or not (self._is_warm or self._warm_up()):
            return Opened([], [], [ProtocolError(DropReason.NOT_OPEN) for _ in datagrams])
        return self._opening.open(datagrams, counters, header.epoch, now_ns)

    def _open_hello(self, _datagram: bytes, header: Header, _now_ns: int) -> bytes:
        raise ProtocolError(DropReason.UNEXPECTED_ACCEPT, header.kind.name)

    def _refuse(self, what: str, why: str) -> UsageError:
        why = "the session is that of the parent process" if self._warm.has_ended else why
        return UsageError(f"seal {what}: {why}")

    def _have(self, sealing: bytes, opening: bytes, now_ns: int) -> None:
        self._sealing = SealingKeys(self._suite, sealing, now_ns)
        self._opening = OpeningKeys(self._suite, opening, now_ns)


class _Caller(_Secured):
    __slots__ = (
        "_attempts",
        "_choices",
        "_cookie",
        "_cookie_ns",
        "_is_talking",
        "_psk",
        "_retry_ns",
        "_scheme",
        "_turn",
    )

    def __init__(
        self, suite: Suite, entropy: Entropy, warm: WarmChannels, scheme: str, peer: Peer, choices: list[_Choice]
    ) -> None:
        super().__init__(suite, entropy, warm, peer.name, choices[0].peer_key)
        self._scheme = scheme
        self._psk = peer.psk
        self._choices = choices
        self._turn = 0
        self._attempts: OrderedDict[int, _Attempt] = OrderedDict()
        self._cookie = b""
        self._cookie_ns = 0
        self._retry_ns = 0
        self._is_talking = False

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes, now_ns: int) -> bytes:
        """Return the whole datagram. Raises UsageError if it cannot be sealed in this state."""
        if kind is _CONNECT:
            return self._connect(connection_id, counter, payload, now_ns)
        if self._sealing is None or not (self._is_warm or self._warm_up()):
            raise self._refuse(kind.name, "no accept has been opened")
        self._talk()
        return self._sealing.seal(kind, connection_id, counter, [payload], now_ns)[0]

    def seal_run(self, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        """Return whole datagrams of data. Raises UsageError as ``seal``."""
        sealed = super().seal_run(connection_id, counter, payloads, now_ns)
        self._talk()
        return sealed

    def _talk(self) -> None:
        if not self._is_talking:
            self._is_talking = True
            self._attempts.clear()

    def _connect(self, connection_id: int, counter: int, hello: bytes, now_ns: int) -> bytes:
        if self._warm.has_ended or self._is_talking or counter in self._attempts:
            raise self._refuse(f"CONNECT {counter}", "data has been sealed, or a connect of that number")
        header = Header(_CONNECT, connection_id, counter).encode()
        # A silent peer may not know this key yet, or may have lost that one: the next connect tries others.
        choice = self._choices[self._turn % len(self._choices)]
        handshake = Handshake(
            Pattern.IKPSK2,
            self._suite,
            initiator=True,
            prologue=_prologue(self._scheme, header),
            static=choice.own.pair,
            remote_static=choice.peer_key,
            psk=self._psk,
        )
        said = header + handshake.write(_pad(hello), self._entropy(KEY_BYTES))
        said += mac(self._cookie, said) if self._cookie and now_ns < self._cookie_ns else _NO_COOKIE
        shown = mac(choice.peer_macs.hello, said)
        self._attempts[counter] = _Attempt(self._turn, choice, handshake, shown)
        self._turn += 1
        if len(self._attempts) > ATTEMPTS_MAX:
            self._attempts.popitem(last=False)
        return said + shown

    def _open_hello(self, datagram: bytes, header: Header, now_ns: int) -> bytes:
        attempt = None if self._warm.has_ended else self._attempts.get(header.counter)
        if attempt is None or header.kind not in (_ACCEPT, _RETRY):
            raise ProtocolError(DropReason.UNEXPECTED_ACCEPT, f"{header.kind.name} {header.counter}")
        if header.epoch:
            raise ProtocolError(DropReason.BAD_HEADER, f"epoch {header.epoch}")
        if header.kind is _RETRY:
            self._obey(attempt, datagram, now_ns)
            return b""
        return self._agree(attempt, datagram, header, now_ns)

    def _agree(self, attempt: _Attempt, datagram: bytes, header: Header, now_ns: int) -> bytes:
        choice = attempt.choice
        if not mac_fits(choice.own.macs.hello, datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]):
            raise ProtocolError(DropReason.BAD_MAC)
        hello = attempt.handshake.read(datagram[HEADER_BYTES:-MAC_BYTES])
        del self._attempts[header.counter]
        self._have(*attempt.handshake.split(), now_ns)
        self.peer_key = choice.peer_key
        self._choices = [choice]
        return hello

    def _obey(self, attempt: _Attempt, datagram: bytes, now_ns: int) -> None:
        """Obey a retry: the connect must be sent again, with this cookie."""
        said, shown = datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]
        if len(datagram) != _RETRY_BYTES or not mac_fits(attempt.choice.peer_macs.retry, said + attempt.mac, shown):
            raise ProtocolError(DropReason.BAD_MAC)
        if attempt.retried or now_ns < self._retry_ns:
            raise ProtocolError(DropReason.REPLAYED, "RETRY")
        attempt.retried = True
        self._retry_ns = now_ns + RETRY_PAUSE_NS
        self._cookie, self._cookie_ns = said[HEADER_BYTES:], now_ns + COOKIE_LIFE_NS
        self._turn = attempt.turn


class _Answerer(_Secured):
    """The channel of the acceptor: made from a connect, and good for one accept."""

    __slots__ = ("_connect_bytes", "_handshake")

    def __init__(
        self, suite: Suite, entropy: Entropy, warm: WarmChannels, peer: Peer, handshake: Handshake, connect_bytes: int
    ) -> None:
        super().__init__(suite, entropy, warm, peer.name, handshake.remote_static)
        self._handshake: Handshake | None = handshake
        self._connect_bytes = connect_bytes

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes, now_ns: int) -> bytes:
        """Return the whole datagram. Raises UsageError if it cannot be sealed in this state."""
        if kind is _ACCEPT:
            return self._accept(connection_id, counter, payload, now_ns)
        if self._sealing is None or not (self._is_warm or self._warm_up()):
            raise self._refuse(kind.name, "the accept has not been sealed")
        return self._sealing.seal(kind, connection_id, counter, [payload], now_ns)[0]

    def _accept(self, connection_id: int, counter: int, hello: bytes, now_ns: int) -> bytes:
        if self._handshake is None or self._warm.has_ended:
            raise self._refuse(f"ACCEPT {counter}", "one connect has one accept")
        header = Header(_ACCEPT, connection_id, counter).encode()
        message = self._handshake.write(hello, self._entropy(KEY_BYTES))
        if len(header) + len(message) + MAC_BYTES > self._connect_bytes:
            raise UsageError(f"seal ACCEPT {counter}: a hello of {len(hello)} bytes is longer than what asked for it")
        shown = mac(_MacKeys.of(self.peer_key).hello, header + message)
        opening, sealing = self._handshake.split()
        self._have(sealing, opening, now_ns)
        self._handshake = None
        return header + message + shown


def _prologue(scheme: str, header: bytes) -> bytes:
    """What both ends agree on without sending it; the suite is in the handshake's name, the version in the header."""
    return b"Triack " + scheme.encode() + b" " + header


def _pad(hello: bytes) -> bytes:
    return (_LENGTH.pack(len(hello)) + hello).ljust(CONNECT_BYTES - _CONNECT_ADDS + _LENGTH.size, b"\0")


def _unpad(padded: bytes) -> bytes:
    if len(padded) < _LENGTH.size:
        raise ProtocolError(DropReason.BAD_HELLO, "too short")
    (length,) = _LENGTH.unpack_from(padded)
    hello = padded[_LENGTH.size : _LENGTH.size + length]
    if len(hello) < length:
        raise ProtocolError(DropReason.BAD_HELLO, f"{length} bytes in a connect that has {len(hello)}")
    return hello
