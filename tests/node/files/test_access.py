"""Nodes with keys: which peers reach them, which do not, and how that changes while they run."""

import asyncio
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, bodies, until, with_keys
from triack.base.peers import Peer
from triack.node.control.handover import reread
from triack.node.files import trust
from triack.node.files.access import SUITES
from triack.node.files.keys import IDENTITY_FILE, Identity, KeyKind, decode_key, encode_key
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TRUST_FILE, TrustFile

pytestmark = pytest.mark.usefixtures("look_often")
PSK = encode_key(KeyKind.SHARED, bytes(range(32)))
STRANGER = encode_key(KeyKind.PUBLIC, Identity.make(lambda size: bytes(range(size))).public[0])


@asynccontextmanager
async def pair(scheme: str = "udp", a_data: Path | None = None, b_data: Path | None = None, **more: Any) -> Any:
    """Two that trust each other; b listens."""
    async with with_keys("a", a_data, "", **more) as a, with_keys("b", b_data, scheme=scheme, **more) as b:
        await a.trust("plant-b", b.key, b.address)
        await b.trust("plant-a", a.key)
        yield a, b


@pytest.mark.parametrize("scheme", ["udp", "tcp", "memory"])
async def test_peers_speak_by_name(scheme: str) -> None:
    """Names are each side's own; the address of a peer means the peer; a peer that does not listen is answered."""
    async with pair(scheme) as (a, b):
        await (await a.send("plant-b/q", b"by name")).ordered(WAIT)
        await (await a.send(f"{b.address}/q", b"by address")).ordered(WAIT)
        assert await bodies(b, "q", 2) == [b"by name", b"by address"]
        await (await b.send("plant-a/answers", b"well")).ordered(WAIT)
        assert [session.peer for session in a.stats().sessions] == ["plant-b"]


@pytest.mark.parametrize("suite", sorted(SUITES))
async def test_both_suites_work(suite: str) -> None:
    """A peer with the other suite is a stranger."""
    async with pair(suite=suite) as (a, _b):
        await (await a.send("plant-b/q", b"x")).ordered(WAIT)
    with pytest.raises(triack.UsageError, match="no suite 'rot13'; there is 25519_AESGCM"):
        triack.open("a", data=None, suite="rot13")


async def test_who_is_not_trusted_gets_silence() -> None:
    """The node that it calls counts it, and that is all; trust lets in what has waited."""
    async with with_keys("a", scheme="") as a, with_keys("b") as b:
        await a.trust("b", b.key, b.address)
        receipt = await a.send("b/q", b"let me in")
        await until(lambda: b.stats().drops.get("untrusted"))
        assert (b.stats().sessions, b.queue_lengths(), a.stats().drops) == ([], {"dead-letter": 0}, {})
        await b.trust("a", a.key)
        await receipt.ordered(WAIT)


async def test_nothing_is_accepted_for_whom_no_key_is_known() -> None:
    """Refused at once, with advice: a name, a name without a key, an address."""
    async with with_keys("a", scheme="", peers={"plant-b": "udp://127.0.0.1:9"}) as a:
        for destination, why in {
            "plant-c/q": "unknown peer plant-c; did you mean plant-b",
            "plant-b/q": "no key of plant-b; `triack trust add`",
            "udp://127.0.0.1:9/q": "no key of plant-b",
            "udp://192.0.2.1:9/q": "trusts no peer at udp://192.0.2.1:9",
        }.items():
            with pytest.raises(triack.AddressError, match=why):
                await a.send(destination, b"x")
        await a.trust("plant-b", STRANGER)
        await (await a.send("plant-b/q", b"x")).queued(WAIT)
        await a.revoke("plant-b")
        with pytest.raises(triack.AddressError, match="no key of plant-b"):
            await a.send("plant-b/q", b"x")


async def test_a_revoked_peer_is_gone_at_once(tmp_path: Path) -> None:
    """By the verb, and by the file, as `triack trust remove` changes it; what comes next waits for trust."""
    async with pair("udp", None, tmp_path) as (a, b):
        await (await a.send("plant-b/q", b"0")).ordered(WAIT)
        await b.revoke("plant-a")
        await until(lambda: not b.stats().sessions)
        assert b.stats().closes == {"revoked": 1}
        receipt = await a.send("plant-b/q", b"1")
        await until(lambda: b.stats().drops.get("untrusted"))
        await b.trust("plant-a", a.key)
        await receipt.ordered(WAIT)

        TrustFile(PrivateFiles(tmp_path)).remove("plant-a")
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: not b.stats().sessions)
        assert await bodies(b, "q", 2) == [b"0", b"1"]


async def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A comma too many must not lose all peers; a file that is gone trusts nobody. The same for keys."""
    async with pair("udp", None, tmp_path) as (a, b):
        content = (tmp_path / TRUST_FILE).read_bytes()
        for name in (TRUST_FILE, IDENTITY_FILE):
            (tmp_path / name).write_bytes(b"{,}")
            await until(lambda name=name: f"{name} not used, the one before is still in force" in caplog.text)
        (tmp_path / IDENTITY_FILE).unlink()
        await until(lambda: "it has gone" in caplog.text)
        await (await a.send("plant-b/q", b"x")).ordered(WAIT)
        (tmp_path / TRUST_FILE).unlink()
        await until(lambda: not b.stats().sessions)
        PrivateFiles(tmp_path).change(TRUST_FILE, lambda _: content)
        await (await a.send("plant-b/q", b"x")).ordered(WAIT)


async def test_lists_of_peers_are_read_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be long. It holds for a change by the node, for one by another process, and for a reread."""
    threads: list[threading.Thread] = []
    real = trust.decode_trust

    def decode(content: bytes, where: str) -> list[Peer]:
        threads.append(threading.current_thread())
        return real(content, where)

    async with pair("udp", None, tmp_path) as (_a, b):
        monkeypatch.setattr(trust, "decode_trust", decode)
        await b.trust("plant-c", STRANGER)
        TrustFile(PrivateFiles(tmp_path)).remove("plant-c")
        threads.remove(threading.current_thread())
        await until(lambda: len(threads) == 3)
        await reread(tmp_path)
        assert len(threads) == 4
        assert threading.current_thread() not in threads


async def test_a_key_is_exchanged_without_a_gap(tmp_path: Path) -> None:
    """Add one, let it be trusted, use it, take the old one out of both; at no moment is anyone kept out."""
    files = PrivateFiles(tmp_path)

    def change(how: Any) -> tuple[bytes, ...]:
        where = files.where(IDENTITY_FILE)
        content = files.change(IDENTITY_FILE, lambda now: how(Identity.decode(now or b"", where)).encode())
        return Identity.decode(content, where).public

    async with pair("udp", tmp_path, None) as (a, b):
        old = a.key
        (_, new) = change(lambda identity: identity.with_new(lambda size: bytes(range(1, size + 1))))
        await b.trust("plant-a", encode_key(KeyKind.PUBLIC, new))
        change(lambda identity: identity.with_first(new))
        await until(lambda: a.key == encode_key(KeyKind.PUBLIC, new))
        await (await a.send("plant-b/q", b"with both")).ordered(WAIT)
        change(lambda identity: identity.without(decode_key(KeyKind.PUBLIC, old)))
        await b.revoke("plant-a")
        await b.trust("plant-a", a.key)
        await (await a.send("plant-b/q", b"with the new one")).ordered(WAIT)


async def test_mistakes_raise_at_once() -> None:
    """A mistyped key, a private one, one's own, another peer's, a peer that is not there."""
    async with with_keys("a", scheme="") as a:
        for key in (STRANGER[:-1] + "a", PSK):
            with pytest.raises(triack.KeyUnreadable):
                await a.trust("b", key)
        with pytest.raises(triack.UsageError, match="own key"):
            await a.trust("b", a.key)
        await a.trust("b", STRANGER)
        with pytest.raises(triack.UsageError, match="it is b's, too"):
            await a.trust("c", STRANGER)
        with pytest.raises(triack.UsageError, match="no such peer"):
            await a.revoke("c")
