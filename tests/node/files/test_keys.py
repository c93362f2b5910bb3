"""Keys as text, and a node's own keys."""

import os
from pathlib import Path

import pytest

from triack.base.errors import IdentityError, KeyUnreadable
from triack.node.files import keys
from triack.node.files.keys import IDENTITY_FILE, Identity, KeyKind, decode_key, encode_key, open_identity
from triack.node.files.private_files import MemoryFiles, PrivateFiles

KEY = bytes(range(32))
ONE = Identity.make(lambda _: KEY)
PUBLIC = ONE.public[0]
PRIVATE_TEXT = encode_key(KeyKind.PRIVATE, KEY)
LOW_ORDER = [bytes(32), b"\1" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"]


@pytest.mark.parametrize("kind", KeyKind)
def test_a_key_survives_its_text(kind: KeyKind) -> None:
    """In any case, and with the space that copying brings along."""
    text = encode_key(kind, PUBLIC)
    assert text.startswith(f"triack-{kind}-")
    assert decode_key(kind, f"  {text.upper()}\n") == PUBLIC


def test_every_typo_in_a_letter_is_noticed() -> None:
    """Each letter replaced by each other one, and each pair of neighbours exchanged."""
    text = encode_key(KeyKind.PUBLIC, PUBLIC)
    start = len("triack-public-")
    typos = {
        text[:place] + letter + text[place + 1 :]
        for place in range(start, len(text))
        for letter in "abcdefghijklmnopqrstuvwxyz234567"
    }
    typos |= {text[:place] + text[place + 1] + text[place] + text[place + 2 :] for place in range(start, len(text) - 1)}
    typos.discard(text)
    assert len(typos) > 1700
    for typo in typos:
        with pytest.raises(KeyUnreadable, match="mistyped"):
            decode_key(KeyKind.PUBLIC, typo)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins with triack-public-"),
        (PUBLIC.hex(), "begins with triack-public-"),
        (PRIVATE_TEXT, "this is a private one"),
        (encode_key(KeyKind.PUBLIC, PUBLIC)[:-1], "56 letters"),
        ("triack-public-" + "1" * 56, "56 letters"),
        (PRIVATE_TEXT.replace("private", "public"), "mistyped"),
        *((encode_key(KeyKind.PUBLIC, point), "no private key belongs to it") for point in LOW_ORDER),
    ],
)
def test_a_bad_public_key_is_rejected_without_repeating_it(text: str, why: str) -> None:
    """It may be a secret in the wrong place."""
    with pytest.raises(KeyUnreadable, match=why) as caught:
        decode_key(KeyKind.PUBLIC, text)
    assert PRIVATE_TEXT[20:30] not in str(caught.value)


def test_a_key_is_made_once(tmp_path: Path) -> None:
    """The second start finds the first one's, whatever chance says; its file is private."""
    files = PrivateFiles(tmp_path / "data")
    first = open_identity(files, os.urandom)
    assert open_identity(files, os.urandom).public == first.public
    assert (tmp_path / "data" / IDENTITY_FILE).stat().st_mode & 0o777 == 0o600
    assert open_identity(MemoryFiles(), os.urandom).public != first.public


def test_keys_change_without_a_gap() -> None:
    """Add one, put it first, take the old one out: there always is one to call with, and it is the first."""
    both = ONE.with_new(os.urandom)
    new = both.public[1]
    assert both.public == (PUBLIC, new)
    turned = both.with_first(new)
    assert turned.public == (new, PUBLIC)
    last = turned.without(PUBLIC)
    assert last.public == (new,)
    assert Identity.decode(turned.encode(), "f").public == turned.public
    with pytest.raises(IdentityError, match="no other"):
        last.without(new)
    with pytest.raises(IdentityError, match="no key of this node"):
        last.with_first(PUBLIC)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "there is no key in it"),
        (b"# only a comment\n\n", "there is no key in it"),
        (b"# one\n" + PRIVATE_TEXT.encode()[:-1] + b"\n", "line 2: after triack-private- come 56 letters"),
        (PRIVATE_TEXT[:-1].encode() + b"7\n", "line 1: the checksum does not fit"),
        (encode_key(KeyKind.PUBLIC, PUBLIC).encode(), "line 1: a private key is wanted, and this is a public one"),
        (b"\xff\x00", "line 1: a private key begins with"),
        (f"{PRIVATE_TEXT}\n{PRIVATE_TEXT}\n".encode(), "twice"),
        (b"\n".join(encode_key(KeyKind.PRIVATE, bytes([n]) * 32).encode() for n in range(9)), "9 keys"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(content: bytes, why: str) -> None:
    """And nothing of the line is repeated."""
    files = MemoryFiles()
    files.change(IDENTITY_FILE, lambda _: content)
    with pytest.raises(IdentityError) as caught:
        open_identity(files, os.urandom)
    assert f"{caught.value}".startswith("read identity in memory")
    assert why in str(caught.value)
    assert PRIVATE_TEXT[20:30] not in str(caught.value)


def test_nothing_that_shows_an_identity_shows_its_private_keys() -> None:
    both = ONE.with_new(os.urandom)
    shown = f"{both!r} {both} {both.keys!r} {vars(keys)}"
    assert encode_key(KeyKind.PUBLIC, PUBLIC) in shown
    assert not [form for form in (PRIVATE_TEXT, KEY.hex(), repr(KEY)) if form in shown]
