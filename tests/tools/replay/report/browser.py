"""A browser without a screen, for what only a browser can tell of a page; spoken to by the pipes of its protocol."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.machine import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


class Page:
    """A page that is open.

    Args:
        reads, writes: the pipes.

    Attributes:
        events: what the browser told of it without being asked.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._rest = b""
        self._asked = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{part}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Return what the browser answers."""
        self._asked += 1
        asked = {"id": self._asked, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._writes, json.dumps(asked).encode() + b"\0")
        while (told := self._next()).get("id") != self._asked:
            self.events.append(told)
        assert "error" not in told, (method, told)
        return told["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            some = os.read(self._reads, 1 << 16)
            assert some, "the browser ended"
            self._rest += some
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def show(self, page: Path, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a file, and wait until it is drawn."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        while not any(it.get("method") == "Page.loadEventFired" for it in self.events):
            self.events.append(self._next())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, script: str) -> Any:
        """Return the value of an expression of JavaScript."""
        told = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return the value of an expression as soon as it is one that counts as true."""
        look = (
            f"const it = ({script}); it || performance.now() > {PATIENCE_S * 1000} ? done(it) : setTimeout(look, 10);"
        )
        return self.run(f"new Promise(done => {{ const look = () => {{ {look} }}; look(); }})")

    def picture(self) -> bytes:
        """Return the whole page as a PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    @property
    def asked_for(self) -> list[str]:
        """The addresses that the page has asked for."""
        return [it["params"]["request"]["url"] for it in self.events if it.get("method") == "Network.requestWillBeSent"]

    @property
    def complaints(self) -> list[str]:
        """What failed in the page."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [json.dumps(it["params"]) for it in self.events if it.get("method") in kinds]


@contextmanager
def opened(home: Path) -> Iterator[Page]:
    """Start the browser, and end it.

    Args:
        home: a folder for what it writes.
    """
    assert CHROMIUM is not None
    their_reads, writes = os.pipe()
    reads, their_writes = os.pipe()
    # The protocol has its pipes at 3 and 4.
    ends = f'exec 3<&{their_reads} 4>&{their_writes}; exec "$0" "$@"'
    command = ["bash", "-c", ends, CHROMIUM, *_QUIET, "--remote-debugging-pipe", f"--user-data-dir={home}"]
    quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    browser = subprocess.Popen(command, pass_fds=(their_reads, their_writes), **quiet)
    os.close(their_reads)
    os.close(their_writes)
    try:
        yield Page(reads, writes)
    finally:
        os.close(writes)
        os.close(reads)
        browser.terminate()
        browser.wait(PATIENCE_S)
