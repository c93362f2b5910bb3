"""How much one end of a session may have unacknowledged, and whether it keeps to that.

The limit is what both ends agreed on when the session opened, or less where the end's window follows its path: then the
end records each window before it uses it.
"""

from __future__ import annotations

from triack.base.printable import counted
from triack.tools.replay.checks.findings import Output, Record, SessionReporter


class Window(SessionReporter):
    """The window of one end of a session."""

    def __init__(self, session: str, out: Output) -> None:
        super().__init__(session, out)
        self._agreed: int | None = None
        self._in_force = 0
        # Sends before the window is known: (record, first and last packet, unacknowledged with them).
        self._early: list[tuple[Record, int, int, int]] = []

    def handle_opened(self, record: Record) -> None:
        """The session is open."""
        self._agreed = self._in_force = record["window"]
        for sent in self._early:
            self.handle_sent(*sent)

    def handle_changed(self, record: Record, unacked: int) -> None:
        """The end says what is in force from now on."""
        window = record["window"]
        if self._agreed is None:
            self._report(record, "silent_end", "a window before it opened")
        elif window > self._agreed:
            self._report(record, "window", f"a window of {window}, of at most {self._agreed} that were agreed on")
        elif window < unacked:
            self._report(record, "window", f"a window of {window} with {counted(unacked, 'packet')} unacknowledged")
        elif window == self._in_force:
            self._report(record, "claims", f"a window of {window}, as before")
        self._in_force = window

    def handle_sent(self, record: Record, first: int, last: int, unacked: int) -> None:
        """Packets have left for the first time; ``unacked`` are unacknowledged with them."""
        if self._agreed is None:
            self._early.append((record, first, last, unacked))
        elif (over := unacked - self._in_force) > 0:
            evidence = f"{counted(unacked, 'packet')} unacknowledged, the window is {self._in_force}"
            self._report(record, "window", evidence, number=max(first, last - over + 1), last=last)

    def handle_closed(self, record: Record) -> None:
        """The session has ended; ``record`` says how many packets were unacknowledged."""
        if record["unacked"] > self._in_force:
            unacked = counted(record["unacked"], "packet")
            self._report(record, "window", f"{unacked} unacknowledged when it closed, the window is {self._in_force}")
