"""Which of the two wheels this is."""

from types import ModuleType

from triack.ordering import incoming
from triack.queues.manager import engine
from triack.session import session
from triack.tools.compiled import is_compiled


def test_all_pure_rooms_are_compiled_or_none_is() -> None:
    rooms: tuple[ModuleType, ...] = (engine, session, incoming)
    assert {not str(room.__file__).endswith(".py") for room in rooms} == {is_compiled()}
