"""Payloads and keys, told apart from all else, through a running pair of nodes: they are in no log, error or figure."""

import logging
import traceback
from base64 import b64encode
from collections.abc import Awaitable
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, quick
from triack.node.files.keys import IDENTITY_FILE, KeyKind, encode_key

PAYLOAD = b"canary-of-a-payload"
SECRET = b"canary-of-a-shared-secret-32-byt"
LABEL = "canary-of-a-label"


def forms(secret: bytes) -> list[str]:
    """How bytes may come out."""
    return [secret.decode("latin-1"), secret.hex(), b64encode(secret).decode().rstrip("=")[:-1], repr(secret)[2:-1]]


async def fail(work: Awaitable[object]) -> str:
    """What a failure says of itself when all of it is printed."""
    with pytest.raises(triack.TriackError) as caught:
        await work
    lines = traceback.format_exception(caught.value)
    return "".join(lines[-1:]) + repr(caught.value) + repr(vars(caught.value))


async def life(data: Path, log: Path) -> str:
    """Everything that can be done with a message, well and badly. Returns what errors and figures said."""
    said: list[str] = []
    async with (
        triack.open("a", data=data / "a", log=log, settings=quick()) as a,
        triack.open("b", data=data / "b", log=log, listen="udp://127.0.0.1:0", settings=quick()) as b,
    ):
        psk = encode_key(KeyKind.SHARED, SECRET)
        await a.trust("plant-b", b.key, b.address, psk=psk)
        await b.trust("plant-a", a.key, send=["open-*"], psk=psk)
        for delivery in triack.Delivery:
            await (await a.send("plant-b/open-q", PAYLOAD, delivery=delivery, label=LABEL)).received(WAIT)
        async with b.receive("open-q", ack="manual") as consumer:
            message = await consumer.get(WAIT)
            message.reject(delay=0)
            said.append(repr(message))
        denied = await a.send("plant-b/closed", PAYLOAD, label=LABEL)
        said.append(await fail(denied.ordered(WAIT)))
        said.append(await fail(a.send("plant-b/open-q", PAYLOAD * 300_000)))
        said.append(await fail(a.send("plant-b/open-q", PAYLOAD, headers={"x": LABEL * 1_000})))
        said.append(await fail(a.send("plant-b/open-q", PAYLOAD.decode())))  # type: ignore[arg-type]
        said.append(await fail(a.trust("plant-b", psk=psk[:-1])))
        await b.revoke("plant-a")
        late = await a.send("plant-b/open-q", PAYLOAD, label=LABEL)
        said.append(await fail(late.ordered(0.3)))
        said += [repr(it) for node in (a, b) for it in (node, node.stats(), node.queue_lengths(), late)]
    said.append(await fail(a.send("plant-b/open-q", PAYLOAD)))
    return "\n".join(said)


@pytest.mark.slow
@pytest.mark.gate
async def test_no_payload_and_no_key_is_in_any_log_error_or_figure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Private keys, the shared secret, bodies and labels; whatever level is logged."""
    caplog.set_level(logging.DEBUG)
    said = await life(tmp_path / "data", tmp_path / "log")
    logged = "".join(record.getMessage() + repr(vars(record)) for record in caplog.records)
    records = "".join(file.read_text() for file in (tmp_path / "log").rglob("*") if file.is_file())
    assert "access-denied" in said
    assert "revoked" in logged + records
    assert "packet_sent" in records
    keys = [
        line
        for node in "ab"
        for line in (tmp_path / "data" / node / IDENTITY_FILE).read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert len(keys) == 2
    secrets = [*keys, encode_key(KeyKind.SHARED, SECRET), LABEL, *forms(PAYLOAD), *forms(SECRET)]
    for secret in secrets:
        assert len(secret) > 10
        for place, text in {"an error or figure": said, "the operator's log": logged, "a session log": records}.items():
            assert secret not in text, f"{secret[:12]} is in {place}"
