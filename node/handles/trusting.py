"""The verbs of a node about its own key, the peers that it trusts, and the enrolment of nodes at each other."""

from collections.abc import Iterable

from triack.base.checks import check_kind, check_texts
from triack.node.files.keys import KeyKind, decode_key
from triack.node.shell.engine_handle import OnPort
from triack.node.shell.enrolling import EnrolledPeer


class Trusting(OnPort):
    """The verbs of a ``Node`` about its peers."""

    async def trust(
        self,
        name: str,
        key: str | None = None,
        *addresses: str,
        send: Iterable[str] | None = None,
        psk: str | None = None,
        keep_alive_s: float | None = None,
        may_relay: Iterable[str] | None = None,
        relays_for: Iterable[str] | None = None,
        may_subscribe: Iterable[str] | None = None,
        seal: bool | None = None,
        sealed_only: bool | None = None,
    ) -> None:
        """Trust a peer from now on, also after a restart of the node, or add to its entry.

        Args:
            name: this node's name for it, in destinations and logs.
            key: its public key, from its ``node.key`` or ``triack keygen``; one more, if it has one.
            *addresses: where it may be; none for a peer that connects itself.
            send: patterns of the only queues that it may send to, such as ``["orders", "in-*"]``; None for all, or as
                it was.
            psk: an additional secret that both nodes share (``triack trust psk`` makes one).
            keep_alive_s: for a node that the peer cannot reach, as it is behind a firewall or an address translator:
                keep a session with the peer open, and over UDP send something in it at least once in this many seconds,
                so that the devices in between keep it. 0 for none; None as it was, which is
                ``NodeSettings.keep_alive_s`` for a node that listens nowhere, and none for others.
            may_relay: patterns of the nodes that the peer may send to through this one, such as ``["plant-*"]``; None
                as it was, which is none for a new peer.
            relays_for: patterns of the nodes whose messages the peer may bring here as a relay, by the names that the
                first relay has for them; None as it was, which is none for a new peer.
            may_subscribe: patterns of the topics of this node to which the peer may subscribe, such as
                ``["Games.#"]``; ``#`` is every topic. None as it was, which is none for a new peer.
            seal: whether all messages for it are sealed, so that no node on the way can read them; None as it was.
            sealed_only: whether its messages that a relay brings, and all messages that it brings as a relay, must come
                sealed; None as it was.

        Raises:
            KeyUnreadable: a text is no key of its kind.
            AddressError: a name or address cannot be read.
            UsageError: a key or address is another peer's; ``send``, ``may_relay``, ``relays_for`` or
                ``may_subscribe`` is no list; or the node runs without keys.
            IdentityError: the trust file cannot be read or written.
        """
        port = self._port
        keys = [] if key is None else [decode_key(KeyKind.PUBLIC, key)]
        secret = None if psk is None else decode_key(KeyKind.SHARED, psk)
        lists = {"send": send, "may_relay": may_relay, "relays_for": relays_for, "may_subscribe": may_subscribe}
        patterns = {it: check_texts(f"trust {name}: {it}", some) for it, some in lists.items() if some is not None}
        fields = {"may_send": patterns.pop("send", None), "psk": secret, "keep_alive_s": keep_alive_s, **patterns}
        own = [decode_key(KeyKind.PUBLIC, text) for text in port.access.keys]
        await port.change_trust(
            lambda file: file.add(
                name, keys=keys, addresses=addresses, own=own, seal=seal, sealed_only=sealed_only, **fields
            )
        )

    async def revoke(self, name: str) -> None:
        """Stop trusting a peer: its sessions end now. Messages to it stay queued.

        Raises:
            UsageError: there is no such peer, or the node runs without keys.
            IdentityError: the trust file cannot be read or written.
        """
        check_kind("revoke: the name", name, str)
        await self._port.change_trust(lambda file: file.remove(name))

    async def _reread(self) -> None:
        """Read the files of keys and peers again, and use them: another process has changed them.

        Raises IdentityError: a file cannot be used; its former content stays in force.
        """
        port = self._port
        port.check_alive()
        await port.access.reread(port.work)

    async def enrol(
        self,
        code: str,
        url: str,
        *,
        name: str | None = None,
        send: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> EnrolledPeer:
        """Enrol at a node with a code that it has given out; when this returns, each of the two trusts the other.

        Args:
            code: the code from the other node's ``invite``.
            url: where that node listens.
            name: this node's name for the other; None uses that node's own name, unless a peer has it.
            send: patterns of the only queues that the other may send to; None for all.
            timeout: seconds to keep asking, None for half a minute.

        Raises:
            UsageError, AddressError: the code was mistyped, a name or an address is not valid; or the node runs
                without keys.
            EnrolmentFailed: no answer in that time, for any reason; or this node cannot trust the other.
        """
        port = self._port
        port.check_alive()
        patterns = None if send is None else check_texts("enrol: send", send)
        return await port.enrolling.call(code, url, name, patterns, timeout)
