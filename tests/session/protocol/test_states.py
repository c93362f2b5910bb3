"""The states of a session are a table: every pair of state and event is in it, or raises."""

from itertools import product

import pytest

from triack.base.transitions import IllegalTransition, next_state
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import CloseFrame
from triack.session.protocol.states import (
    AS_HEARD,
    TRANSITIONS,
    UNTOLD,
    WITHOUT_ACKS,
    CloseReason,
    SessionEvent,
    SessionState,
)

LEGAL = {
    (SessionState.CONNECTING, SessionEvent.ACCEPTED): SessionState.OPEN,
    (SessionState.ACCEPTING, SessionEvent.CONFIRMED): SessionState.OPEN,
    (SessionState.OPEN, SessionEvent.DRAIN): SessionState.DRAINING,
}
ANY_TIME = {
    CloseReason.PATH_LOST,
    CloseReason.SUPERSEDED,
    CloseReason.PEER_CLOSED,
    CloseReason.LOCAL_STOP,
    CloseReason.STORE_FAILED,
    CloseReason.PROTOCOL_ERROR,
    CloseReason.ROLLBACK,
    CloseReason.REVOKED,
    CloseReason.TOO_MANY_FORGERIES,
}
TIMEOUTS = {CloseReason.ACK_TIMEOUT, CloseReason.STORE_ACK_TIMEOUT}
CLOSES = {
    SessionState.CONNECTING: ANY_TIME | {CloseReason.CONNECT_TIMEOUT},
    SessionState.ACCEPTING: ANY_TIME | {CloseReason.CONNECT_TIMEOUT},
    SessionState.OPEN: ANY_TIME | TIMEOUTS | {CloseReason.IDLE},
    SessionState.DRAINING: ANY_TIME | TIMEOUTS | {CloseReason.DRAINED, CloseReason.IDLE},
    SessionState.CLOSED: set(),
}


@pytest.mark.parametrize(("state", "move"), list(product(SessionState, [*SessionEvent, *CloseReason])))
def test_every_pair_is_legal_or_raises(state: SessionState, move: SessionEvent | CloseReason) -> None:
    """The table says the same as this file's own, and what neither has is an error that names both."""
    expected = SessionState.CLOSED if move in CLOSES[state] else LEGAL.get((state, move))  # type: ignore[arg-type]
    if expected is not None:
        assert next_state(TRANSITIONS, state, move) is expected
        return
    with pytest.raises(IllegalTransition, match=f"{state.name}.*{move.name}"):
        next_state(TRANSITIONS, state, move)


def test_the_table_has_every_state_and_reason() -> None:
    """No state is forgotten, nothing leaves CLOSED, and every reason closes some state."""
    assert set(TRANSITIONS) == set(SessionState)
    assert not TRANSITIONS[SessionState.CLOSED]
    assert {move for moves in TRANSITIONS.values() for move in moves} == {*SessionEvent, *CloseReason}


def test_names_are_the_logs_names() -> None:
    """Each reason has its own name, in lower case and hyphens."""
    names = [reason.value for reason in CloseReason]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalpha() and name.islower() for name in names)


def test_every_reason_has_a_sentence() -> None:
    """For people; no two are the same."""
    sentences = [reason.sentence for reason in CloseReason]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)


def test_their_codes_on_the_wire_stay() -> None:
    """Other versions know them by number: what is new comes last."""
    first = [
        "ack-timeout",
        "store-ack-timeout",
        "path-lost",
        "superseded",
        "connect-timeout",
        "peer-closed",
        "drained",
        "idle",
    ]
    names = [*first, "local-stop", "store-failed", "protocol-error", "rollback", "revoked", "too-many-forgeries"]
    codes = {reason.value: BINARY.encode(CloseFrame(reason)) for reason in CloseReason}
    assert codes == {name: bytes([5, code]) for code, name in enumerate(names, 1)}
    assert BINARY.decode(bytes([5, 12])) == [CloseFrame(CloseReason.ROLLBACK)]


def test_an_end_as_the_other_side_hears_of_it() -> None:
    """The peer has closed it, whyever; but a rollback is about both of us."""
    assert set(AS_HEARD) == set(CloseReason)
    both = {CloseReason.ROLLBACK, CloseReason.IDLE}
    assert {heard for said, heard in AS_HEARD.items() if said not in both} == {CloseReason.PEER_CLOSED}
    assert all(AS_HEARD[reason] is reason for reason in both)


def test_what_is_said_at_the_end() -> None:
    """Nothing to a peer that knows or cannot hear; no acks after ends that make them untrue."""
    assert {CloseReason.PEER_CLOSED, CloseReason.PATH_LOST, CloseReason.CONNECT_TIMEOUT} == UNTOLD
    assert {CloseReason.STORE_FAILED, CloseReason.ROLLBACK} == WITHOUT_ACKS
