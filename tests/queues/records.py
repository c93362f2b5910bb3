"""A session log in memory, for what writes to it by itself."""

from typing import Any

from triack.base.session_log import EVENTS


class Log(list[dict[str, Any]]):
    """The records of a test; each has the fields that its event has."""

    def __call__(self, event: str, now_ns: int, **fields: object) -> None:
        assert any(set(fields) == {*EVENTS[event].fields, *variant} for variant in EVENTS[event].variants), fields
        self.append({"event": event, "at": now_ns, **fields})
