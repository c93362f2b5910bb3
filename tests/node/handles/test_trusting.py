"""The verbs of a node about its peers; what they do is in ``test_access`` and ``test_enrolling``."""

import pytest

import triack
from tests.node.nodes import make, quick

CODE = "aaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaa"


async def test_who_cannot_be_reached_invites_nobody() -> None:
    async with triack.open("a", data=None, settings=quick()) as a:
        with pytest.raises(triack.UsageError, match="does not listen"):
            await a.invite()


async def test_who_has_no_keys_knows_nobody_by_one() -> None:
    async with make("a", scheme="udp") as a:
        for verb in (a.invite(), a.enrol((await _code()), a.address), a.trust("b", None, "udp://b:1"), a.revoke("b")):
            with pytest.raises(triack.UsageError, match="runs without keys"):
                await verb


async def test_what_cannot_be_is_refused_at_once() -> None:
    """A mistyped code, a name that is none, an address that is none; 16 codes are enough."""
    async with triack.open("a", data=None, listen="udp://127.0.0.1:0", settings=quick()) as a:
        for verb, why in {
            a.enrol(CODE, a.address): "mistyped",
            a.enrol("short", a.address): "32 letters",
            a.enrol(await _code(), "nowhere"): "cannot read address",
            a.enrol(await _code(), a.address, name="no name"): "no name",
            a.invite("no name"): "no name",
        }.items():
            with pytest.raises(triack.UsageError, match=why):
                await verb
        for _ in range(16):
            await a.invite()
        with pytest.raises(triack.UsageError, match="16 invitations are open"):
            await a.invite()
    for verb in (a.invite(), a.enrol(await _code(), a.address)):
        with pytest.raises(triack.NodeClosed):
            await verb


async def _code() -> str:
    """One that is good somewhere."""
    async with triack.open("b", data=None, listen="udp://127.0.0.1:0", settings=quick()) as b:
        return (await b.invite()).code
