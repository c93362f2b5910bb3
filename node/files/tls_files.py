"""The TLS files that a node was given, read again whenever they change.

Promise: new connections use the certificate and the authority that the files had a moment ago; open connections keep
theirs. Files that cannot be used, such as a certificate whose key is still missing, only lead to a line in the log: the
former content stays in force.
"""

import asyncio
import ssl
import stat
from contextlib import suppress
from pathlib import Path

from triack.base.errors import IdentityError
from triack.node.files import operator_log
from triack.node.files.ownership import why_exposed
from triack.node.files.private_files import FILE_BYTES_MAX
from triack.transport.tcp import Tls

POLL_S = 1.0
"""Time between checks of the files. A certificate is renewed days before the old one ends."""

_Stamp = tuple[int, int, int, int, int]


class TlsFiles(Tls):
    """TLS for TCP, from files.

    Args:
        certificate: of the node, and those between it and its authority; PEM. None accepts connections without TLS.
        key: the private key that belongs to it, if that is in a separate file; PEM.
        authority: the authority of the certificates of others; PEM. None opens connections without TLS.

    Raises:
        IdentityError: a file cannot be used; with its name and the cause.
    """

    def __init__(self, certificate: Path | None = None, key: Path | None = None, authority: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._authority = authority
        self._paths = [path for path in (certificate, key, authority) if path is not None]
        self._wanted = asyncio.Event()
        self._stamps = self._look()
        server, client = self._read()
        super().__init__(server, client)
        self._warn_of_modes()

    def read_now(self) -> None:
        """Have the files read again now, changed or not; the log has the result."""
        self._wanted.set()

    async def watch(self) -> None:
        """Use the files again whenever they change, until cancelled."""
        before = self._stamps
        while True:
            asked = await self._is_asked()
            now = await asyncio.to_thread(self._look)
            # A certificate and its key are two files: read them when no change has come since the last check.
            if asked or now == before != self._stamps:
                await self._read_again(now)
            before = now

    async def _is_asked(self) -> bool:
        try:
            async with asyncio.timeout(POLL_S):
                await self._wanted.wait()
        except TimeoutError:
            return False
        self._wanted.clear()
        return True

    async def _read_again(self, stamps: list[_Stamp | None]) -> None:
        self._stamps = stamps
        names = ", ".join(map(str, self._paths))
        try:
            self.server, self.client = await asyncio.to_thread(self._read, asking=False)
        except IdentityError as error:
            why = f"TLS files not used, those before are still in force: {error}"
            operator_log.error(why, cause=str(error))
            return
        operator_log.info(f"TLS files read again: {names}")
        self._warn_of_modes()

    def _look(self) -> list[_Stamp | None]:
        return [_stamp_of(path) for path in self._paths]

    def _read(self, *, asking: bool = True) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
        """The contexts for the two ends. Blocks; raises IdentityError.

        ``asking``: OpenSSL may ask for the password of a key at the terminal.
        """
        server = client = None
        path = self._key or self._certificate or self._authority
        try:
            self._check_regular()
            if self._certificate is not None:
                server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                server.load_cert_chain(self._certificate, self._key, None if asking else _no_password)
            if self._authority is not None:
                client = ssl.create_default_context(cafile=self._authority)
        except OSError as error:  # errors of TLS are such
            raise IdentityError(f"read {path}: {error.strerror or error}") from error
        return server, client

    def _check_regular(self) -> None:
        """Raise IdentityError for what OpenSSL might read without end: a pipe gives its content once, or never."""
        for path in self._paths:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise IdentityError(f"read {path}: it is no regular file")
            if found.st_size > FILE_BYTES_MAX:
                raise IdentityError(f"read {path}: it has {found.st_size} bytes, over {FILE_BYTES_MAX}")

    def _warn_of_modes(self) -> None:
        secret = self._key or self._certificate
        for path in self._paths:
            with suppress(OSError):  # it has just gone
                why = why_exposed(path.stat(), secret=path == secret)
                if why is not None:
                    operator_log.warning(f"TLS file {path}: {why}")


def _no_password() -> str:
    raise IdentityError("its password is asked for at the start of the node only")


def _stamp_of(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
