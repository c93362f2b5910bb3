"""Serving: configuration, succession, visitors, keys and trust."""

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import triack
from tests.certificates import make_certificate
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, make, quick
from tests.tools.commands.serving import serving
from tests.tools.processes import SECONDS, Server, start, wait_until
from tests.tools.processes import triack as command
from triack import sync
from triack.base.errors import ConfigError, StoreError, StoreInUse, UsageError, WaitTimeout
from triack.base.news import PeerSilent
from triack.node.control import handover, server
from triack.node.control.control_frames import Link, greet
from triack.node.control.handover import Served
from triack.node.files.access import DEFAULT_SUITE
from triack.node.files.keys import Identity, KeyKind, decode_key, encode_key
from triack.node.files.notes import read_note
from triack.node.node import open_node
from triack.store.runs import Reading
from triack.tools.commands import visiting
from triack.tools.commands.enrol import enrol
from triack.tools.commands.keygen import keygen
from triack.tools.commands.policy import policy
from triack.tools.commands.serve import _start, serve
from triack.tools.commands.succession import Succession
from triack.tools.commands.trust import trust
from triack.tools.commands.visiting import Host, calling, stats_of, visit
from triack.transport.invitation import Invitation


# How a command finds the node of a directory: the process that runs it, or the directory itself.
async def test_who_runs_the_node_is_asked_and_nobody_needs_to(tmp_path: Path) -> None:
    """Either way the command sees the same queues, and its exit code is the caller's."""
    kinds = list[str]()

    async def work(node: Host) -> int:
        kinds.append(type(node).__name__)
        return len((await stats_of(node)).queues)

    async with make("a", tmp_path) as node:
        await (await node.send("orders", b"x")).stored()
        assert await visit(tmp_path, work) == 2
    assert await visit(tmp_path, work) == 2
    assert kinds == [triack.Client.__name__, triack.Node.__name__]


async def never(_node: Host) -> int:
    raise AssertionError


async def test_a_silent_process_is_no_reason_to_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visiting, "ANSWER_S", 0.1)

    async def be_silent(link: Link) -> None:
        with suppress(ConnectionError):
            while True:
                await link.receive()

    async with serving(tmp_path / "a", be_silent, be_silent):
        with pytest.raises(WaitTimeout, match=r"has not answered for 0\.1 s: it is stopped, or stuck"):
            await visit(tmp_path / "a", never)


@pytest.mark.slow
def test_a_read_only_file_system_is_looked_at(tmp_path: Path) -> None:
    """In a copy, which has no keys and is gone afterwards; nothing else works there."""
    data = tmp_path / "a"
    with triack.sync.open("a", data=data, settings=quick()) as node:
        node.send("orders", b"x").ordered(WAIT)
    before = set(Path(tempfile.gettempdir()).glob("triack-look-*"))
    script = f"""
mount -t tmpfs none {tmp_path}/ro && cp -a {data} {tmp_path}/ro && mount -o remount,ro {tmp_path}/ro || exit 77
{sys.executable} -m triack status --data {tmp_path}/ro/a; echo $?
{sys.executable} -m triack queue list --data {tmp_path}/ro/a; echo $?
{sys.executable} -m triack queue purge orders --all --data {tmp_path}/ro/a; echo $?
"""
    (tmp_path / "ro").mkdir()
    unshare = ["unshare", "-rm", "sh", "-c", script]
    done = subprocess.run(unshare, capture_output=True, text=True, timeout=WAIT, check=False)
    if done.returncode in (1, 77):
        pytest.skip("this machine lets nobody mount in a namespace")
    lines = done.stdout.splitlines()
    assert (lines[0], "unread: 1, dead letters: 0" in lines, lines[4]) == ("no process runs it", True, "3")
    assert [line.split()[:3] for line in lines if line.startswith("orders")] == [["orders", "in", "1"]]
    assert (lines[-1], "not writable" in done.stderr) == ("1", True)
    assert set(Path(tempfile.gettempdir()).glob("triack-look-*")) == before


async def test_a_copy_has_the_store_and_no_keys(tmp_path: Path) -> None:
    async with make("a", tmp_path / "a") as node:
        await (await node.send("orders", b"x")).stored()
    (tmp_path / "copy").mkdir()
    visiting._copy_store(tmp_path / "a", tmp_path / "copy")  # noqa: SLF001 - only a read-only file system calls it
    assert {path.name for path in (tmp_path / "copy").iterdir()} <= {"store.db", "store.db-wal"}
    with pytest.raises(StoreError, match=r"copy the store of .*, which cannot be written"):
        visiting._copy_store(tmp_path / "a", tmp_path / "nowhere")  # noqa: SLF001


async def test_a_command_that_calls_peers_uses_the_running_node_or_opens_one(tmp_path: Path) -> None:
    async with make("a", tmp_path), calling(tmp_path, {}, DEFAULT_SUITE) as node:
        assert type(node) is triack.Client
    async with make("b", tmp_path / "b"):
        pass
    async with calling(tmp_path / "b", {}, DEFAULT_SUITE) as node:
        assert (type(node), node.name) == (triack.Node, "b")
    (tmp_path / "c").mkdir()
    with pytest.raises(UsageError, match="there is no node in"):
        await calling(tmp_path / "c", {}, DEFAULT_SUITE).__aenter__()
    with pytest.raises(UsageError, match="there is no node in"):
        await visit(tmp_path / "c", never)
    assert list((tmp_path / "c").iterdir()) == []


# The process that goes on with a directory when the one that serves it went away.
@pytest.fixture
async def succession(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Succession]:
    monkeypatch.setattr(handover, "SOON_S", 0.1)

    async with asyncio.timeout(PATIENCE_S), Succession(tmp_path, partial(own_node, tmp_path)) as it:
        yield it


def own_node(data: Path) -> triack.Node:
    return triack.open("own", data=data, insecure=True)


async def name_at(link: Link) -> str:
    welcome = await greet(link)
    await link.close()
    return str(welcome["name"])


async def next_name(succession: Succession) -> str:
    return await name_at(await succession.next())


@pytest.mark.parametrize("passing", [True, False])
async def test_after_another_command_it_opens_the_directory_and_after_a_server_it_waits_for_the_next(
    tmp_path: Path, succession: Succession, *, passing: bool
) -> None:
    succession.handle_welcome({"passing": passing})
    finding = asyncio.create_task(next_name(succession))
    if not passing:
        await asyncio.sleep(0.3)
    async with AsyncExitStack() if passing else make("server", tmp_path):
        assert await finding == ("own" if passing else "server")
    assert not passing or await next_name(succession) == "own"


async def test_a_directory_that_is_still_in_use_is_waited_for(
    tmp_path: Path, succession: Succession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "publish", lambda _data, _served: None)
    async with make("other", tmp_path):
        finding = asyncio.create_task(next_name(succession))
        await asyncio.sleep(0.3)
        assert not finding.done()
    monkeypatch.undo()
    assert await finding == "own"


async def test_a_server_that_begins_gets_the_directory_of_a_command(tmp_path: Path, succession: Succession) -> None:
    """Which goes on through it, and waits for it to come back when it went away."""
    link = await succession.first()
    async with make("server", tmp_path):
        with pytest.raises(ConnectionError):
            await link.receive()
        await link.close()
        assert succession.own is not None
        assert await next_name(succession) == "server"
        assert succession.own is None


async def test_servers_do_not_give_way_to_each_other(tmp_path: Path) -> None:
    async with Succession(tmp_path, partial(own_node, tmp_path), passing=False) as serving:
        assert await name_at(await serving.first()) == "own"
        with pytest.raises(StoreInUse):
            await make("server", tmp_path).start()


async def test_who_cannot_go_on_elsewhere_keeps_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "CLAIM_S", 0.2)
    async with Succession(tmp_path, partial(own_node, tmp_path), gives_way=False) as express:
        link = await express.first()
        with pytest.raises(StoreInUse):
            await make("server", tmp_path).start()
        assert await name_at(link) == "own"
        monkeypatch.undo()
        starting = asyncio.create_task(make("server", tmp_path).start())
        await asyncio.sleep(0.2)
    await (await starting).close()


@pytest.mark.slow
def test_commands_go_on_through_a_server_that_begins(tmp_path: Path) -> None:
    """Each line once and in order, before and after: nobody has to end them first."""
    data = tmp_path / "a"
    reading = start("receive", "orders", "--create", "--count", "4", "--data", data, "--insecure")
    wait_until(lambda: read_note(data, handover.Served) is not None, "the directory is in use")
    sending = start("send", "orders", "--data", data, "--insecure", stdin=subprocess.PIPE)

    def pass_on(line: bytes) -> None:
        assert sending.stdin is not None
        sending.stdin.write(line)
        sending.stdin.flush()
        assert reading.stdout.readline() == line

    pass_on(b"one\n")
    pass_on(b"two\n")
    with Server(data) as server:
        pass_on(b"three\n")
        pass_on(b"four\n")
        sending.communicate(timeout=SECONDS)
        reading.communicate(timeout=SECONDS)
        assert (sending.returncode, reading.returncode, server.stop()) == (0, 0, 0)


@pytest.mark.slow
def test_settings_that_are_another_process_s_are_named(tmp_path: Path) -> None:
    """Both commands; what holds for the messages is no setting of a node, and a key is no reason to say no."""
    given = ("--log", tmp_path / "log", "--name", "b", "--suite", DEFAULT_SUITE, "--insecure")
    told = f"--log and --name and --suite without effect: another process serves {tmp_path}, with settings of its own"
    with triack.sync.open("a", data=tmp_path, insecure=True):
        sent = command("send", "orders", "--label", "l", "--data", tmp_path, *given, stdin=b"x\n")
        received = command("receive", "orders", "--count", "1", "--data", tmp_path, *given)
        quiet = command("send", "orders", "--data", tmp_path, "--insecure", stdin=b"x\n")
    assert (sent.returncode, received.returncode, received.stdout) == (0, 0, b"x\n")
    assert told in sent.stderr.decode()
    assert told in received.stderr.decode()
    assert quiet.stderr == b""
    assert not (tmp_path / "log").exists()


# ``triack serve``: it says where it listens, can be found while it runs, and ends in good order or with its reason.
HERE = ("--listen", "udp://127.0.0.1:0", "--insecure")


def run(*arguments: str | Path) -> Result:
    """The command, in this process: only what ends before it serves."""
    return CliRunner().invoke(serve, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)


def test_a_queue_that_can_have_no_such_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--queue: node\.queues: name 'a/b': '/' is not a letter"):
        run("--name", "a", *HERE, "--queue", "a/b", "--data", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_found_while_it_runs_and_not_after(tmp_path: Path) -> None:
    with Server(tmp_path / "a") as server:
        served = read_note(server.data, Served)
        assert served is not None
        assert (served.pid, served.listen) == (server.pid, server.address)
        assert server.stop() == 0
        assert read_note(server.data, Served) is None


def test_a_hangup_has_files_read_again_and_ends_nothing(tmp_path: Path) -> None:
    """A user closes the terminal, or a service manager wants files read again: the node goes on."""
    certificate = make_certificate(tmp_path)
    tls = ("--listen", "tcp://127.0.0.1:0", "--tls-cert", certificate, "-v")
    for options, said in ((HERE, None), ((*tls, "--insecure"), f"TLS files read again: {certificate}")):
        process = start("serve", *options, "--data", tmp_path / "a")
        assert process.stdout.readline().startswith(b"listening ")
        process.send_signal(signal.SIGHUP)
        while said is not None and said.encode() not in process.stderr.readline():
            assert process.poll() is None
        assert command("queue", "list", "--data", tmp_path / "a").returncode == 0
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
        assert process.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "in_json"),
    [("--json", True), ("--log-format json", True), ("--json --log-format console", False), ("", False)],
)
def test_lines_of_the_log_are_as_the_options_say(options: str, tmp_path: Path, *, in_json: bool) -> None:
    """With --json they are objects; and no visit of a command leaves one."""
    served = start("serve", *HERE, "--data", tmp_path / "a", "-v", *options.split())
    served.stdout.readline()
    for _ in range(3):
        assert command("status", "--data", tmp_path / "a").returncode == 0
    with sync.connect(tmp_path / "a") as node:
        events = node.events()
        node.send("tcp://127.0.0.1:9/q", b"x")
        assert isinstance(next(events), PeerSilent)
    served.terminate()
    lines = served.communicate(timeout=SECONDS)[1].decode().splitlines()
    assert [line for line in lines if "conversation ended" in line] == []
    told = next(line for line in lines if "trying on" in line)
    if not in_json:
        assert "[warning" in told
        return
    said = json.loads(told)
    assert (said["level"], said["node"], said["to"]) == ("warning", "a", "tcp://127.0.0.1:9")
    assert said["event"] == "no process listens at tcp://127.0.0.1:9; trying on"
    assert said["timestamp"].endswith("Z")


async def test_a_signal_ends_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of a node with a million messages takes seconds, and nobody wants it any more."""
    async with open_node("a", data=tmp_path / "a", insecure=True) as node:
        await node.send("q", b"one of a million")
    begun = threading.Event()

    def never(reading: Reading) -> None:
        begun.set()
        while not reading.is_given_up:
            time.sleep(0.001)
        raise StoreError("given up")

    monkeypatch.setattr(Reading, "step", never)
    node, stopping = open_node("a", data=tmp_path / "a", insecure=True), asyncio.Event()
    async with AsyncExitStack() as stack:
        start = asyncio.create_task(_start(node, stack, stopping))
        await asyncio.to_thread(begun.wait)
        stopping.set()
        assert not await start


# ``triack trust``: add, list and remove peers of a data directory.
B, C = (encode_key(KeyKind.PUBLIC, Identity.make(lambda size, n=n: bytes([n]) * size).public[0]) for n in (1, 2))  # type: ignore[misc]


def run_trust(data: Path, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(trust, [*arguments, "--data", str(data)], input=stdin)


def test_peers_are_added_listed_and_removed(tmp_path: Path) -> None:
    """A second key comes behind the first; the secret is used and not shown."""

    def add(*options: str) -> list[str]:
        """Add to what is known of the peer. Returns what is listed of it then."""
        run_trust(tmp_path, "add", "plant-b", *options)
        return run_trust(tmp_path, "list").output.splitlines()

    psk = CliRunner().invoke(trust, ["psk"]).output
    assert psk.startswith("triack-shared-")
    add(B, "--address", "udp://B:7801", "--send", "orders", "--send", "in-*")
    assert run_trust(tmp_path, "add", "plant-b", C, "--psk", "-", stdin=psk).exit_code == 0
    listed = (
        f"plant-b\n  key      {B}\n  key      {C}\n  address  udp://b:7801\n  send     orders in-*\n  psk      yes\n"
    )
    assert run_trust(tmp_path, "list").output == listed
    told: dict[str, object] = {"name": "plant-b", "keys": [B, C], "addresses": ["udp://b:7801"]}
    told |= {"may_send": ["orders", "in-*"], "may_relay": [], "may_subscribe": [], "relays_for": []}
    told |= {"seal": False, "sealed_only": False, "psk": True, "keep_alive_s": None}
    assert json.loads(run_trust(tmp_path, "list", "--json").output) == told
    assert add("--keep-alive", "25")[-1] == "  alive    25 s"
    assert add("--keep-alive", "0")[-1] == "  alive    no keep-alives"
    lines = add("--may-relay", "plant-*", "--relays-for", "sensor", "--relays-for", "hub")
    assert {"  onward   plant-*", "  relays   sensor hub"} < {*lines}
    assert {"  seal     yes", "  takes    sealed messages only, by relays"} < {*add("--seal", "--sealed-only")}
    assert "  seal     yes" not in add("--no-seal")
    run_trust(tmp_path, "remove", "plant-b", "--key", B)
    assert B not in run_trust(tmp_path, "list").output
    run_trust(tmp_path, "remove", "plant-b")
    assert run_trust(tmp_path, "list").output == ""


def test_bad_arguments_are_rejected(tmp_path: Path) -> None:
    """A mistyped key, an unknown peer, a directory that is none, and the node's own key, as copied lines have it."""
    typo = B[:-1] + ("a" if B[-1] != "a" else "b")
    assert "mistyped" in run_trust(tmp_path, "add", "plant-b", typo).output
    assert "no such peer" in str(run_trust(tmp_path, "remove", "plant-c").exception)
    own = CliRunner().invoke(keygen, ["--data", str(tmp_path)]).output.strip()
    assert "own key" in str(run_trust(tmp_path, "add", "plant-b", own).exception)
    assert run_trust(tmp_path, "list").output == ""
    for words in (["list"], ["remove", "plant-b"]):
        result = run_trust(tmp_path / "typo", *words)
        assert (result.exit_code, "does not exist" in result.output) == (2, True)
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o600, False)])
def test_a_secret_that_others_may_read_gets_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    path = tmp_path / "psk"
    path.write_text(CliRunner().invoke(trust, ["psk"]).output)
    path.chmod(mode)
    assert run_trust(tmp_path / "a", "add", "plant-b", C, "--psk", str(path)).exit_code == 0
    assert caplog.messages == (
        [f"secret in {path}: other users may read it (mode 0644): chmod 600 it"] if warned else []
    )


# ``triack enrol``: what ends at once; two nodes that do it are in the stories.
CODE = Invitation.make(lambda size: bytes(range(size)), 0).code


def run_enrol(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(enrol, [*arguments, "--data", str(data)])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("aaaa" * 8, "udp://127.0.0.1:9"), "mistyped"),
        (("twelve", "udp://127.0.0.1:9"), "32 letters"),
        ((CODE, "nowhere"), "cannot read address"),
        ((CODE, "udp://127.0.0.1:9", "--as", "no name"), "no name"),
        ((CODE, "udp://127.0.0.1:9", "--name", "no name"), "no name"),
        ((CODE, "udp://127.0.0.1:9", "--address", "here"), "cannot read address"),
    ],
)
def test_bad_arguments_of_enrol_are_rejected(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    failed = run_enrol(tmp_path, "join", *arguments)
    assert failed.exit_code
    assert why in str(failed.exception)
    assert arguments[0] not in str(failed.exception)


# ``triack keygen``: a key is made once, exchanged without a gap, and never printed.
def run_keygen(data: Path, *arguments: str) -> list[str]:
    done = CliRunner().invoke(keygen, ["--data", str(data), *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.split()


def test_a_key_is_made_once_and_exchanged_for_another(tmp_path: Path) -> None:
    """Its public half is printed. There is always one to call with; the last one stays."""
    (old,) = run_keygen(tmp_path)
    assert len(decode_key(KeyKind.PUBLIC, old)) == 32
    assert run_keygen(tmp_path) == [old]
    assert run_keygen(tmp_path / "b") != [old]
    assert run_keygen(tmp_path, "--add")[0] == old
    new = run_keygen(tmp_path)[1]
    assert run_keygen(tmp_path, "--use", new) == [new, old]
    assert run_keygen(tmp_path, "--remove", old) == [new]
    private = CliRunner().invoke(keygen, ["--data", str(tmp_path), "--use", "triack-private-abc"])
    assert (private.exit_code, "a public key is wanted, and this is a private one" in private.output) == (2, True)


# ``triack policy``: what the presets say, to people and to programs.
def told(*arguments: str) -> list[str]:
    done = CliRunner().invoke(policy, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_the_list_has_all_of_them_with_their_numbers() -> None:
    assert [line.split() for line in told("list")][1:] == [
        line.split()
        for line in (
            "DEFAULT 64 32 packets 0.5 - 30",
            "MSMQ 64 32 packets 0.5 - 30",
            "SOLACE 50 16 packets 1 - 2",
            "HORNETQ 65535 10485760 bytes 2 30 30",
            "AMPS 65535 - 1 - 30",
            "WSO2 64 32 packets 0.5 - 30",
        )
    ]
    after = [json.loads(line)["ack_after"] for line in told("list", "--json")]
    assert after == ["32 packets", "32 packets", "16 packets", "10485760 bytes", None, "32 packets"]
    with pytest.raises(UsageError, match=r"^no policy KAFKA; there are DEFAULT, MSMQ, SOLACE, HORNETQ, AMPS, WSO2$"):
        told("show", "kafka")
