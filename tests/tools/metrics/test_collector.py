"""A node's metrics are those of its stats, under names that stay, from any thread."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import triack
import triack.sync
from tests.node.nodes import WAIT, make, until
from triack.base.errors import UsageError
from triack.metrics import NodeCollector
from triack.metrics.collector import FAMILIES, Durations

PAGE = Path(__file__).parents[3] / "docs/metrics.md"


def registered(node: "triack.Node | triack.sync.SyncNode") -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(NodeCollector(node))
    return registry


async def test_queues_links_and_what_is_on_its_way_are_counted() -> None:
    async with make("b", scheme="udp") as b, make("a", scheme="udp") as a:
        seen = registered(a), registered(b)
        receipts = await a.send_many(f"{b.address}/q", [b"x"] * 5)
        await receipts.ordered(WAIT)
        async with b.receive("q") as reader:
            for _ in range(2):
                await reader.get(WAIT)
        await b.flush()

        def value(end: int, metric: str, /, **labels: str) -> float | None:
            return seen[end].get_sample_value(f"triack_{metric}", labels)

        to_b = {"peer": b.address, "queue": "q", "delivery": "transactional"}
        counts = ("messages", "arrived_total", "left_total")
        assert [value(1, f"queue_{name}", queue="q") for name in counts] == [3, 5, 2]
        assert [value(0, f"outgoing_{name}", **to_b) for name in ("messages", "accepted_total")] == [0, 5]
        assert [value(0, f"link_{name}", peer=b.address) for name in ("up", "sessions_total", "window")] == [1, 1, 64]
        assert (value(0, "link_round_trip_seconds", peer=b.address) or 0) > 0
        assert (value(1, "queue_oldest_seconds", queue="q") or 0) > 0
        assert value(1, "queue_oldest_seconds", queue="dead-letter") is None
        about = {"name": "a", "node_id": a.node_id, "version": triack.__version__, "survives": a.stats().survives}
        assert value(0, "node", **about) == 1


async def test_priorities_have_no_labels() -> None:
    """What goes to one queue in one class is one figure: a page with two of the same labels is refused."""
    async with make("a", scheme="udp") as a:
        for priority in (1, 7):
            sent = await a.send("udp://127.0.0.1:9/q", b"x", delivery=triack.RECOVERABLE, priority=priority)
            await sent.queued(WAIT)
        labels = {"peer": "udp://127.0.0.1:9", "queue": "q", "delivery": "recoverable"}
        seen = registered(a)
        assert seen.get_sample_value("triack_outgoing_messages", labels) == 2
        lines = [line.rpartition(b" ")[0] for line in generate_latest(seen).splitlines()]
        assert len(lines) == len(set(lines))


async def test_what_is_missing_is_a_label() -> None:
    async with make("a", scheme="udp") as a:
        await (await a.send("udp://127.0.0.1:9/q", b"x")).queued(WAIT)
        seen = registered(a)
        labels = {"peer": "udp://127.0.0.1:9", "waits_for": "answer"}
        await until(lambda: seen.get_sample_value("triack_link_waits", labels) == 1)
        assert seen.get_sample_value("triack_link_up", {"peer": "udp://127.0.0.1:9"}) == 0


async def test_a_link_that_nothing_needs_is_up() -> None:
    """Its session has ended in good order: an alert on links that are down must not see it."""
    async with make("a", scheme="udp") as a:
        async with make("b", scheme="udp") as b:
            await (await a.send(f"{b.address}/q", b"x")).ordered(WAIT)
            peer = b.address
        await until(lambda: not a.stats().links[peer].is_up)
        assert registered(a).get_sample_value("triack_link_up", {"peer": peer}) == 1


async def test_a_scrape_may_come_from_any_thread() -> None:
    async with make("a", scheme="udp") as a:
        await (await a.send("q", b"x")).queued(WAIT)
        text = await asyncio.to_thread(generate_latest, registered(a))
        found = {family.name for family in text_string_to_metric_families(text.decode())}
        assert found == {"triack_node", *(f"triack_{family.name}" for family in FAMILIES)}


def test_a_node_without_async_has_them_too(tmp_path: Path) -> None:
    with triack.sync.open("a", data=tmp_path / "a") as node:
        node.send("q", b"x").queued(WAIT)
        assert registered(node).get_sample_value("triack_queue_messages", {"queue": "q"}) == 1


def test_before_its_start_and_after_its_event_loop_has_ended_there_are_none() -> None:
    async def once() -> tuple[bytes, CollectorRegistry]:
        unopened = generate_latest(registered(make("b", scheme="udp")))
        async with make("a", scheme="udp") as a:
            return unopened, registered(a)

    unopened, seen = asyncio.run(once())
    assert unopened == generate_latest(seen) == generate_latest(CollectorRegistry())


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^collect metrics of a str: wanted a node$"):
        NodeCollector("a")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^collect metrics: make the collector where the node's event loop runs$"):
        NodeCollector(make("a", scheme="udp"))


def test_the_page_names_each() -> None:
    text = PAGE.read_text()
    counted = {f"triack_{family.name}{'_total' if family.counter else ''}" for family in FAMILIES}
    assert set(re.findall(r"`(triack_[a-z_]+)`", text)) == counted | {"triack_node"}


async def test_histograms_and_counters_are_those_of_the_stats() -> None:
    async with make("b", scheme="udp") as b, make("a", scheme="udp") as a:
        await (await a.send_many(f"{b.address}/q", [b"x"] * 5)).ordered(WAIT)
        async with b.receive("q") as reader:
            await reader.get(WAIT)
        seen, there = registered(a), registered(b)
        for end, name in ((seen, "ack_seconds"), (seen, "commit_seconds"), (there, "time_in_queue_seconds")):
            count = end.get_sample_value(f"triack_{name}_count") or 0
            assert count > 0
            assert end.get_sample_value(f"triack_{name}_bucket", {"le": "+Inf"}) == count
            assert (end.get_sample_value(f"triack_{name}_sum") or 0) >= 0
        acks = [it.value for family in there.collect() if family.name == "triack_acks" for it in family.samples]
        assert sum(acks) == sum(sum(causes.values()) for causes in b.stats().acks.values()) > 0
        assert there.get_sample_value("triack_tier_resends_total", {"tier": "1-3"}) == 0
        assert there.get_sample_value("triack_troubles", {"trouble": "untrusted"}) == 0
        assert there.get_sample_value("triack_store_busy_seconds") == 0


@pytest.mark.gate
def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """With labels that they have; and it shows nearly all of them."""
    done = subprocess.run([sys.executable, "-m", "triack.metrics"], capture_output=True, text=True, check=True)
    dashboard = json.loads(done.stdout)
    parts = {"": ("instance", *()), "_total": ("instance",), "_bucket": ("instance", "le")}
    labels = {"triack_node": {"instance", "name", "node_id", "version", "survives"}}
    for family in FAMILIES:
        own = set(getattr(family, "labels", ()))
        endings = ["_bucket"] if isinstance(family, Durations) else ["_total" if family.counter else ""]
        labels |= {f"triack_{family.name}{ending}": own | set(parts[ending]) for ending in endings}
    used = set[str]()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"triack_[a-z_]+", target["expr"]))
            asked = set(re.findall(r"\b([a-z_]+)=~?\"", target["expr"]))
            asked |= set(re.findall(r"{{([a-z_]+)}}", target["legendFormat"]))
            assert names <= labels.keys(), panel["title"]
            assert asked <= set.union(*(labels[name] for name in names)), panel["title"]
            used |= names
    others = ("outgoing", "transit", "link", "queue", "topic", "subscription")
    shown_elsewhere = {name for name in labels if name.split("_")[1] in others}
    assert labels.keys() - used - shown_elsewhere <= {"triack_node", "triack_sessions", "triack_rollbacks"}
