"""What the queue manager sees of a session."""

import ast

import pytest

from tests.house import ROOT
from tests.session.pair import make_session
from triack.queues.peers.session_port import SessionPort


def test_a_session_offers_the_port() -> None:
    """Mypy compares every signature here; this fails when a name is missing at run time, as in a compiled wheel."""
    session: SessionPort = make_session(1)
    missing = [name for name in vars(SessionPort) if not name.startswith("_") and not hasattr(session, name)]
    assert missing == []


@pytest.mark.slow
@pytest.mark.gate
def test_only_the_handshake_makes_sessions_and_nobody_else_names_the_class() -> None:
    """Everything else in the queue manager has a ``SessionPort``, so that mypy refuses a reach into a session."""
    named = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "queues").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "triack.session.session"
    ]
    assert named == ["queues/peers/handshake.py"]
