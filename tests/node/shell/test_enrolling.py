"""Two nodes with a one-time code come to trust each other, over real sockets; everyone else gets silence."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, bodies, quick, until, with_keys
from triack.node.files.access import DEFAULT_SUITE, Secured
from triack.node.files.keys import IDENTITY_FILE, Identity
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TRUST_FILE, TrustFile
from triack.node.shell.enrolling import enrol_at_rest
from triack.transport import invitation

pytestmark = pytest.mark.usefixtures("look_often")
NOBODY = "udp://127.0.0.1:9"
BRIEF = 0.3
"""Seconds that somebody asks who will get no answer."""
CODE = invitation.Invitation.make(lambda size: bytes(range(size)), 0).code


def known(data: Path) -> dict[str, tuple[str, ...]]:
    """The addresses of all that are written down."""
    return {peer.name: peer.addresses for peer in TrustFile(PrivateFiles(data)).load()}


@pytest.mark.parametrize("scheme", ["udp", "tcp", "memory"])
async def test_two_nodes_know_each_other_by_one_code(scheme: str) -> None:
    """By the names that each has for the other, with key and addresses; messages go both ways."""
    async with with_keys("plant-a", scheme=scheme) as a, with_keys("plant-b", scheme=scheme) as b:
        invitation = await b.invite()
        found = await a.enrol(invitation.code, b.address, name="bee")
        assert found == triack.EnrolledPeer("bee", b.key, (b.address,))
        assert await invitation.enrolled(WAIT) == triack.EnrolledPeer("plant-a", a.key, (a.address,))
        await (await a.send("bee/q", b"there")).ordered(WAIT)
        await (await b.send("plant-a/q", b"and back")).ordered(WAIT)
        assert await bodies(b, "q", 1) + await bodies(a, "q", 1) == [b"there", b"and back"]


@pytest.mark.gate
async def test_who_only_calls_enrols_as_well(tmp_path: Path) -> None:
    """It has no address, and may send where it was said to; all of it is there after a restart of both."""
    async with with_keys("b", tmp_path / "b") as b:
        async with with_keys("a", tmp_path / "a", scheme="") as a:
            await a.enrol((await b.invite("plant-a", send=["orders"])).code, b.address)
        listen = b.address
    assert known(tmp_path / "b") == {"plant-a": ()}
    async with (
        triack.open("b", data=tmp_path / "b", listen=listen, settings=quick()),
        with_keys("a", tmp_path / "a", scheme="") as a,
    ):
        await (await a.send("b/orders", b"1")).ordered(WAIT)
        with pytest.raises(triack.DeliveryFailed, match="access-denied"):
            await (await a.send("b/bills", b"1")).ordered(WAIT)


async def test_a_code_that_is_no_good_meets_silence() -> None:
    """Another one, a used, a withdrawn one: nothing is changed, and one message names all that it may be."""
    async with with_keys("a") as a, with_keys("b") as b, with_keys("c") as c:
        used, withdrawn = await b.invite(), await b.invite()
        await a.enrol(used.code, b.address)
        withdrawn.withdraw()
        for code in (CODE, used.code, withdrawn.code):
            with pytest.raises(triack.EnrolmentFailed, match="wrong, used or expired, no node listens"):
                await c.enrol(code, b.address, timeout=BRIEF)
        drops = b.stats().drops
        assert (drops["not-invited"] >= 1, drops["code-expired"] >= 2) == (True, True)
        assert [peer.name for peer in (await used.enrolled(), await used.enrolled(0))] == ["a", "a"]
        with pytest.raises(triack.EnrolmentFailed, match="withdrawn"):
            await withdrawn.enrolled()
        with pytest.raises(triack.AddressError, match="unknown peer"):
            await b.send("c/q", b"x")


async def test_the_error_of_enrolment_says_that_nobody_listens() -> None:
    async with with_keys("a", scheme="") as a:
        with pytest.raises(triack.EnrolmentFailed, match=r"Last: no process listens at tcp://127\.0\.0\.1:9$"):
            await a.enrol(CODE, "tcp://127.0.0.1:9", timeout=BRIEF)
        with pytest.raises(triack.EnrolmentFailed, match=r"enrol at udp://127\.0\.0\.1:9: no answer"):
            await a.enrol(CODE, NOBODY, timeout=BRIEF)


@pytest.mark.parametrize("wanted", [None, "plant-a"])
async def test_no_peer_gets_another_key(tmp_path: Path, wanted: str | None) -> None:
    """Neither by what the other calls itself nor by the operator's mistake: no welcome, and the code is used up."""
    async with with_keys("plant-a") as a, with_keys("plant-a") as other, with_keys("b", tmp_path) as b:
        await b.trust("plant-a", a.key)
        before = PrivateFiles(tmp_path).read(TRUST_FILE)
        given = await b.invite(wanted)
        with pytest.raises(triack.EnrolmentFailed, match="no answer"):
            await other.enrol(given.code, b.address, timeout=BRIEF)
        with pytest.raises(triack.EnrolmentFailed, match="plant-a: there is a peer of that name"):
            await given.enrolled()
        assert PrivateFiles(tmp_path).read(TRUST_FILE) == before
        with pytest.raises(triack.EnrolmentFailed, match="no answer"):
            await a.enrol(given.code, b.address, timeout=BRIEF)


async def test_a_name_that_came_with_the_call_is_nobody_elses() -> None:
    """Such a peer is in no file; but the operator, who knows it, may say that this is it."""
    async with with_keys("a") as a, with_keys("c", peers={"b": NOBODY}) as c, with_keys("b") as b:
        with pytest.raises(triack.EnrolmentFailed, match="the node there trusts this one now, but: trust b: there is"):
            await c.enrol((await b.invite()).code, b.address)
        again = await c.enrol((await b.invite()).code, b.address, name="b")
        assert again.key == b.key
        await (await c.send("b/q", b"x")).ordered(WAIT)
        assert (await a.enrol((await b.invite()).code, b.address)).name == "b"


async def test_enrolling_again_is_harmless(tmp_path: Path) -> None:
    """Both keep their names for each other, and learn new addresses."""
    async with with_keys("b") as b, with_keys("a", tmp_path) as a:
        await a.enrol((await b.invite("plant-a")).code, b.address, name="plant-b")
        there = b.address.replace("127.0.0.1", "localhost")
        again = await b.invite()
        found = await a.enrol(again.code, there)
        assert (found.name, found.addresses) == ("plant-b", (b.address, there))
        assert (await again.enrolled()).name == "plant-a"
        assert known(tmp_path) == {"plant-b": (b.address, there)}


async def test_nobody_is_welcomed_before_it_is_written_down(tmp_path: Path) -> None:
    """A trust file that cannot be changed: the one waits in vain, the other hears why."""
    async with with_keys("a") as a, with_keys("b", tmp_path) as b:
        (tmp_path / TRUST_FILE).write_text("{}")
        (tmp_path / TRUST_FILE).chmod(0o644)
        given = await b.invite()
        with pytest.raises(triack.EnrolmentFailed, match="no answer"):
            await a.enrol(given.code, b.address, timeout=BRIEF)
        with pytest.raises(triack.EnrolmentFailed, match=r"cannot be trusted: .*chmod 600.*the code is used up"):
            await given.enrolled()


async def test_an_open_code_gives_the_key_that_is_in_use(tmp_path: Path) -> None:
    async with with_keys("a") as a, with_keys("b", tmp_path) as b:
        given, old, files = await b.invite(), b.key, PrivateFiles(tmp_path)
        new = Identity.make(lambda size: bytes(range(size)))
        files.change(IDENTITY_FILE, lambda _old: new.encode())
        await until(lambda: b.key != old)
        assert (await a.enrol(given.code, b.address)).key == b.key
        await (await a.send("b/q", b"x")).ordered(WAIT)


async def test_a_key_that_is_exchanged_lets_who_has_begun_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is written down a new key comes first: it learns the one that it has begun with, which answers still."""
    files, change_trust, came, may_go_on = (
        PrivateFiles(tmp_path),
        Secured.change_trust,
        asyncio.Event(),
        asyncio.Event(),
    )

    async def slowly(*args: Any) -> Any:
        came.set()
        await may_go_on.wait()
        return await change_trust(*args)

    monkeypatch.setattr(Secured, "change_trust", slowly)
    async with with_keys("a") as a, with_keys("b", tmp_path) as b:
        old = b.key
        coming = asyncio.create_task(a.enrol((await b.invite()).code, b.address, timeout=WAIT))
        await asyncio.wait_for(came.wait(), WAIT)
        keys = [
            *Identity.make(lambda size: bytes(range(size))).keys,
            *Identity.decode(files.read(IDENTITY_FILE) or b"", "").keys,
        ]
        files.change(IDENTITY_FILE, lambda _old: Identity(tuple(keys)).encode())
        await until(lambda: b.key != old)
        await b.invite()
        may_go_on.set()
        assert (await coming).key == old
        await (await a.send("b/q", b"x")).ordered(WAIT)


async def test_codes_end_with_their_node() -> None:
    async with with_keys("a") as a, with_keys("b") as b:
        waiting = asyncio.create_task((await b.invite()).enrolled())
        coming = asyncio.create_task(a.enrol(CODE, NOBODY))
        await asyncio.sleep(SOON)
        await a.close()
        await b.close()
        for task in (waiting, coming):
            with pytest.raises(triack.NodeClosed, match="was closed"):
                await asyncio.wait_for(task, WAIT)


async def test_a_code_is_not_shown_by_accident() -> None:
    async with with_keys("b") as b:
        given = await b.invite()
        assert given.code not in repr(given)


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_a_directory_at_rest_enrols(tmp_path: Path, scheme: str) -> None:
    """Its key is made, and the node that opens it later is expected where it said."""
    async with with_keys("b", scheme=scheme) as b:
        given = await b.invite()
        found = await enrol_at_rest(
            *(tmp_path / "a", given.code, b.address),
            own_name="plant-a",
            addresses=["udp://127.0.0.1:7"],
            suite=DEFAULT_SUITE,
        )
        assert (found.name, found.addresses) == ("b", (b.address,))
        assert (await given.enrolled()).addresses == ("udp://127.0.0.1:7",)
        async with with_keys("a", tmp_path / "a", scheme="") as a:
            await (await a.send("b/q", b"x")).ordered(WAIT)
