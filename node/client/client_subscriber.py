"""Reading a subscription of a node in another process."""

from collections.abc import Generator
from typing import Any, Self

from triack.base.errors import ConnectionLost
from triack.base.names import TOPIC_PREFIX
from triack.node.client.client_consumer import ClientConsumer
from triack.node.control.control_frames import Caller, Header
from triack.node.shell.holding import task_name
from triack.queues.node_settings import Redelivery


class ClientSubscriber(ClientConsumer):
    """An async iterator over the messages of one subscription; also an async context manager. See ``Subscriber``.

    It begins with ``async with``, or with the first request for a message. When the process of the node ends, it
    continues
    with the next one: a subscription that is not durable then begins anew, and misses what came in between.
    """

    def __init__(
        self, client: Caller, pattern: str, redelivery: Redelivery | None, *, auto: bool, name: str | None, **about: Any
    ) -> None:
        queue = pattern if f"/{TOPIC_PREFIX}" in pattern else f"{TOPIC_PREFIX}{pattern}"
        super().__init__(client, queue, redelivery, auto=auto, hand_over_timeout=None, name=name)
        self._about = {"pattern": pattern, **about}
        self._is_paused = False

    def __repr__(self) -> str:
        return f"<ClientSubscriber to {self._about['pattern']}>"

    async def _ask_for_reader(self, name: str) -> Header:
        about = {**self._about, "redelivery": self._redelivery, "paused": self._is_paused}
        begun, _ = await self._client.call("subscribe", **about, name=name)
        return begun

    async def pause(self) -> None:
        """See ``Subscriber.pause``. It stays paused with the next process of the node."""
        await self._set_paused(paused=True)

    async def resume(self) -> None:
        """See ``Subscriber.resume``."""
        await self._set_paused(paused=False)

    async def _set_paused(self, *, paused: bool) -> None:
        self._check_open()
        self._is_paused = paused
        while True:
            epoch = await self._client.connected()
            try:
                await self._begin_on(epoch, self._name or task_name())
                await self._client.call("pause_reader", epoch=self._epoch, reader=self._number, paused=paused)
            except ConnectionLost:
                await self._client.lost(epoch)
            else:
                return

    async def __aenter__(self) -> Self:
        await self._begin_on(await self._client.connected(), self._name or task_name())
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        """``await node.subscribe(...)`` enters it."""
        return self.__aenter__().__await__()
