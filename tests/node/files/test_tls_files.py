"""Certificates that are renewed while a node runs."""

import asyncio
import contextlib
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import triack
from tests.certificates import make_certificate
from tests.machine import PATIENCE_S
from tests.node.nodes import SOON, WAIT, bodies, quick, until
from triack.base.errors import IdentityError
from triack.node.files import tls_files
from triack.node.files.private_files import FILE_BYTES_MAX
from triack.node.files.tls_files import TlsFiles
from triack.tools.ports import free_port


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_files, "POLL_S", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a node is given: ``both.pem`` with mode 0600."""
    make_certificate(tmp_path).chmod(0o600)
    return tmp_path


@pytest.fixture
async def files(folder: Path) -> AsyncIterator[TlsFiles]:
    files = TlsFiles(folder / "both.pem", None, folder / "both.pem")
    watching = asyncio.create_task(files.watch())
    yield files
    watching.cancel()


def renew(folder: Path) -> None:
    """Another certificate, put in the place of the one before it as a whole."""
    (folder / "new").mkdir(exist_ok=True)
    fresh = make_certificate(folder / "new")
    fresh.chmod(0o600)
    fresh.replace(folder / "both.pem")


def certificate_in(folder: Path) -> bytes:
    text = (folder / "both.pem").read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


async def served_at(port: int) -> tuple[bytes | None, asyncio.StreamWriter]:
    """A connection, and the certificate that it was shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    return writer.get_extra_info("ssl_object").getpeercert(binary_form=True), writer


async def shown_at(port: int) -> bytes | None:
    shown, writer = await served_at(port)
    writer.close()
    await writer.wait_closed()
    return shown


async def test_a_node_shows_its_new_certificate_and_keeps_its_connections(folder: Path) -> None:
    """Those that were opened with the old one go on."""
    listen = f"tcp://127.0.0.1:{free_port()}"
    tls = TlsFiles(folder / "both.pem", None, folder / "both.pem")
    asking = TlsFiles(None, None, folder / "both.pem")
    there = triack.open("there", data=None, listen=listen, tls=tls, insecure=True, settings=quick())
    async with there, triack.open("here", data=None, tls=asking, insecure=True, settings=quick()) as here:
        port = int(listen.rpartition(":")[2])
        await (await here.send(f"{listen}/q", b"before")).ordered(WAIT)
        _, old = await served_at(port)
        renew(folder)
        async with asyncio.timeout(PATIENCE_S):
            while await shown_at(port) != certificate_in(folder):
                pass
        assert not old.is_closing()
        assert old.get_extra_info("ssl_object").getpeercert(binary_form=True) != certificate_in(folder)
        old.close()
        await (await here.send(f"{listen}/q", b"after")).ordered(WAIT)
        assert await bodies(there, "q", 2) == [b"before", b"after"]


async def test_files_that_cannot_be_used_change_nothing_but_the_log(
    folder: Path, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has one line of the log. The next one that can be used is used."""
    server = files.server
    (folder / "both.pem").write_text("no certificate")
    why = f"TLS files not used, those before are still in force: read {folder / 'both.pem'}: "
    await until(lambda: why in caplog.text)
    (folder / "both.pem").unlink()
    await until(lambda: f"{why}No such file or directory" in caplog.text)
    os.mkfifo(folder / "both.pem")
    await until(lambda: f"{why}it is no regular file" in caplog.text)
    assert files.server is server
    assert caplog.text.count(why) == 3
    renew(folder)
    await until(lambda: files.server is not server)


async def test_both_ends_are_renewed(folder: Path, files: TlsFiles) -> None:
    """An authority that is not in the file any more is trusted no more."""
    old_server, old_client = files.server, files.client
    renew(folder)
    await until(lambda: files.client is not old_client)
    shake_hands(files.server, files.client)
    for server, client in ((old_server, files.client), (files.server, old_client)):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(server, client)


def shake_hands(server: ssl.SSLContext | None, client: ssl.SSLContext | None) -> None:
    """A handshake of both ends. Raises what the client has against the server."""
    assert server is not None
    assert client is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)


async def test_a_certificate_waits_for_its_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are two files, and one is there before the other."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        make_certificate(tmp_path / name)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for path in (certificate, key):
        shutil.copy(tmp_path / "old" / "both.pem", path)
        path.chmod(0o600)
    files = TlsFiles(certificate, key)
    server = files.server
    watching = asyncio.create_task(files.watch())
    shutil.copy(tmp_path / "new" / "both.pem", certificate)
    await until(lambda: "still in force" in caplog.text)
    assert files.server is server
    shutil.copy(tmp_path / "new" / "both.pem", key)
    await until(lambda: files.server is not server)
    watching.cancel()


async def test_it_is_read_at_once_when_somebody_asks(
    folder: Path, files: TlsFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Changed or not."""
    monkeypatch.setattr(tls_files, "POLL_S", PATIENCE_S)
    await asyncio.sleep(SOON)
    server = files.server
    caplog.set_level("INFO", "triack")
    files.read_now()
    await until(lambda: files.server is not server)
    assert f"TLS files read again: {folder / 'both.pem'}, {folder / 'both.pem'}" in caplog.messages


@pytest.mark.parametrize(
    ("mode", "warning"),
    [
        (0o644, "TLS file {}: other users may read it (mode 0644): chmod 600 it"),
        (0o660, "TLS file {}: other users may write to it (mode 0660)"),
        (0o600, None),
    ],
)
def test_a_key_that_others_may_use_gets_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, mode: int, warning: str | None
) -> None:
    path = folder / "both.pem"
    path.chmod(mode)
    TlsFiles(path)
    assert caplog.messages == ([] if warning is None else [warning.format(path)])


def test_a_file_that_cannot_be_used_at_the_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match=f"^read {tmp_path / 'none'}: No such file or directory$"):
        TlsFiles(tmp_path / "none")


async def test_nobody_is_asked_for_a_password_while_a_node_runs(
    folder: Path, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody may be at its terminal."""
    key = load_pem_private_key((folder / "both.pem").read_bytes(), None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    certificate = ssl.DER_cert_to_PEM_cert(certificate_in(folder)).encode()
    (folder / "both.pem").write_bytes(private + certificate)
    why = "still in force: its password is asked for at the start of the node only"
    await until(lambda: why in caplog.text)


def test_what_openssl_would_read_without_end_is_refused_at_the_start(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with (folder / "long").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    for name, why in (("pipe", "it is no regular file"), ("long", "over")):
        with pytest.raises(IdentityError, match=f"^read {folder / name}: .*{why}"):
            TlsFiles(None, None, folder / name)
