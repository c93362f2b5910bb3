"""Degrees of survival have codes on the wire."""

from triack.base.survival import SURVIVES


def test_the_codes_stay_as_they_are() -> None:
    """A node that says nothing of it, as older ones do, has the strongest."""
    assert SURVIVES == ("power loss", "process crash", "nothing")
