"""The trust file of a node: its peers, their keys, their addresses and their permissions.

The file ``trust.json`` in a data directory holds, for people and programs to read and change:

    {
      "version": 1,
      "peers": {
        "plant-b": {
          "keys": ["triack-public-..."],
          "addresses": ["udp://plant-b.example:7801"],
          "may_send": ["*"],
          "psk": "triack-shared-...",
          "keep_alive_s": 25,
          "may_relay": ["plant-*"],
          "relays_for": ["plant-*"],
          "may_subscribe": ["Games.#"],
          "seal": true,
          "sealed_only": true
        }
      }
    }

Every field of a peer may be left out. A file with any mistake is rejected as a whole, with the place of the mistake, so
that no peer is trusted or distrusted by accident.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from triack.base.errors import IdentityError, TriackError, UsageError
from triack.base.names import check_name, check_permitted, composed
from triack.base.peers import NO_PSK, Peer
from triack.base.printable import printable
from triack.node.files.keys import KeyKind, decode_key, encode_key
from triack.node.files.private_files import Files
from triack.transport.address import Address

TRUST_FILE = "trust.json"
"""The ending is for editors."""
VERSION = 1
"""Of the file's format; another one is rejected."""
KEEP_ALIVE_MIN_S, KEEP_ALIVE_MAX_S = 1, 86_400
"""No middle box forgets a flow within a second (RFC 4787, section 4.3, requires two minutes), and a flow that one ping
a day keeps open needs none."""
PATTERN_LETTERS_MAX = 256
"""Twice as many as in a queue's name."""


class TrustFile:
    """The peers of a node, in its data directory."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def load(self) -> list[Peer]:
        """All peers. Raises IdentityError: the file is damaged, not private to its owner, or cannot be read."""
        return self.decode(self.files.read(TRUST_FILE))

    def decode(self, content: bytes | None) -> list[Peer]:
        """All peers in a content of the file; none if there is no file. Raises IdentityError."""
        return [] if content is None else decode_trust(content, self.files.where(TRUST_FILE))

    def add(
        self,
        name: str,
        *,
        keys: Iterable[bytes] = (),
        addresses: Iterable[str] = (),
        own: Iterable[bytes] = (),
        **fields: Any,
    ) -> Peer:
        """Trust a peer, or add to its entry; durable when this returns. Returns the new entry.

        Keys and addresses follow those that it has. ``fields`` are others of ``Peer``; None keeps one unchanged. No
        peer may have a key of the node's ``own``.

        Raises:
            AddressError, UsageError: an argument is not valid, or belongs to another peer; or the peer would have
                neither a key nor an address.
            IdentityError, StoreError: the file cannot be read or written.
        """
        name = check_name(name)
        _check_foreign(name, keys, own)
        more = [str(Address.parse(address)) for address in addresses]
        said = {field: _FIELDS[field].check(value) for field, value in fields.items() if value is not None}

        def change(peers: dict[str, Peer]) -> None:
            peers[name] = _extended(peers.get(name, Peer(name)), keys, more, said)
            if not peers[name].keys and not peers[name].addresses:
                raise UsageError(f"trust {name}: neither a key nor an address is known of it")

        return self._change(change)[name]

    def enrol(
        self,
        claimed: str,
        key: bytes,
        addresses: Iterable[str],
        *,
        name: str | None = None,
        may_send: Iterable[str] | None = None,
        own: Iterable[bytes] = (),
    ) -> Peer:
        """Trust a node that has proved that it knows a one-time code; durable when this returns. Returns its new entry.

        A peer in the file gets no other key in this way; the peer with this key gets the new addresses. Without a
        ``name`` by this node's operator, a new peer has the one that it claims.

        Raises:
            AddressError, UsageError: its name, its key or an address is another peer's, or the node's own.
            IdentityError, StoreError: the file cannot be read or written.
        """
        _check_foreign(name or claimed, (key,), own)
        more = [str(Address.parse(address)) for address in addresses]
        said = {} if may_send is None else {"may_send": _FIELDS["may_send"].check(may_send)}
        enrolled: list[str] = []

        def change(peers: dict[str, Peer]) -> None:
            owner = next((peer.name for peer in peers.values() if key in peer.keys), None)
            chosen = check_name(name or owner or claimed)
            if chosen in peers and chosen != owner:
                raise UsageError(f"trust {chosen}: there is a peer of that name, and it has another key")
            peers[chosen] = _extended(peers.get(chosen, Peer(chosen)), (key,), more, said)
            enrolled.append(chosen)

        return self._change(change)[enrolled[0]]

    def remove(self, name: str, *, keys: Iterable[bytes] = (), addresses: Iterable[str] = ()) -> None:
        """Stop trusting a peer; or, if keys or addresses are given, remove only these from it.

        Raises:
            UsageError: there is no such peer, or it has no such key or address.
            IdentityError, StoreError: the file cannot be read or written.
        """
        name = composed(name)
        gone_keys, gone_addresses = set(keys), {str(Address.parse(address)) for address in addresses}

        def change(peers: dict[str, Peer]) -> None:
            peer = peers.get(name)
            if peer is None:
                raise UsageError(f"remove {name}: there is no such peer")
            if not gone_keys <= set(peer.keys) or not gone_addresses <= set(peer.addresses):
                raise UsageError(f"remove from {name}: it has no such {'address' if gone_addresses else 'key'}")
            if not gone_keys and not gone_addresses:
                del peers[name]
                return
            peers[name] = replace(
                peer,
                keys=tuple(key for key in peer.keys if key not in gone_keys),
                addresses=tuple(address for address in peer.addresses if address not in gone_addresses),
            )

        self._change(change)

    def _change(self, change: Callable[[dict[str, Peer]], None]) -> dict[str, Peer]:
        peers = dict[str, Peer]()

        def edit(content: bytes | None) -> bytes:
            peers.update((peer.name, peer) for peer in self.decode(content))
            change(peers)
            try:
                _check_owners(peers.values())
            except ValueError as error:
                raise UsageError(f"change trust: {error}") from None
            return encode_trust(peers.values())

        self.files.change(TRUST_FILE, edit)
        return peers


# ---- the text


def encode_trust(peers: Iterable[Peer]) -> bytes:
    """The content of a file."""
    entries = {peer.name: _describe(peer) for peer in peers}
    text = json.dumps({"version": VERSION, "peers": entries}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()


def _describe(peer: Peer) -> dict[str, Any]:
    """An entry: its keys, its addresses and what it may send, and all else that differs from a new peer."""
    fields = {name: getattr(peer, name) for name in _FIELDS}
    shown = {name: it for name, it in fields.items() if name in _ALWAYS or it != getattr(_NEW, name)}
    return {name: _FIELDS[name].write(it) for name, it in shown.items()}


def decode_trust(content: bytes, where: str) -> list[Peer]:
    """Read the content of a file. Raises IdentityError, with the file, the place and the mistake; never with a key."""
    try:
        document = json.loads(content.decode(), object_pairs_hook=_without_twins)
        fields = _fields("", document, {"version", "peers"})
        if fields.get("version") != VERSION:
            raise _Wrong("version", f"it must be {VERSION}, which this Triack reads")
        entries = _fields("peers", fields.get("peers", {}))
        peers = [_read_peer(f"peers.{name}", name, entry) for name, entry in entries.items()]
        if len({peer.name for peer in peers}) < len(peers):
            raise _Wrong("peers", "two of them have one name, written in two ways")
        _check_owners(peers)
    except json.JSONDecodeError as error:
        # Not with the error as its cause, which contains the whole file.
        raise IdentityError(f"read {where}, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise IdentityError(f"read {where}, byte {error.start}: not UTF-8") from None
    except RecursionError:
        raise IdentityError(f"read {where}: too deeply nested") from None
    except ValueError as error:
        # Do not show a secret in the wrong place.
        raise IdentityError(printable(f"read {where}: {error}")) from None
    return peers


class _Wrong(ValueError):
    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}" if field else why)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise _Wrong("", f"{twin!r} is there twice")
    return found


def _fields(place: str, value: object, known: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(place, "it must be an object, {...}")
    unknown = sorted(set(value) - known) if known is not None else []
    if unknown:
        raise _Wrong(place, f"there is no field {unknown[0]!r}")
    return value


def _read_peer(place: str, name: str, entry: object) -> Peer:
    fields = _fields(place, entry, set(_FIELDS))
    read = {field: _FIELDS[field].read(f"{place}.{field}", value) for field, value in fields.items()}
    return Peer(_read(place, check_name, name), **read)


def _read_truth(place: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(place, "it must be true or false")
    return value


def _read_list(place: str, read: Callable[[str], Any], values: object) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise _Wrong(place, "it must be a list, [...]")
    return tuple(_read(f"{place}[{index}]", read, value) for index, value in enumerate(values))


def _read(place: str, read: Callable[[str], Any], value: object) -> Any:
    if not isinstance(value, str):
        raise _Wrong(place, "it must be text")
    try:
        return read(value)
    except (TriackError, ValueError) as error:
        # A wrong text may be a secret in the wrong place: do not show the rest of the exception either.
        raise _Wrong(place, str(error)) from None


def _extended(peer: Peer, keys: Iterable[bytes], addresses: Iterable[str], said: dict[str, Any]) -> Peer:
    return replace(peer, keys=_united(peer.keys, keys), addresses=_united(peer.addresses, addresses), **said)


def _check_foreign(name: str, keys: Iterable[bytes], own: Iterable[bytes]) -> None:
    """Raise UsageError if a peer would get a key of the node itself."""
    if set(own) & set(keys):
        raise UsageError(f"trust {name}: this is the node's own key")


def _check_pattern(of: str, pattern: str) -> str:
    if not 0 < len(pattern) <= PATTERN_LETTERS_MAX or not pattern.isprintable():
        raise UsageError(f"{pattern!r} is no pattern of {of}")
    return composed(pattern)


def _check_keep_alive(seconds: Any) -> float:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and (seconds == 0 or KEEP_ALIVE_MIN_S <= seconds <= KEEP_ALIVE_MAX_S):
        return float(seconds)
    most = f"{KEEP_ALIVE_MIN_S} to {KEEP_ALIVE_MAX_S}"
    raise UsageError(f"keep_alive_s must be 0, for no keep-alives, or {most} seconds, not {seconds!r}")


def _read_keep_alive(place: str, seconds: Any) -> float | None:
    try:
        return None if seconds is None else _check_keep_alive(seconds)
    except UsageError as error:
        raise _Wrong(place, str(error)) from None


def _check_owners(peers: Iterable[Peer]) -> None:
    """Raise ValueError if two peers share a key or an address: it would be ambiguous which one is meant."""
    owners: dict[bytes | str, str] = {}
    for peer in peers:
        fields: dict[str, tuple[bytes | str, ...]] = {"keys": peer.keys, "addresses": peer.addresses}
        for field, values in fields.items():
            for index, value in enumerate(values):
                owner = owners.setdefault(value, peer.name)
                if owner != peer.name:
                    why = f"it is {owner}'s, too; triack trust remove {owner} frees it"
                    raise _Wrong(f"peers.{peer.name}.{field}[{index}]", why)


def _united(before: tuple[Any, ...], more: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys([*before, *more]))


class _Field(NamedTuple):
    """How the file has a field of ``Peer``.

    Attributes:
        read: reads it, given its place for errors.
        write: writes it.
        check: makes it from what a caller says.
    """

    read: Callable[[str, Any], Any]
    write: Callable[[Any], Any] = lambda it: it
    check: Callable[[Any], Any] = lambda it: it


def _texts(check: Callable[[str], Any], write: Callable[[Any], Any] = str) -> _Field:
    return _Field(
        lambda place, values: _read_list(place, check, values),
        lambda values: list(map(write, values)),
        lambda values: tuple(map(check, values)),
    )


_NODES = _texts(partial(_check_pattern, "nodes, such as plant-b or plant-*"))
_FIELDS = {
    "keys": _texts(partial(decode_key, KeyKind.PUBLIC), partial(encode_key, KeyKind.PUBLIC)),
    "addresses": _texts(lambda text: str(Address.parse(text))),
    "may_send": _texts(partial(_check_pattern, "queues, such as orders or in-*")),
    "psk": _Field(
        lambda place, text: NO_PSK if text is None else _read(place, partial(decode_key, KeyKind.SHARED), text),
        partial(encode_key, KeyKind.SHARED),
    ),
    "keep_alive_s": _Field(_read_keep_alive, check=_check_keep_alive),
    "may_relay": _NODES,
    "relays_for": _NODES,
    "may_subscribe": _texts(check_permitted),
    "seal": _Field(_read_truth),
    "sealed_only": _Field(_read_truth),
}
_ALWAYS = ("keys", "addresses", "may_send")
_NEW = Peer("")
PEER_FIELDS = tuple(_FIELDS)
