from pathlib import Path

from triack.base.compiled import is_compiled
from triack.ordering import incoming
from triack.queues import engine
from triack.session import session


def test_all_pure_rooms_are_compiled_or_none_is() -> None:
    assert {Path(room.__file__).suffix != ".py" for room in (engine, session, incoming)} == {is_compiled()}
