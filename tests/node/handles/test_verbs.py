"""The verbs: one description for all faces, and rare ones."""

import inspect
from typing import Any

import pytest

import triack
from tests.node.nodes import make, quick
from triack import sync
from triack.node.client.client import Client, ClientInvitation
from triack.node.client.client_transaction import ClientTransaction
from triack.node.control.verb_table import VERBS
from triack.node.handles.derived import plain_function, signature_of
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import Verbs
from triack.node.node import Node, open_node
from triack.node.shell.enrolling import OpenInvitation
from triack.node.sync.sync import SyncClient, SyncInvitation, SyncNode
from triack.node.sync.sync_handles import SyncTransaction

# Each verb is written once: a client and ``triack.sync`` have those of a node, with the same parameters and text.

LIFE = {"start", "close", "name", "address", "node_id", "code"}
"""Not verbs: how each of them begins and ends, and what it is called."""
ONLY_HERE = {
    Client: {"send_nowait", "failed"},
    SyncClient: {"send_nowait", "failed"},
    ClientTransaction: {"handle_death", "last_step", "take_upload", "undo"},
    SyncTransaction: {"handle_death", "last_step", "take_upload", "undo", "undo_last"},
}
"""What a node has and these have not: what cannot be done from another process, or is for parts of the node."""
WRITTEN_AGAIN = {
    "SyncNode.acknowledgements",
    "SyncNode.browse",
    "SyncNode.events",
    "SyncNode.key",
    "SyncClient.acknowledgements",
    "SyncClient.browse",
    "SyncClient.events",
    "SyncClient.key",
    "ClientTransaction.undo_last",
}
"""With a text of their own: they are iterated without ``async``, or are properties."""
FACES = [
    (Verbs, Client),
    (Verbs, SyncNode),
    (Verbs, SyncClient),
    (Transaction, ClientTransaction),
    (Transaction, SyncTransaction),
    (OpenInvitation, ClientInvitation),
    (OpenInvitation, SyncInvitation),
]


def verbs_of(kind: type[Any]) -> dict[str, Any]:
    """What users do with it, by name."""
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: it for name, it in found.items() if name not in LIFE and (callable(it) or isinstance(it, property))}


@pytest.mark.parametrize(("kind", "face"), FACES)
def test_every_face_has_the_verbs_of_what_it_stands_for(kind: type[Any], face: type[Any]) -> None:
    """And no others, but for the calls that the parts of a client share."""
    assert verbs_of(kind).keys() - verbs_of(face).keys() == ONLY_HERE.get(face, set())
    assert verbs_of(face).keys() - verbs_of(kind).keys() <= {"call", "connected", "lost", "post"}


@pytest.mark.parametrize(("kind", "face"), FACES)
def test_every_face_has_the_same_parameters_and_text(kind: type[Any], face: type[Any]) -> None:
    """Names, order, defaults and types; ``triack.sync`` has no handlers of events."""
    for name, declared in verbs_of(kind).items():
        if name not in verbs_of(face):
            continue
        one, other = plain_function(declared), plain_function(verbs_of(face)[name])
        wanted = dict(signature_of(one).parameters)
        if face in (SyncNode, SyncClient) and name == "acknowledgements":
            wanted.pop("handler", None)
        assert dict(signature_of(other).parameters) == wanted, name
        same = inspect.getdoc(one) == inspect.getdoc(other)
        assert same != (f"{face.__name__}.{name}" in WRITTEN_AGAIN), name


def test_a_node_has_its_verbs_from_there_alone() -> None:
    """They are written out in one place."""
    assert {name for name in verbs_of(Verbs) if name in vars(Node)} == set()
    assert all(inspect.getdoc(plain_function(verb)) for verb in verbs_of(Verbs).values())


def test_every_verb_of_a_node_reaches_over_the_control_socket() -> None:
    """By a row of its own name, or by those of what it gives: readers, transactions, pages."""
    by_rows = {row.declared for row in VERBS.values()}
    others = {name for name, verb in verbs_of(Verbs).items() if plain_function(verb) not in by_rows}
    sending = {"publish", "reply", "send_nowait", "send_stream", "send_to", "transaction"}
    assert others == {"browse", "consume", "failed", "handler", "receive", "subscribe"} | sending


def test_a_node_without_async_is_opened_as_any_other() -> None:
    assert inspect.signature(sync.open).parameters == inspect.signature(open_node).parameters
    assert inspect.getdoc(sync.open) != inspect.getdoc(open_node)


# The verbs of a node about its peers; what they do is in ``test_access`` and ``test_enrolling``.

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
        with pytest.raises(triack.UsageError, match="runs without keys"):
            _ = a.key


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
