"""The commonest mistakes of a first day, made on purpose: each is a row with a remedy, an event and a line."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import WAIT, quick, until
from triack.base.news import NodeEvent
from triack.base.reasons import Trouble
from triack.node.files.keys import KeyKind, encode_key
from triack.node.shell.troubles import TroubleStats
from triack.tools.ports import free_port
from triack.transport.noise import KeyPair

ROOT = Path(__file__).parents[3]


def node(name: str, **more: Any) -> triack.Node:
    more.setdefault("settings", quick())
    return triack.open(name, data=None, listen="udp://127.0.0.1:0", **more)


def rows(of: triack.Node, trouble: Trouble) -> list[TroubleStats]:
    return [it for it in of.stats().troubles if it.trouble == trouble]


async def event_of(events: triack.Events, kind: type[NodeEvent]) -> Any:
    async with asyncio.timeout(WAIT):
        return await anext(event async for event in events if isinstance(event, kind))


@pytest.mark.slow
@pytest.mark.gate
async def test_trust_on_one_side_only_is_seen_at_the_other(caplog: pytest.LogCaptureFixture) -> None:
    """With the key that is to be trusted; once it is, the row is gone."""
    async with node("a") as a, node("b") as b:
        events = b.events()
        await a.trust("b", b.key, b.address)
        receipt = await a.send("b/q", b"x")
        refused = await event_of(events, triack.CallRefused)
        assert (refused.host, refused.trouble) == ("127.0.0.1", "untrusted")
        [row] = rows(b, Trouble.UNTRUSTED)
        assert (row.about, a.key in row.cause, row.remedy) == ("127.0.0.1", True, refused.remedy)
        assert [record.getMessage() for record in caplog.records if a.key in record.getMessage()] == [
            f"{refused.cause}; {refused.remedy}"
        ]
        await until(lambda: rows(a, Trouble.NO_ANSWER))
        await until(lambda: rows(b, Trouble.UNTRUSTED)[0].times > 1)
        await b.trust("a", a.key)
        await receipt.ordered(WAIT)
        assert a.stats().troubles == b.stats().troubles == []


@pytest.mark.parametrize(
    ("at_a", "trouble"),
    [
        ({"suite": "25519_ChaChaPoly_BLAKE2s"}, Trouble.OTHER_SUITE),
        ({"insecure": True}, Trouble.ONE_WITHOUT_KEYS),
    ],
)
async def test_settings_that_do_not_fit_are_seen_where_the_call_arrives(at_a: dict[str, Any], trouble: Trouble) -> None:
    async with node("a", **at_a) as a, node("b") as b:
        if "insecure" not in at_a:
            await b.trust("a", a.key)
            await a.trust("b", b.key, b.address)
        await a.send("b/q" if "insecure" not in at_a else f"{b.address}/q", b"x")
        await until(lambda: rows(b, trouble))


async def test_a_node_with_keys_that_calls_one_without_is_seen() -> None:
    async with node("a") as a, node("b", insecure=True) as b:
        await a.trust("b", a_key(), b.address)
        await a.send("b/q", b"x")
        await until(lambda: rows(b, Trouble.ONE_WITHOUT_KEYS))


def a_key() -> str:
    """A public key that is nobody's."""
    return encode_key(KeyKind.PUBLIC, KeyPair.of(b"k" * 32).public)


async def test_the_wrong_key_for_a_node_is_seen_there() -> None:
    async with node("a") as a, node("b") as b:
        await a.trust("b", a_key(), b.address)
        await b.trust("a", a.key)
        await a.send("b/q", b"x")
        await until(lambda: rows(b, Trouble.WRONG_KEY))


async def test_a_secret_that_only_one_side_has_is_seen_by_the_caller() -> None:
    async with node("a") as a, node("b") as b:
        await a.trust("b", b.key, b.address, psk=encode_key(KeyKind.SHARED, b"s" * 32))
        await b.trust("a", a.key)
        await a.send("b/q", b"x")
        await until(lambda: rows(a, Trouble.OTHER_PSK))


async def test_a_code_that_is_over_is_seen_where_it_was_made() -> None:
    async with node("a") as a, node("b") as b:
        invitation = await b.invite()
        invitation.withdraw()
        with pytest.raises(triack.EnrolmentFailed):
            await a.enrol(invitation.code, b.address, timeout=0.5)
        assert [row.about for row in rows(b, Trouble.CODE_EXPIRED)] == ["127.0.0.1"]


async def test_addresses_that_lead_nowhere_have_rows_with_the_cause() -> None:
    """A port that is closed, a name that nobody knows, and a peer without an address."""
    async with node("a", insecure=True) as a:
        closed = f"tcp://127.0.0.1:{free_port()}"
        await a.send(f"{closed}/q", b"x")
        await until(lambda: rows(a, Trouble.NO_ANSWER))
        [row] = rows(a, Trouble.NO_ANSWER)
        assert (row.about, "nobody listens" in row.cause, row.since_s is not None) == (closed, True, True)
    async with node("a") as a, node("b") as b:
        events = a.events()
        await a.trust("b", b.key)
        await a.trust("c", a_key(), "udp://nosuch.invalid:7801")
        for peer in ("b", "c"):
            await a.send(f"{peer}/q", b"x")
        await until(lambda: rows(a, Trouble.NO_ADDRESS) and rows(a, Trouble.UNRESOLVED))
        assert "nosuch.invalid" in rows(a, Trouble.UNRESOLVED)[0].cause
        assert (
            await event_of(events, triack.PeerUnknown)
        ).cause == "this node knows no address of b, which does not call"
        await a.revoke("b")
        await until(lambda: rows(a, Trouble.NO_KEY))


async def test_a_full_queue_has_rows_at_both_ends() -> None:
    full = quick(limits=triack.Limits(queue_quota={"q": triack.Quota(2)}), messages_per_packet=1)
    async with node("b", insecure=True, settings=full) as b, node("a", insecure=True) as a:
        await (await a.send_many(f"{b.address}/q", [b"x"] * 2)).ordered(WAIT)
        await a.send(f"{b.address}/q", b"x")
        await until(lambda: rows(a, Trouble.HELD_THERE))
        assert [row.about for row in rows(b, Trouble.QUEUE_FULL)] == ["q"]
        assert rows(b, Trouble.HELD_HERE) == []
        async with b.receive("q") as reader:
            for _ in range(3):
                await reader.get(WAIT)
        await until(lambda: a.stats().troubles == b.stats().troubles == [])


async def test_a_paused_queue_has_a_row_until_it_is_resumed() -> None:
    """Somebody else may have paused it, months ago."""
    async with node("a") as a:
        await a.send("orders", b"x")
        await a.pause("orders")
        [row] = rows(a, Trouble.QUEUE_PAUSED)
        assert (row.about, row.remedy.startswith("triack queue resume orders")) == ("orders", True)
        assert row.since_s is not None
        await a.resume("orders")
        assert not rows(a, Trouble.QUEUE_PAUSED)


async def test_strangers_learn_nothing_of_it() -> None:
    """Whatever the operator sees, nothing is sent."""
    async with node("a") as a, node("b") as b:
        await a.trust("b", b.key, b.address)
        await a.send("b/q", b"x")
        await until(lambda: rows(b, Trouble.UNTRUSTED))
        assert set(a.stats().drops) == set()


def test_each_trouble_is_on_the_page_on_operations() -> None:
    """With its sentence and its remedy, as the code has them: ``make docs`` writes the table."""
    page = (ROOT / "docs" / "operations.md").read_text()
    told = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \|$", page.partition("| trouble |")[2], re.MULTILINE)
    assert {name for name, _, _ in told} >= set(Trouble)


@pytest.mark.parametrize("trouble", Trouble)
def test_each_trouble_says_what_it_is_about(trouble: Trouble) -> None:
    said = trouble.say("HERE", "DETAIL") + trouble.advise("HERE")
    assert ("{" in said, "HERE" in said or trouble is Trouble.STORE_LOW) == (False, True)
