"""Two nodes that share a code learn each other's keys; no third party learns or changes anything."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.sure import sure
from tests.transport.ends import A_ADDRESS, A_KEY, B_KEY, FOREIGN_KEY, NOW_NS, flips, public
from tests.transport.snapshots import snapshot
from triack.base.datagram import HEADER_BYTES, Header, Kind, read_header
from triack.base.errors import AddressError, ProtocolError, UsageError
from triack.base.units import MS, SECOND
from triack.transport import enrolment
from triack.transport.cookies import COOKIE_LIFE_NS, mac, mac_key
from triack.transport.enrolment import CLOSED_MAX, Arrival, ClientState, Enrolled, EnrolmentClient, EnrolmentServer
from triack.transport.invitation import Invitation
from triack.transport.noise import AESGCM_SHA256, CHACHAPOLY_BLAKE2S, Suite

INVITATION = Invitation.make(Random(9).randbytes, NOW_NS)
OTHER = Invitation.make(Random(8).randbytes, NOW_NS)
A = Enrolled("plant-a", public(A_KEY), ("udp://192.0.2.1:7801",))
B = Enrolled("plant-b", public(B_KEY), ("udp://192.0.2.2:7801", "tcp://[2001:db8::2]:7801"))
STEPS = ("HELLO", "RETRY", "HELLO", "ANSWER", "PROOF", "WELCOME")


def server(*invitations: Invitation, seed: int = 2, suite: Suite = AESGCM_SHA256) -> EnrolmentServer:
    made = EnrolmentServer(B_KEY, B.name, B.addresses, entropy=Random(seed).randbytes, suite=suite)
    for invitation in invitations:
        made.invite(invitation, NOW_NS)
    return made


def client(secret: bytes = INVITATION.secret, key: bytes = A_KEY, seed: int = 1, **more: Any) -> EnrolmentClient:
    options: dict[str, Any] = {"scheme": "udp", "entropy": Random(seed).randbytes, "now_ns": NOW_NS, **more}
    return EnrolmentClient(secret, key, A.name, A.addresses, **options)


def ask(to: EnrolmentServer, datagram: bytes | None, sender: str = A_ADDRESS, now_ns: int = NOW_NS) -> bytes:
    """The answer of a server, once its host has confirmed the client."""
    assert datagram is not None
    reply = to.handle_datagram(datagram, read_header(datagram), sender, now_ns)
    arrival = to.poll_enrolled()
    return reply if arrival is None else to.confirm(arrival)


def tell(to: EnrolmentClient, datagram: bytes, now_ns: int = NOW_NS) -> bytes | None:
    to.handle_datagram(datagram, read_header(datagram), now_ns)
    return to.poll_transmit()


def why_not(of: EnrolmentServer | EnrolmentClient, datagram: bytes | None, sender: str = A_ADDRESS) -> str:
    """Why a side drops a datagram; empty when it does not."""
    assert datagram is not None
    try:
        if isinstance(of, EnrolmentServer):
            of.handle_datagram(datagram, read_header(datagram), sender, NOW_NS)
        else:
            of.handle_datagram(datagram, read_header(datagram), NOW_NS)
    except ProtocolError as error:
        return error.reason
    return ""


def proof_of(of: EnrolmentClient, to: EnrolmentServer) -> bytes | None:
    """The last word of a client, which its server has not heard yet."""
    return tell(of, ask(to, tell(of, ask(to, of.poll_transmit()))))


def talk(to: EnrolmentServer, of: EnrolmentClient) -> list[bytes]:
    """All datagrams of an enrolment in which nothing is lost."""
    seen: list[bytes] = []
    said = of.poll_transmit()
    while said is not None:
        answer = ask(to, said)
        seen += [said, answer]
        said = tell(of, answer)
    return seen


def until(step: str) -> tuple[EnrolmentServer, EnrolmentClient, bytes]:
    """Both sides, and the first datagram of that step, not yet delivered."""
    b, a = server(INVITATION), client()
    said = sure(a.poll_transmit())
    names = iter(STEPS)
    while next(names) != step:
        answer = ask(b, said)
        if next(names) == step:
            return b, a, answer
        said = sure(tell(a, answer))
    return b, a, said


@pytest.mark.parametrize("suite", [AESGCM_SHA256, CHACHAPOLY_BLAKE2S])
def test_two_nodes_enrol(suite: Suite) -> None:
    b, a = server(INVITATION, suite=suite), client(suite=suite)
    proof = sure(proof_of(a, b))
    assert b.handle_datagram(proof, read_header(proof), A_ADDRESS, NOW_NS) == b""
    arrival = b.poll_enrolled()
    assert arrival == Arrival(INVITATION, A, A_ADDRESS, a.connection_id)
    assert b.poll_enrolled() is None
    assert (a.state, a.result) == (ClientState.PROVING, None)
    assert tell(a, b.confirm(arrival)) is None
    assert (a.state, a.result, a.is_over, a.next_deadline()) == (ClientState.ENROLLED, B, True, None)


def test_no_answer_is_longer_than_what_it_answers() -> None:
    b = EnrolmentServer(B_KEY, "n" * 124, [f"udp://{'h' * 60}.{i}.example:7801" for i in range(8)],
                        entropy=Random(2).randbytes)  # fmt: skip
    b.invite(INVITATION, NOW_NS)
    seen = talk(b, client())
    assert [len(datagram) for datagram in seen[:-1]] == [256, 52, 256, 132, 1_200]
    assert len(seen[-1]) <= 1_200


def test_nothing_can_be_read_on_the_way() -> None:
    seen = b"".join(talk(server(INVITATION), client()))
    for secret in (b"plant", b"192.0.2", INVITATION.secret, A.key, B.key):
        assert secret not in seen


@pytest.mark.parametrize("seed", range(20))
def test_it_gets_through_where_a_third_is_lost(seed: int) -> None:
    chance = Random(seed)
    b, a, now_ns = server(INVITATION), client(seed=seed), NOW_NS
    way: list[tuple[int, bool, bytes]] = []

    def send(to_server: bool, datagram: bytes | None) -> None:
        copies = chance.choice((1, 1, 1, 2)) if datagram else 0
        come = [now_ns + chance.randrange(900) * MS for _ in range(copies) if chance.random() > 0.3]
        way.extend((when, to_server, datagram or b"") for when in come)

    heard = 0
    while not a.is_over:
        send(True, a.poll_transmit())
        way.sort()
        now_ns = min(a.next_deadline() or now_ns, *(when for when, _, _ in way[:1]), NOW_NS + 40 * SECOND)
        while way and way[0][0] <= now_ns:
            _, to_server, datagram = way.pop(0)
            try:
                if to_server:
                    send(False, b.handle_datagram(datagram, read_header(datagram), A_ADDRESS, now_ns))
                    arrival = b.poll_enrolled()
                    if arrival is not None:
                        heard += 1
                        send(False, b.confirm(arrival))
                else:
                    a.handle_datagram(datagram, read_header(datagram), now_ns)
                    send(True, a.poll_transmit())
            except ProtocolError:
                continue
        a.handle_timer(now_ns)
    assert (a.state, a.result, heard) == (ClientState.ENROLLED, B, 1)


@pytest.mark.parametrize(("told", "life_s"), [({}, 30), ({"life_ns": 2 * SECOND}, 2)])
def test_a_client_repeats_and_gives_up(told: dict[str, Any], life_s: int) -> None:
    """Twice a second for half a minute, or up to its host's limit, always the same bytes."""
    a = client(**told)
    said, now_ns = [a.poll_transmit()], NOW_NS
    assert a.poll_transmit() is None
    while (deadline := a.next_deadline()) is not None:
        now_ns = deadline
        a.handle_timer(now_ns - 1)
        assert a.poll_transmit() is None
        a.handle_timer(now_ns)
        if not a.is_over:
            said.append(a.poll_transmit())
    assert (now_ns - NOW_NS, len(said), len(set(said))) == (life_s * SECOND, 2 * life_s, 1)
    assert (a.state, a.result, a.poll_transmit()) == (ClientState.FAILED, None, None)


def test_an_invitation_is_good_for_an_hour() -> None:
    """To the nanosecond; a client that has begun with it must have finished by then."""
    b, _, proof = until("PROOF")
    late, hello = INVITATION.expires_at_ns, client().poll_transmit()
    assert ask(server(INVITATION), hello, now_ns=late - 1)
    for of, said, why in ((b, proof, "unknown-connection"), (server(INVITATION), hello, "code-expired")):
        with pytest.raises(ProtocolError, match=why):
            ask(of, said, now_ns=late)


def test_a_withdrawn_invitation_is_worth_nothing() -> None:
    b, _, proof = until("PROOF")
    b.withdraw(INVITATION)
    assert b.open_invitations(NOW_NS) == []
    assert why_not(b, proof) == "unknown-connection"
    assert why_not(b, client(seed=5).poll_transmit()) == "code-expired"


def test_only_the_newest_codes_that_are_over_are_recognised() -> None:
    """So that the memory for them, and the work for a hello, have a limit."""
    b, over = server(), [Invitation.make(Random(number).randbytes, NOW_NS) for number in range(CLOSED_MAX + 1)]
    for invitation in over:
        b.invite(invitation, NOW_NS)
        b.withdraw(invitation)
    said = [why_not(b, client(over[at].secret).poll_transmit()) for at in (0, CLOSED_MAX)]
    assert said == ["not-invited", "code-expired"]


def test_a_code_is_good_for_one() -> None:
    """The second one with it, and one who has begun before, get no further; another code is as good as before."""
    b = server(INVITATION, OTHER)
    late = client(key=FOREIGN_KEY, seed=3)
    proof = proof_of(late, b)
    talk(b, client())
    assert why_not(b, proof) == "unknown-connection"
    assert why_not(b, client(key=FOREIGN_KEY, seed=4).poll_transmit()) == "code-expired"
    assert b.open_invitations(NOW_NS) == [OTHER]
    other = client(OTHER.secret, FOREIGN_KEY, seed=5)
    talk(b, other)
    assert other.state is ClientState.ENROLLED


def test_other_keys_let_who_has_begun_go_on() -> None:
    """It learns the key that it was answered with, as long as the server has that; who comes later, the first one."""
    b, a, proof = until("PROOF")
    b.invite(OTHER, NOW_NS)
    b.use_keys([FOREIGN_KEY, B_KEY])
    tell(a, ask(b, proof))
    assert a.result == B
    late = client(OTHER.secret, seed=5)
    talk(b, late)
    assert late.result == B._replace(key=public(FOREIGN_KEY))


def test_nobody_learns_a_key_that_is_gone() -> None:
    b, _, proof = until("PROOF")
    b.use_keys([FOREIGN_KEY])
    assert why_not(b, proof) == "unknown-connection"
    b, _, proof = until("PROOF")
    assert not why_not(b, proof)
    b.use_keys([FOREIGN_KEY])
    assert b.confirm(sure(b.poll_enrolled())) == b""


def test_what_was_lost_is_said_again_in_the_same_words() -> None:
    """A proof that comes again is answered again, by the welcome alone that its host has confirmed."""
    b, _, proof = until("PROOF")
    header = read_header(proof)
    for _ in range(2):
        assert b.handle_datagram(proof, header, A_ADDRESS, NOW_NS) == b""
    welcome = b.confirm(sure(b.poll_enrolled()))
    assert (b.handle_datagram(proof, header, A_ADDRESS, NOW_NS), b.poll_enrolled()) == (welcome, None)
    assert why_not(b, proof, "udp://192.0.2.66:1") == "unknown-connection"
    assert why_not(b, proof[:-1] + bytes([proof[-1] ^ 1])) == "replayed"


def test_without_an_invitation_or_the_code_there_is_silence() -> None:
    hello = client().poll_transmit()
    assert why_not(server(), hello) == "not-invited"
    b = server(INVITATION)
    before = snapshot(b)
    for seed in range(100, 200):
        assert why_not(b, client(Random(seed).randbytes(16), seed=seed).poll_transmit()) == "not-invited"
    assert snapshot(b) == before
    assert b.open_invitations(NOW_NS) == [INVITATION]
    assert ask(b, hello)


@pytest.mark.parametrize("length", [100, 255, 257])
def test_a_hello_of_another_length_is_not_answered(length: int) -> None:
    """Also of one who knows the code: its answers would be longer."""
    said = Header(Kind.ENROL, 1, 1).encode().ljust(length - 16, b"\0")
    hello = said + mac(mac_key(b"triack enrol hello", INVITATION.secret), said)
    assert why_not(server(INVITATION), hello) == "too-short"


def test_nothing_is_kept_until_the_cookie_comes_back() -> None:
    b, a = server(INVITATION), client()
    hello = a.poll_transmit()
    ask(b, hello)
    before = snapshot(b)
    with_cookie = sure(tell(a, ask(b, hello)))
    assert len(ask(b, with_cookie, "udp://192.0.2.66:1")) == 52
    assert snapshot(b) == before
    assert len(ask(b, with_cookie)) == 132
    assert len(ask(b, with_cookie, now_ns=NOW_NS + 2 * COOKIE_LIFE_NS)) == 52


def test_two_nodes_do_not_play_ping_pong() -> None:
    """A cookie that does not fit is replaced, but its hello waits for its turn."""
    b, a = server(INVITATION), client()
    hello = tell(a, ask(b, a.poll_transmit()))
    again = ask(b, hello, "udp://192.0.2.66:1")
    assert tell(a, again) is None
    a.handle_timer(NOW_NS + 500 * MS)
    assert len(ask(b, a.poll_transmit(), "udp://192.0.2.66:1")) == 132


@pytest.mark.slow
@pytest.mark.parametrize("step", sorted(set(STEPS)))
def test_every_flipped_bit_is_dropped(step: str) -> None:
    b, a, datagram = until(step)
    side: EnrolmentServer | EnrolmentClient = b if step in ("HELLO", "PROOF") else a
    before = snapshot(side)
    for damaged in flips(datagram):
        try:
            header = read_header(damaged)
        except ProtocolError:
            continue
        if header.kind is Kind.ENROL:
            assert why_not(side, damaged)
    assert snapshot(side) == before
    assert not why_not(side, datagram)


@pytest.mark.parametrize("step", sorted(set(STEPS)))
def test_every_cut_datagram_is_dropped(step: str) -> None:
    b, a, datagram = until(step)
    side: EnrolmentServer | EnrolmentClient = b if step in ("HELLO", "PROOF") else a
    before = snapshot(side)
    for length in range(HEADER_BYTES, len(datagram)):
        assert why_not(side, datagram[:length])
    assert why_not(side, datagram + b"\0")
    assert snapshot(side) == before


def test_who_stands_between_gets_nowhere() -> None:
    """It relays the cookie and makes the rest itself: without the code it can neither answer nor prove."""
    b, a, hello = until("HELLO")
    with_cookie = sure(tell(a, ask(b, hello)))
    mallory = server(Invitation(bytes(16), INVITATION.expires_at_ns))
    assert why_not(mallory, with_cookie) == "not-invited"
    # Even one that has learned what keys the macs, but not the code itself.
    guess = mac_key(b"triack enrol answer", INVITATION.secret)
    said = Header(Kind.ENROL, a.connection_id, 3).encode() + Random(3).randbytes(96)
    assert why_not(a, said + mac(guess, said + with_cookie[-16:])) == "bad-tag"
    assert tell(a, ask(b, with_cookie)) is not None


REAL = vars(enrolment)["_prove"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda secret, label, hashed, key: REAL(secret, label, bytes(32), key),
        lambda secret, label, hashed, key: REAL(secret, b"triack enrol server", hashed, key),
        lambda secret, label, hashed, key: REAL(secret, label, hashed, B.key),
        lambda secret, label, hashed, key: REAL(bytes(16), label, hashed, key),
    ],
    ids=["another hash", "the wrong side", "another key", "no secret"],
)
def test_a_proof_counts_for_its_own_talk_and_its_own_side(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., bytes]
) -> None:
    b, a, answer = until("ANSWER")
    with monkeypatch.context() as patch:
        patch.setattr(enrolment, "_prove", wrong)
        proof = tell(a, answer)
    assert [why_not(b, proof), why_not(b, proof)] == ["not-invited", "unknown-connection"]
    assert (b.poll_enrolled(), b.open_invitations(NOW_NS)) == (None, [INVITATION])
    talk(b, fresh := client(seed=6))
    assert fresh.result == B


def test_the_kind_of_transport_is_agreed_on() -> None:
    """A handshake on one is no use on another; nor does a node enrol with itself, under whatever name."""
    for a, why in ((client(scheme="tcp"), "bad-tag"), (client(key=B_KEY), "own-node")):
        b = server(INVITATION)
        assert why_not(a, ask(b, tell(a, ask(b, a.poll_transmit())))) == why
        assert a.state is ClientState.CALLING


def test_steps_that_are_not_a_sides_own_are_dropped() -> None:
    """Each takes what the other may say, when it may."""
    b, a, answer = until("ANSWER")
    for step in (0, 2, 3, 5, 6, 2**64 - 1):
        assert why_not(b, Header(Kind.ENROL, a.connection_id, step).encode() + bytes(236)) == "bad-header"
    for step in (0, 1, 4, 5, 6):
        assert why_not(a, Header(Kind.ENROL, a.connection_id, step).encode() + bytes(236)) == "unexpected-accept"
    tell(a, answer)
    assert why_not(a, answer) == "unexpected-accept"


def test_the_newest_sixteen_that_have_begun_are_kept() -> None:
    """A client that knows the code costs no more than that; even the welcome of a forgotten one does no harm."""
    b = server(INVITATION)
    first = client()
    proof = proof_of(first, b)
    for seed in range(20, 36):
        ask(b, tell(other := client(seed=seed), ask(b, other.poll_transmit())))
    assert why_not(b, proof) == "unknown-connection"
    assert b.confirm(Arrival(INVITATION, A, A_ADDRESS, first.connection_id)) == b""


def test_one_id_is_one_talk() -> None:
    """Another key under an id that is in use is dropped."""
    b, a, answer = until("ANSWER")
    chance = iter([Random(1).randbytes(8), Random(77).randbytes(32)])
    twin = client(entropy=lambda _: next(chance))
    assert twin.connection_id == a.connection_id
    assert why_not(b, tell(twin, ask(b, twin.poll_transmit()))) == "replayed"
    assert tell(a, answer) is not None
    assert why_not(b, Header(Kind.ENROL, a.connection_id, 4).encode() + bytes(1_180)) == "bad-tag"


def test_sixteen_invitations_are_open_at_most() -> None:
    """Those that have expired do not count."""
    b = server(*(Invitation.make(Random(seed).randbytes, NOW_NS) for seed in range(16)))
    with pytest.raises(UsageError, match="16 invitations are open"):
        b.invite(OTHER, NOW_NS)
    b.invite(OTHER, OTHER.expires_at_ns)
    assert b.open_invitations(OTHER.expires_at_ns) == []


@pytest.mark.parametrize(
    ("name", "addresses", "error", "why"),
    [
        ("b", [f"udp://h:{port}" for port in range(1, 10)], UsageError, "9 addresses"),
        (
            "b",
            [f"udp://{'h' * 62}.{'h' * 62}.{'h' * 62}.{n}:1" for n in range(1, 7)],
            UsageError,
            "at most 8, and 1084 bytes",
        ),
        ("not a name", [], AddressError, "not a letter"),
        ("b", ["nowhere"], AddressError, "nowhere"),
    ],
)
def test_what_is_too_much_to_say_is_refused_at_once(
    name: str, addresses: list[str], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        EnrolmentServer(B_KEY, name, addresses, entropy=Random(1).randbytes)


WRONG = b"", b"\0", b"\x0a" + b"\0\1b" * 10, b"\1", b"\1\0", b"\1\0\5b", b"\1\0\0", b"\1\0\1/", b"\1\0\1\xff"


@pytest.mark.parametrize("who", [*WRONG, b"\2\0\1b\0\3abc", b"\1\0\1b\0\0\1"])
def test_what_cannot_be_a_name_or_an_address_is_refused(who: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from a sender that knows the code; and it uses up nothing."""
    b, a, answer = until("ANSWER")
    monkeypatch.setattr(a, "_who", who)
    assert why_not(b, tell(a, answer)) == "bad-hello"
    assert b.open_invitations(NOW_NS) == [INVITATION]
