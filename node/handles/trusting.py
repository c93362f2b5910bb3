"""The verbs of a node about its peers: who it is, whom it trusts, and how two nodes come to know each other."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from triack.base.checks import check_texts
from triack.base.errors import UsageError
from triack.node.files.keys import KeyKind, decode_key
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.enrolling import EnrolledPeer, OpenInvitation

__all__ = ["Trusting"]


class Trusting(ABC):
    """What a ``Node`` can be told about its peers."""

    @property
    @abstractmethod
    def _port(self) -> EngineHandle:
        """The node's port. Raises NodeClosed before the start."""

    @property
    def key(self) -> str:
        """The public key by which others know this node, as text; it says nothing that has to be hidden.

        Raises:
            UsageError: the node runs without keys.
            NodeClosed: it was not started.
        """
        return self._port.keys[0]

    async def trust(
        self,
        name: str,
        key: str | None = None,
        *addresses: str,
        send: Iterable[str] | None = None,
        psk: str | None = None,
        keep_alive_s: float | None = None,
    ) -> None:
        """Trust a peer from now on, in later lives of the node, too, or add to what is known of it.

        Args:
            name: what this node calls it, in destinations and logs.
            key: its public key, as its ``node.key`` or ``triack keygen`` say; one more, if it has one.
            *addresses: where it may be; none for a peer that calls.
            send: patterns of the only queues that it may send to, such as ``["orders", "in-*"]``; None for all, or as
                it was.
            psk: a secret that both have agreed on besides (``triack trust psk`` makes one).
            keep_alive_s: the peer cannot call this node, which is behind a firewall or an address translator: keep a
                session with it open, and let it send something over UDP at least every so many seconds, so that what is
                in between does not forget it. 0 for none; None as it was, which is ``NodeSettings.keep_alive_s`` for a
                node that listens nowhere, and none for others.

        Raises:
            KeyUnreadable: a text that is no key of its kind.
            AddressError: a name or address that cannot be read.
            UsageError: a key or address that is another peer's; ``send`` is no list; or the node runs without keys.
            IdentityError: the trust file cannot be read or written.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        keys = [] if key is None else [decode_key(KeyKind.PUBLIC, key)]
        secret = None if psk is None else decode_key(KeyKind.SHARED, psk)
        patterns = None if send is None else check_texts(f"trust {name}: send", send)
        own = [decode_key(KeyKind.PUBLIC, text) for text in port.keys]
        await port.change_trust(
            lambda file: file.add(
                name, keys=keys, addresses=addresses, may_send=patterns, psk=secret, keep_alive_s=keep_alive_s, own=own
            )
        )

    async def revoke(self, name: str) -> None:
        """Trust a peer no longer: its sessions end now. What was to be sent to it stays queued.

        Raises:
            UsageError: there is no such peer, or the node runs without keys.
            IdentityError: the trust file cannot be read or written.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._port.change_trust(lambda file: file.remove(name))

    async def _reread(self) -> None:
        """Act by the node's keys and peers as they are written down now: another process has changed them.

        Raises:
            IdentityError: a file cannot be used; what was in force is so still.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._port.reread()

    async def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> OpenInvitation:
        """Make a one-time code, with which another node can come and be trusted.

        Both learn each other's keys and addresses, and that they are the right ones: nobody can stand between them who
        does not know the code. Codes are kept in memory: they end with the node.

        Args:
            name: what this node calls whoever comes; None takes what it calls itself, unless a peer is called so.
            send: patterns of the only queues that it may send to; None for all.

        Returns:
            The code, good for one hour, and a way to wait for whoever comes.

        Raises:
            AddressError: a name that no peer can have.
            UsageError: 16 codes are open; ``send`` is no list; the node does not listen, or it runs without keys.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        port.check_alive()
        if not port.address:
            raise UsageError("invite: this node does not listen, so that nobody can come to it")
        return port.enrolling.invite(name, None if send is None else check_texts("invite: send", send))

    async def enrol(
        self,
        code: str,
        url: str,
        *,
        name: str | None = None,
        send: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> EnrolledPeer:
        """Come to a node with a code that it has given out; when this returns, each of the two trusts the other.

        Args:
            code: as the other node's ``invite`` has it.
            url: where that node listens.
            name: what this node calls the other; None takes what it calls itself, unless a peer is called so.
            send: patterns of the only queues that the other may send to; None for all.
            timeout: seconds to ask again and again, None for half a minute.

        Raises:
            UsageError, AddressError: a code that was mistyped, a name or an address that cannot be; or the node runs
                without keys.
            EnrolmentFailed: no answer in that time, for whatever reason; or this node cannot trust the other.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        port.check_alive()
        patterns = None if send is None else check_texts("enrol: send", send)
        return await port.enrolling.call(code, url, name, patterns, timeout)
