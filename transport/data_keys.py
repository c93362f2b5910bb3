"""The keys of one direction of a connection: each is used for a while, and the next is derived from it.

    epoch 0 --2^20 datagrams, or 120 s--> epoch 1 --> epoch 2 --> ...

The sealing end moves to the next epoch by itself and names it in the header; the opening end follows when a datagram
of a later epoch has a good tag. An older key cannot be found from a newer one, so leaked keys open nothing that was
sent before (Noise, section 11.3). An epoch's number in the header has 16 bits and may wrap: it only has to tell
neighbours apart, as no key is used again.

Ciphers are made of keys when they are needed, and kept until ``cool``. Pure: the clock is an argument.
"""

from cryptography.exceptions import InvalidTag

from triack.base.datagram import HEADER, HEADER_BYTES, VERSION, Kind, Opened
from triack.base.errors import ProtocolError, UsageError
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.transport.noise import NONCE_BEGIN, NONCE_MAX, TAG_BYTES, Aead, Suite, next_key
from triack.transport.replay_window import ReplayWindow

OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES
REKEY_DATAGRAMS = 1 << 20
"""Datagrams sealed with one key: a two-thousandth of the bytes within AES-GCM's margin (2^24.5 full records, RFC 8446
section 5.5), and few enough for tests to reach it."""
REKEY_NS = 120 * SECOND
"""How long one key seals: as long as WireGuard's (section 6.1 of its paper)."""
EXPIRY_NS = 180 * SECOND
"""How long one key opens: as long as it seals, and half of that again for datagrams in flight."""
PREVIOUS_NS = 60 * SECOND
"""How long the previous key is kept beside a new one: the same half."""
AHEAD_MAX = 64
"""Epochs that a peer may have moved on unheard: two hours in which everything was lost."""
FORGERIES_MAX = 1 << 20
"""Datagrams with a bad tag on one connection: far below the 2^36 that RFC 9001 (section 6.6) allows the weaker of our
two ciphers, ChaCha20-Poly1305, and no honest path damages that many."""
_COUNTER = {"big": slice(HEADER_BYTES - 8, HEADER_BYTES), "little": slice(HEADER_BYTES - 1, HEADER_BYTES - 9, -1)}
"""Where a header has the counter that is the nonce's number, by the byte order that a cipher wants."""
_EPOCHS = 1 << 16
"""Of the header's 16 bits."""
_EPOCH_MASK = _EPOCHS - 1  # cuts a number to those bits


class _Keys:
    """The keys of one end: the present one, and its cipher once it is needed."""

    __slots__ = ("_aead", "_epoch", "_key", "_nonce", "_suite")

    def __init__(self, suite: Suite, key: bytes) -> None:
        self._suite = suite
        self._nonce = _COUNTER[suite.byte_order]
        self._epoch = 0
        self._key = key
        self._aead: Aead | None = None

    def cool(self) -> None:
        """Keep the key alone, until it is needed."""
        self._aead = None

    def _make(self) -> Aead:
        aead = self._aead = self._suite.aead(self._key)
        return aead


class SealingKeys(_Keys):
    """The keys that this end seals with."""

    __slots__ = ("_last", "_left", "_until_ns")

    def __init__(self, suite: Suite, key: bytes, now_ns: int) -> None:
        super().__init__(suite, key)
        self._last = -1
        self._use(key, now_ns)

    def seal(self, kind: Kind, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        """Return whole datagrams with consecutive counters. Raises UsageError if the first is not above all so far."""
        if not self._last < counter <= NONCE_MAX - len(payloads):
            # The same counter twice would let anyone forge datagrams under AES-GCM: refuse even our own mistake.
            raise UsageError(f"seal datagram {counter}: {self._last} was sealed before it")
        sealed: list[bytes] = []
        while payloads:
            if now_ns >= self._until_ns or not self._left:
                self._epoch = (self._epoch + 1) & _EPOCH_MASK
                self._use(next_key(self._suite, self._key), now_ns)
            some, payloads = payloads[: self._left], payloads[self._left :]
            self._left -= len(some)
            aead = self._aead or self._make()
            encrypt, of_header, header_of = aead.encrypt, self._nonce, HEADER.pack
            epoch = self._epoch
            for payload in some:
                header = header_of(kind, VERSION, epoch, connection_id, counter)
                sealed.append(header + encrypt(NONCE_BEGIN + header[of_header], payload, header))
                counter += 1
        self._last = counter - 1
        return sealed

    def _use(self, key: bytes, now_ns: int) -> None:
        self._key = key
        self._aead = None
        self._left = REKEY_DATAGRAMS
        self._until_ns = now_ns + REKEY_NS


class OpeningKeys(_Keys):
    """The keys that this end opens with."""

    __slots__ = ("_ahead", "_expiry_ns", "_forgeries", "_look_ns", "_previous", "_previous_ns", "_window")

    def __init__(self, suite: Suite, key: bytes, now_ns: int) -> None:
        super().__init__(suite, key)
        self._window = ReplayWindow()
        self._forgeries = 0
        self._expiry_ns = now_ns + EXPIRY_NS
        self._previous = b""
        self._previous_ns = 0
        # When the next key goes. Until then, datagrams of the current epoch need no closer look.
        self._look_ns = self._expiry_ns
        self._ahead: list[bytes] = []

    def open(self, datagrams: list[bytes], counters: list[int], epoch: int, now_ns: int) -> Opened:
        """Return the payloads of datagrams whose headers have these counters and that epoch.

        The errors: ``too-short``, ``replayed``, ``key-expired``, ``bad-tag``, ``too-many-forgeries``. Only the count of
        forgeries has changed by such a datagram.
        """
        good, payloads, errors = counters, list[bytes](), list[ProtocolError]()
        window, of_header = self._window, self._nonce
        for datagram, counter in zip(datagrams, counters, strict=True):
            try:
                steps, aead = 0, self._aead or self._make()
                in_turn = counter > window.newest and epoch == self._epoch and now_ns < self._look_ns
                if not in_turn or len(datagram) < OVERHEAD_BYTES:
                    steps, aead = self._look(datagram, counter, epoch, now_ns)
                header = datagram[:HEADER_BYTES]
                payload = aead.decrypt(NONCE_BEGIN + header[of_header], datagram[HEADER_BYTES:], header)
            except (InvalidTag, ProtocolError) as cause:
                errors.append(cause if isinstance(cause, ProtocolError) else self._forged())
                good = [*good[: len(payloads)], *good[len(payloads) + 1 :]]
                continue
            if steps:
                self._follow(steps, now_ns)
            if counter == window.newest + 1 and not window.missing:  # on an honest path all but a few
                window.newest = counter
            else:
                window.take(counter)
            payloads.append(payload)
        return Opened(good, payloads, errors)

    def _look(self, datagram: bytes, counter: int, epoch: int, now_ns: int) -> tuple[int, Aead]:
        """The key for a datagram that needs a closer look, and how many steps it is ahead."""
        if len(datagram) < OVERHEAD_BYTES:
            raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
        if counter <= self._window.newest and self._window.has(counter):
            raise ProtocolError(DropReason.REPLAYED, str(counter))
        if self._forgeries >= FORGERIES_MAX:
            raise ProtocolError(DropReason.TOO_MANY_FORGERIES)
        if now_ns >= self._previous_ns:
            self._previous, self._look_ns = b"", self._expiry_ns
        steps = (epoch - self._epoch) & _EPOCH_MASK
        if steps == 0 and now_ns < self._expiry_ns:
            return 0, self._aead or self._make()
        if steps == _EPOCH_MASK and self._previous:
            return 0, self._suite.aead(self._previous)
        if steps == 0 or steps >= _EPOCHS // 2:
            raise ProtocolError(DropReason.KEY_EXPIRED, f"epoch {epoch}")
        if steps > AHEAD_MAX:
            raise self._forged()
        while len(self._ahead) < steps:
            # Kept even if this datagram is forged, so that forgeries cause this work only once in an epoch.
            self._ahead.append(next_key(self._suite, self._ahead[-1] if self._ahead else self._key))
        return steps, self._suite.aead(self._ahead[steps - 1])

    def _follow(self, steps: int, now_ns: int) -> None:
        if steps == 1:
            self._previous, self._previous_ns = self._key, min(now_ns + PREVIOUS_NS, self._expiry_ns)
        else:
            self._previous, self._previous_ns = self._ahead[steps - 2], now_ns + PREVIOUS_NS
        self._key, self._aead = self._ahead[steps - 1], None
        self._ahead.clear()
        self._epoch = (self._epoch + steps) & _EPOCH_MASK
        self._expiry_ns = now_ns + EXPIRY_NS
        self._look_ns = min(self._previous_ns, self._expiry_ns)

    def _forged(self) -> ProtocolError:
        self._forgeries += 1
        if self._forgeries < FORGERIES_MAX:
            return ProtocolError(DropReason.BAD_TAG)
        self._look_ns = 0  # every datagram gets the second look from now on, and is refused
        return ProtocolError(DropReason.TOO_MANY_FORGERIES)
