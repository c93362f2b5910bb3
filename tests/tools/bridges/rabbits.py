"""A RabbitMQ of the system's packages, on loopback and in a folder of its own, and a client of it for the tests.

It takes ten seconds to start, so the tests of a file share one, and each has queues of its own.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from tests.certificates import make_certificate
from tests.tools.bridges.brokers import Broker
from triack.tools.ports import free_port

# Debian's command on the PATH gives the broker to another user; the one behind it does not.
PROGRAM = shutil.which("rabbitmq-server", path=f"/usr/lib/rabbitmq/bin:/usr/sbin:{os.environ.get('PATH', '')}")
MISSING = "no rabbitmq-server on this machine (Debian: apt-get install rabbitmq-server)"
EPMD = shutil.which("epmd")


class Rabbit(Broker):
    """A broker of AMQP.

    Args:
        folder: what it keeps.

    Attributes:
        tls_port: where it listens with TLS.
        certificate: its certificate, which is its own authority.
    """

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        assert EPMD is not None
        port, self.tls_port, epmd_port = free_port(), free_port(), free_port()
        self.certificate = make_certificate(folder)
        lines = [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", "ssl_options.verify = verify_none"]
        lines += [f"ssl_options.{name} = {self.certificate}" for name in ("certfile", "keyfile")]
        folder.joinpath("rabbit.conf").write_text("\n".join(lines) + "\n")
        environment = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"triack{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbit"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # Then the program becomes the broker, and starts no other process to look after it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        # Its own, in the foreground: the broker would start one that stays.
        self._names = subprocess.Popen([EPMD, "-port", str(epmd_port), "-address", "127.0.0.1"])
        options = {"cwd": folder, "env": environment, "start_new_session": True}
        super().__init__("amqp", port, folder / "out", [PROGRAM], **options)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It does nothing while the block runs, and closes no connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self._names.kill()
        self._names.wait()


@contextmanager
def rabbit(folder: Path) -> Iterator[Rabbit]:
    """A broker while the block runs; without the program, the test is skipped."""
    if PROGRAM is None or EPMD is None:
        pytest.skip(MISSING)
    broker = Rabbit(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@asynccontextmanager
async def channel_of(broker: Rabbit) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(f"{broker.url}/") as connection:
        yield await connection.channel()


async def fresh_queue(
    channel: AbstractChannel, name: str, arguments: Mapping[str, str | int] | None = None
) -> AbstractQueue:
    await channel.queue_delete(name)
    return await channel.declare_queue(name, durable=True, arguments=dict(arguments or {}))
