"""Handshakes equal the specification's vectors byte for byte, and only an intact message changes anything."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.transport.snapshots import snapshot
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.transport import noise
from triack.transport.noise import AESGCM_SHA256, CHACHAPOLY_BLAKE2S, KEY_BYTES, Handshake, KeyPair, Pattern, Suite

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "noise.json").read_text())["vectors"]
ONE_WAY: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "noise-x.json").read_text())["vectors"]
PATTERNS = {pattern.title: pattern for pattern in Pattern}
# What is offered, and the other two ways to put the same ciphers and hashes together.
SUITES = {
    suite.name: suite
    for suite in (
        AESGCM_SHA256,
        CHACHAPOLY_BLAKE2S,
        AESGCM_SHA256._replace(name="25519_AESGCM_BLAKE2s", hash="blake2s"),
        CHACHAPOLY_BLAKE2S._replace(name="25519_ChaChaPoly_SHA256", hash="sha256"),
    )
}
LONG = bytes(range(32)), bytes(range(1, 33))
ONCE = bytes(range(2, 34)), bytes(range(3, 35))

P = 2**255 - 19
ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
# Every point of low order, as X25519 may be given it: https://cr.yp.to/ecdh.html#validate. The last bit is not read.
LOW_ORDER = [
    point.to_bytes(KEY_BYTES, "little")
    for low in (0, 1, *ORDER_8, P - 1)
    for point in (low, low + P, low + 2**255, low + P + 2**255)
    if point < 2**256 and (low + P < 2**255 or point in (low, low + 2**255))
]


def bytes_of(vector: dict[str, Any], name: str) -> bytes:
    return bytes.fromhex(vector.get(name, ""))


def side(vector: dict[str, Any], role: str) -> Handshake:
    _, pattern, suite = vector["protocol_name"].split("_", 2)
    psks = vector.get(f"{role}_psks", [])
    return Handshake(
        PATTERNS[pattern],
        SUITES[suite],
        initiator=role == "init",
        prologue=bytes_of(vector, f"{role}_prologue"),
        static=KeyPair.of(bytes_of(vector, f"{role}_static")),
        remote_static=bytes_of(vector, f"{role}_remote_static"),
        psk=bytes.fromhex(psks[0]) if psks else bytes(KEY_BYTES),
    )


def pair(
    pattern: Pattern = Pattern.IKPSK2,
    suite: Suite = AESGCM_SHA256,
    *,
    initiator: dict[str, Any] | None = None,
    responder: dict[str, Any] | None = None,
) -> list[Handshake]:
    """Initiator and responder; each may be made differently."""
    known = b"" if pattern is Pattern.XX else KeyPair.of(LONG[1]).public
    first = {"prologue": b"both", "static": KeyPair.of(LONG[0]), "remote_static": known} | (initiator or {})
    second = {"prologue": b"both", "static": KeyPair.of(LONG[1])} | (responder or {})
    return [Handshake(pattern, suite, initiator=True, **first), Handshake(pattern, suite, initiator=False, **second)]


def talk(sides: list[Handshake], payloads: list[bytes]) -> list[bytes]:
    """Let them say that; returns what was understood."""
    heard = []
    for number, payload in enumerate(payloads):
        writer, reader = sides[number % 2], sides[1 - number % 2]
        heard.append(reader.read(writer.write(payload, ONCE[number % 2])))
    return heard


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["protocol_name"])
@pytest.mark.parametrize("role", ["init", "resp"])
def test_every_vector_in_both_roles(vector: dict[str, Any], role: str) -> None:
    """One side is ours and the other is the vector's text: what we write is that text, what it says we can read."""
    ours = side(vector, role)
    messages = [(bytes_of(m, "payload"), bytes_of(m, "ciphertext")) for m in vector["messages"]]
    _, pattern, suite_name = vector["protocol_name"].split("_", 2)
    length = len(PATTERNS[pattern].messages)
    for number, (payload, ciphertext) in enumerate(messages[:length]):
        if (number % 2 == 0) is (role == "init"):
            assert ours.write(payload, bytes_of(vector, f"{role}_ephemeral")) == ciphertext
        else:
            assert ours.read(ciphertext) == payload
    assert ours.is_finished
    assert ours.hash == bytes_of(vector, "handshake_hash")
    suite = SUITES[suite_name]
    ciphers = [suite.aead(key) for key in ours.split()]
    assert len(messages) > length
    for number, (payload, ciphertext) in enumerate(messages[length:]):
        # The initiator goes on speaking first after two messages; after three the responder does.
        direction = (length + number) % 2
        assert ciphers[direction].encrypt(suite.nonce(number // 2), payload, b"") == ciphertext


def test_all_vectors_are_there() -> None:
    named = {vector["protocol_name"] for vector in (*VECTORS, *ONE_WAY)}
    assert len(named) == len(PATTERNS) * len(SUITES) == 16


@pytest.mark.parametrize("vector", ONE_WAY, ids=lambda vector: vector["protocol_name"])
def test_every_vector_of_a_single_message_in_both_roles(vector: dict[str, Any]) -> None:
    """All that follows it has the first of the two keys."""
    (first, *others) = [(bytes_of(m, "payload"), bytes_of(m, "ciphertext")) for m in vector["messages"]]
    writer, reader = side(vector, "init"), side(vector, "resp")
    assert writer.write(first[0], bytes_of(vector, "init_ephemeral")) == first[1]
    assert reader.read(first[1]) == first[0]
    assert reader.remote_static == KeyPair.of(bytes_of(vector, "init_static")).public
    suite = SUITES[vector["protocol_name"].split("_", 2)[2]]
    for ours in (writer, reader):
        cipher = suite.aead(ours.split()[0])
        for number, (payload, ciphertext) in enumerate(others):
            assert cipher.encrypt(suite.nonce(number), payload, b"") == ciphertext


def seals(*private: bytes, suite: Suite = AESGCM_SHA256) -> noise.Seals:
    return noise.Seals(lambda count: ONCE[0][:count], suite, map(KeyPair.of, private))


@pytest.mark.parametrize("suite", [AESGCM_SHA256, CHACHAPOLY_BLAKE2S])
def test_a_sealed_text_is_opened_by_its_receiver_alone(suite: Suite) -> None:
    mine, theirs = (KeyPair.of(private).public for private in LONG)
    sealed = seals(LONG[0], suite=suite).seal(theirs, b"nine", b"bound")
    assert (len(sealed), b"nine" in sealed) == (len(b"nine") + 96, False)
    assert seals(ONCE[1], LONG[1], suite=suite).open(sealed, b"bound") == (mine, b"nine")
    for key, text, bound, why in (
        (ONCE[1], sealed, b"bound", "bad-tag"),
        (LONG[1], sealed, b"other", "bad-tag"),
        (LONG[1], sealed[:20], b"bound", "too-short"),
    ):
        with pytest.raises(ProtocolError, match=why):
            seals(key, suite=suite).open(text, bound)


def test_a_proof_fits_what_was_said_and_who_has_said_it() -> None:
    mine, theirs, other = (KeyPair.of(private).public for private in (*LONG, ONCE[0]))
    proof, receiver = seals(LONG[0]).mac(theirs, b"seven"), seals(ONCE[1], LONG[1])
    assert len(proof) == 16
    assert receiver.fits([other, mine], b"seven", proof)
    assert not receiver.fits([mine], b"eight", proof)
    assert not receiver.fits([other], b"seven", proof)
    assert not receiver.fits([LOW_ORDER[0], mine], b"seven", proof[:-1] + bytes([proof[-1] ^ 1]))
    assert not receiver.fits([mine], b"seven", b"")


@pytest.mark.parametrize("low", LOW_ORDER[:2])
def test_nothing_is_sealed_or_proved_for_a_key_of_low_order(low: bytes) -> None:
    with pytest.raises(ProtocolError, match="bad-tag"):
        seals(LONG[0]).seal(low, b"", b"")
    with pytest.raises(ProtocolError, match="bad-tag"):
        seals(LONG[0]).mac(low, b"")


@pytest.mark.parametrize(("pattern", "number"), [(p, n) for p in Pattern for n in range(len(p.messages))])
def test_a_flipped_bit_in_any_message_changes_nothing(pattern: Pattern, number: int) -> None:
    """The first message of XX has no tag: damage to it makes the second unreadable. The true message is read next."""
    sides = pair(pattern)
    talk(sides, [b"hello"] * number)
    writer, reader = sides[number % 2], sides[1 - number % 2]
    message, before = writer.write(b"hello", ONCE[number % 2]), snapshot(reader)
    if pattern is Pattern.XX and number == 0:
        reader.read(message[:31] + b"\0" + message[32:])
        with pytest.raises(ProtocolError, match="bad-tag"):
            writer.read(reader.write(b"", ONCE[1]))
        return
    for bit in range(len(message) * 8):
        damaged = bytearray(message)
        damaged[bit // 8] ^= 1 << bit % 8
        # X25519 does not read the last bit of a key (RFC 7748, section 5), but the hash does.
        with pytest.raises(ProtocolError, match="bad-tag"):
            reader.read(bytes(damaged))
    for length in range(len(message)):
        with pytest.raises(ProtocolError, match=r"bad-tag|too-short"):
            reader.read(message[:length])
    with pytest.raises(ProtocolError, match="bad-tag"):
        reader.read(message + b"\0")
    assert snapshot(reader) == before
    assert reader.read(message) == b"hello"


@pytest.mark.parametrize(
    ("responder", "messages"),
    [
        ({"prologue": b"neither"}, 1),
        ({"static": KeyPair.of(ONCE[0])}, 1),
        ({"suite": CHACHAPOLY_BLAKE2S}, 1),  # it is part of the name, which is hashed first
        ({"psk": b"p" * 32}, 2),  # it is mixed into the second message, so that the initiator notices
    ],
    ids=["prologue", "key", "suite", "psk"],
)
def test_what_the_two_do_not_agree_on_is_noticed_at_once(responder: dict[str, Any], messages: int) -> None:
    """By the responder, in the first message, if it can be."""
    ends = [pair()[0], pair(suite=responder.pop("suite", AESGCM_SHA256), responder=responder)[1]]
    assert talk(ends, [b""] * (messages - 1)) == [b""] * (messages - 1)
    with pytest.raises(ProtocolError, match="bad-tag"):
        talk(ends if messages == 1 else ends[::-1], [b""])


def test_the_caller_says_which_keys_are_not_admitted() -> None:
    """Before its static key is used; the handshake is as it was then."""
    (initiator, responder), seen = pair(), list[bytes]()

    def refuse(key: bytes) -> None:
        seen.append(key)
        raise ProtocolError(DropReason.UNTRUSTED)

    message, before = initiator.write(b"hello", ONCE[0]), snapshot(responder)
    with pytest.raises(ProtocolError, match="untrusted"):
        responder.read(message, refuse)
    assert (seen, snapshot(responder)) == ([KeyPair.of(LONG[0]).public], before)
    assert responder.read(message, seen.append) == b"hello"


def test_the_list_of_points_of_low_order_is_whole() -> None:
    """Five, two of which have a second form below 2^255, and each with the bit that is not read set or not."""
    assert len(LOW_ORDER) == len(set(LOW_ORDER)) == 14
    for point in LOW_ORDER:
        with pytest.raises(ValueError, match="shared key"):
            KeyPair.of(LONG[0]).exchange(point)


def claiming(point: bytes, pattern: Pattern = Pattern.IKPSK2) -> list[Handshake]:
    """A caller claims it as its own key: anyone can seal what they like."""
    return pair(pattern, initiator={"static": KeyPair.of(LONG[0])._replace(public=point)})


def as_ephemeral_of_xx(point: bytes) -> None:
    """There, it is used when the second message is written."""
    _, responder = pair(Pattern.XX)
    responder.read(point)
    responder.write(b"", ONCE[1])


def as_answer(point: bytes) -> None:
    initiator, _ = pair()
    initiator.write(b"", ONCE[0])
    initiator.read(point + bytes(16))


PLACES: dict[str, Callable[[bytes], object]] = {
    "the ephemeral key": lambda point: pair()[1].read(point + bytes(100)),
    "the ephemeral key of XX": as_ephemeral_of_xx,
    "the answer": as_answer,
    "the key that is dialled": lambda point: pair(initiator={"remote_static": point})[0].write(b"", ONCE[0]),
    "the caller's key": lambda point: talk(claiming(point), [b""]),
    "the caller's key of XX": lambda point: talk(claiming(point, Pattern.XX), [b"", b"", b""]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_points_of_low_order_are_refused(point: bytes, place: str) -> None:
    """Wherever they can stand: a shared secret that anyone can know never becomes a key."""
    with pytest.raises(ProtocolError, match="bad-tag") as caught:
        PLACES[place](point)
    assert isinstance(caught.value.__cause__, ValueError)


def test_the_next_key_is_that_of_the_specification() -> None:
    """Section 4.2: the cipher's output for 32 zero bytes under the nonce that nothing else has."""
    key = bytes(range(32))
    assert noise.next_key(AESGCM_SHA256, key) == AESGCM(key).encrypt(bytes(4) + b"\xff" * 8, bytes(32), b"")[:32]
    keys = [key]
    for _ in range(10):
        keys.append(noise.next_key(CHACHAPOLY_BLAKE2S, keys[-1]))
    assert len(set(keys)) == 11


def test_the_two_ciphers_read_nonces_in_their_own_order() -> None:
    """Big-endian and little-endian, after four zero bytes (section 12)."""
    assert AESGCM_SHA256.nonce(1).hex() == "000000000000000000000001"
    assert CHACHAPOLY_BLAKE2S.nonce(1).hex() == "000000000100000000000000"
    assert AESGCM_SHA256.nonce(noise.NONCE_MAX) == CHACHAPOLY_BLAKE2S.nonce(noise.NONCE_MAX) == bytes(4) + b"\xff" * 8


@pytest.mark.parametrize("private", [bytes(32), b"\xff" * 32])
def test_no_key_is_shown(private: bytes) -> None:
    """A traceback that shows a pair or a handshake shows no secret."""
    key = KeyPair.of(private)
    assert private.hex() not in repr(key)
    assert repr(private) not in repr((key, pair()))
