"""The statements of a scope become settings of both its nodes."""

from dataclasses import replace

from proof.search.scope import Part, Scope, settings_of
from triack.base.ack_trigger import AckTrigger

SCOPE = Scope("one", "a message", (Part(ready=1), Part()), window=2, ack_count=3)


def test_window_and_ack_count_are_those_of_the_scope() -> None:
    """And valid settings: they are made as users make them."""
    settings = settings_of(SCOPE)
    assert settings.session.max_unacked_packet == 2
    assert settings.session.ack_trigger == AckTrigger(count=3)
    assert settings_of(replace(SCOPE, window=1)).session.max_unacked_packet == 1


def test_scopes_that_are_equal_share_their_settings() -> None:
    """They are asked for at every step of a search."""
    assert settings_of(SCOPE) is settings_of(replace(SCOPE))
