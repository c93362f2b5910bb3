"""What the control socket asks of the node that it belongs to."""

from collections.abc import Iterable
from typing import Protocol, Unpack

from triack.base.delivery import Delivery
from triack.base.errors import TriackError
from triack.node.handles.acknowledgements import Acknowledgements, Every
from triack.node.handles.message import Message
from triack.node.handles.receipt import Receipt
from triack.node.handles.receipts import Receipts
from triack.node.handles.requesting import REQUEST_TIMEOUT_S
from triack.node.handles.steering import Steering
from triack.node.handles.transaction import Transaction
from triack.node.shell.enrolling import EnrolledPeer, OpenInvitation
from triack.node.shell.link_events import Events
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.shell.port import Port
from triack.node.shell.stats import NodeStats

__all__ = ["Host"]


class Host(Protocol):
    """The verbs of ``triack.Node`` that reach over the control socket; ``port`` is for what has no verb."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def address(self) -> str:
        """Where it listens."""

    @property
    def node_id(self) -> str:
        """Its id."""

    @property
    def key(self) -> str:
        """Its public key."""

    @property
    def _port(self) -> Port:
        """Its port."""

    async def failed(self) -> TriackError:
        """See ``Node.failed``."""

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """See ``Node.send``."""

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Receipts:
        """See ``Node.send_many``."""

    async def request(
        self,
        destination: str,
        body: bytes,
        *,
        timeout: float = REQUEST_TIMEOUT_S,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Message:
        """See ``Node.request``."""

    def transaction(self) -> Transaction:
        """See ``Node.transaction``."""

    def acknowledgements(
        self, destination: str, *, delivery: Delivery = Delivery.TRANSACTIONAL, every: Every = None
    ) -> Acknowledgements:
        """See ``Node.acknowledgements``."""

    def events(self) -> Events:
        """See ``Node.events``."""

    async def flush(self) -> None:
        """See ``Node.flush``."""

    async def drain(self, timeout: float | None = None) -> None:
        """See ``Node.drain``."""

    def recall(self, key: str) -> bytes | None:
        """See ``Node.recall``."""

    async def trust(
        self,
        name: str,
        key: str | None = None,
        *addresses: str,
        send: Iterable[str] | None = None,
        psk: str | None = None,
        keep_alive_s: float | None = None,
    ) -> None:
        """See ``Node.trust``."""

    async def revoke(self, name: str) -> None:
        """See ``Node.revoke``."""

    async def _reread(self) -> None:
        """Acts by its keys and peers as they are written down."""

    async def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> OpenInvitation:
        """See ``Node.invite``."""

    async def enrol(
        self,
        code: str,
        url: str,
        *,
        name: str | None = None,
        send: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> EnrolledPeer:
        """See ``Node.enrol``."""

    def queue_lengths(self) -> dict[str, int]:
        """See ``Node.queue_lengths``."""

    def stats(self) -> NodeStats:
        """See ``Node.stats``."""

    @property
    def _steering(self) -> Steering:
        """Looks into its queues."""
