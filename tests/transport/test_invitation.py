"""A code is read in the forms in which people write it, and no other text passes for one."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.errors import UsageError
from triack.base.units import SECOND
from triack.transport.invitation import Invitation, decode_code

INVITATION = Invitation.make(Random(1).randbytes, 5 * SECOND)


def test_an_invitation_is_128_random_bits_for_an_hour() -> None:
    """And nothing that prints it shows them."""
    assert INVITATION.secret == Random(1).randbytes(16)
    assert INVITATION.expires_at_ns == 3_605 * SECOND
    assert repr(INVITATION) == "Invitation(expires_at_ns=3605000000000)"


def test_a_code_is_eight_groups_of_four() -> None:
    """As people read things out."""
    groups = INVITATION.code.split("-")
    assert [len(group) for group in groups] == [4] * 8
    assert INVITATION.code == INVITATION.code.lower()


@given(st.binary(min_size=16, max_size=16))
def test_every_secret_comes_back(secret: bytes) -> None:
    """However it is written down."""
    code = Invitation(secret, 0).code
    for text in (code, code.upper(), code.replace("-", " "), f" {code.replace('-', '')}\n"):
        assert decode_code(text) == secret


def test_every_single_typo_is_noticed() -> None:
    """At each place, each other letter."""
    code = INVITATION.code
    for at, right in enumerate(code):
        for letter in "abcdefghijklmnopqrstuvwxyz234567":
            if right not in ("-", letter):
                with pytest.raises(UsageError, match="mistyped"):
                    decode_code(code[:at] + letter + code[at + 1 :])


@pytest.mark.parametrize(
    "text", ["", "abcd", "1" * 32, "ä" * 32, "=" * 32, INVITATION.code + "a", INVITATION.code[:-1]]
)
def test_what_is_no_code_is_refused_without_repeating_it(text: str) -> None:
    """It may be a secret in the wrong place."""
    with pytest.raises(UsageError, match="32 letters") as caught:
        decode_code(text)
    assert not text or text not in str(caught.value)


@given(st.text(max_size=64))
def test_any_text_is_a_code_or_a_mistake(text: str) -> None:
    """Nothing else comes out."""
    try:
        secret = decode_code(text)
    except UsageError:
        return
    assert len(secret) == 16
