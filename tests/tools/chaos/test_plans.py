"""What a seed makes: a plan, its machines, topologies, faults and rarities."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from tests.tools.chaos.scenes import STREAM, Trusting, plan_of
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import Topic
from triack.queues.streams.inbox import Inbox
from triack.tools.chaos.additions import (
    CARRIED_BYTES,
    LIVE_MAX,
    ONCE_NAMES,
    PRIORITIES_MAX,
    QUEUES_BYTES,
    RATES_BPS,
    RETIRE_S,
    WANTED_BYTES,
    stream_bodies,
)
from triack.tools.chaos.away_subscribers import KINDS as AWAY_KINDS
from triack.tools.chaos.away_subscribers import draw_away
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.machines import draw_host
from triack.tools.chaos.pausing import OUTGOING
from triack.tools.chaos.plan import DISHONEST, LASTING_MS, STRANGE, Fault, Plan, is_limited
from triack.tools.chaos.rarities import HELD_FEW, QUICK_TIER_S, SHARE
from triack.tools.chaos.run import run_plan, run_seed
from triack.tools.chaos.sealing import HOSTILE, Hostile
from triack.tools.chaos.topics import GAMES, MORE_KINDS, PATTERNS, TOPICS_FROM
from triack.tools.chaos.topics import KINDS as TOPIC_KINDS
from triack.tools.chaos.topologies import AWAY_NS, QUOTA_BYTES, RELAYED_FROM, TOPOLOGIES
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import SHARES, Faults
from triack.transport.secure import SecureChannels

# Plans: a seed always gives the same one, different from each other, and wide enough together.

KINDS = {
    "kill",
    "power-loss",
    "pause",
    "pause-queue",
    "stop",
    "cut",
    "cut-one-way",
    "clog",
    "hide",
    "narrow",
    "rebind",
    "wall-jump",
    "clock-set",
    "second-opener",
    "disk-error",
    "disk-full",
    "disk-low",
    "move",
    "rotate",
    "revoke",
    "forbid",
    *STRANGE,
    *DISHONEST,
}


def test_a_seed_always_draws_the_same_plan() -> None:
    """And another seed another one."""
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


@pytest.mark.gate
def test_a_swarm_covers_every_option() -> None:
    """In a few hundred seeds every kind of fault, of message and of network has been drawn, and has been left out."""
    plans = [draw(seed) for seed in range(300)]
    kinds = Counter(kind for plan in plans for kind in {fault.kind for fault in plan.faults})
    assert set(kinds) == KINDS
    assert max(kinds.values()) < 200
    assert {host.settings.messages_per_packet for plan in plans for host in plan.hosts} == {None, 1, 3}
    networks = Counter(name for plan in plans for name in plan.describe()["network"])
    assert {*SHARES, "rate_bps", "queue_bytes"} <= set(networks)
    assert {stream.delivery for plan in plans for stream in plan.streams} == {"express", "recoverable", "transactional"}
    assert {plan.hosts[0].address[:3] for plan in plans} == {"udp", "tcp"}
    assert any(plan.dead_path for plan in plans)
    assert any(stream.source >= 0 for plan in plans for stream in plan.streams)
    assert any(stream.live_ms for plan in plans for stream in plan.streams)


def test_machines_differ_in_what_their_settings_allow() -> None:
    """From a window of one packet to one that follows its path, from no cache to a large one."""
    hosts = [draw_host(Random(seed), "a", "udp") for seed in range(60)]
    assert {host.address for host in hosts} == {"udp://a:1"}
    assert {host.settings.session.max_unacked_packet for host in hosts} >= {1, 2, 3, 8, 64, "auto"}
    assert {host.settings.body_cache_bytes for host in hosts} >= {0, 4_000}
    assert {host.transactional for host in hosts} == {True, False}


# Plans with relays: each topology in turn, with faults at its relays; a run of each keeps every promise.

SEEDS = range(RELAYED_FROM, RELAYED_FROM + 400)


def test_each_topology_comes_in_turn() -> None:
    plans = [draw(seed) for seed in SEEDS[: len(TOPOLOGIES)]]
    assert [len(plan.hosts) for plan in plans] == [3, 5, 4, 5]
    assert all(plan.links and plan.routes for plan in plans)
    assert draw(RELAYED_FROM) == plans[0]


@pytest.mark.gate
def test_each_fault_comes_to_a_share_of_the_seeds() -> None:
    plans = [draw(seed) for seed in SEEDS]
    kinds = Counter(kind for plan in plans for kind in {fault.kind for fault in plan.faults})
    assert all(kinds[kind] >= 20 for kind in ("kill", "power-loss", "disk-full", "reroute", "old-copy", "cut"))
    assert sum(any(fault.for_ns == AWAY_NS for fault in plan.faults) for plan in plans) >= 10
    quotas = [host.settings.limits.peer_transit_bytes for plan in plans for host in plan.hosts]
    assert quotas.count(QUOTA_BYTES) >= 20
    assert 100 <= sum(bool(plan.sync.hosts) for plan in plans) <= 180
    assert 160 <= sum((plan.hosts[0].settings.retire_after_s or 0) < 10 for plan in plans) <= 240
    assert all(any(stream.astray for stream in plan.streams) == (len(plan.links) == 4 and len(plan.hosts) == 5
               and (1, 3) in plan.links) for plan in plans)  # fmt: skip


@pytest.mark.gate
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_promise_is_kept(name: str) -> None:
    """Two seeds of each; ``triack chaos --first 1000000`` goes on."""
    first = RELAYED_FROM + list(TOPOLOGIES).index(name)
    for seed in (first, first + len(TOPOLOGIES)):
        outcome = run_seed(seed)
        assert outcome.violations == [], seed


@pytest.mark.slow
def test_every_promise_is_kept_over_synchronous_links() -> None:
    """One seed of each topology whose hosts wait until messages were passed on."""
    for at in range(len(TOPOLOGIES)):
        seed = next(seed for seed in SEEDS if seed % len(TOPOLOGIES) == at and draw(seed).sync.hosts)
        outcome = run_seed(seed)
        assert outcome.violations == [], seed


@pytest.mark.slow
def test_every_promise_is_kept_while_gateways_die_in_turn() -> None:
    """Of the diamonds whose routes have both gateways; messages go by the other one in some of them."""
    plans = [plan for plan in map(draw, SEEDS) if any(route.others for route in plan.routes)]
    assert 35 <= len(plans) <= 65
    outcomes = [run_seed(plan.seed) for plan in plans[:2]]
    assert [outcome.violations for outcome in outcomes] == [[], []]
    assert all(b'"rerouted"' in b"".join(outcome.logs.values()) for outcome in outcomes)


# Rarities: a share of the seeds has some, each of them comes, and the rest of a plan stays as it was.

RARE_KINDS = {"move", "rotate", "revoke", *STRANGE}


def traits(plan: Plan) -> set[str]:
    found = {fault.kind for fault in plan.faults} & RARE_KINDS
    found |= {"limits" for host in plan.hosts if is_limited(host.settings.limits)}
    found |= {"forbidden" for stream in plan.streams if stream.forbidden}
    found |= {"hand back" for host in plan.hosts if host.settings.reconnect.after_session_lost != "resend"}
    found |= {"in time" for stream in plan.streams if stream.read_ms}
    found |= {"unread" for stream in plan.streams if not stream.is_read}
    return found | ({"crowd"} if len(plan.hosts) > 3 else set())


@pytest.mark.gate
def test_a_share_of_the_seeds_has_some_and_each_comes() -> None:
    """A block of 250 seeds has each several times."""
    plans = [draw(seed) for seed in range(250)]
    rare = [plan for plan in plans if traits(plan)]
    assert 0.15 < len(rare) / len(plans) < SHARE
    for kind in (*RARE_KINDS, "limits", "forbidden", "in time", "unread", "hand back", "crowd"):
        assert sum(kind in traits(plan) for plan in plans) >= 3, kind
    assert {len(plan.hosts) for plan in plans} == {2, 3, 4, 5}


@pytest.mark.gate
def test_whose_fault_a_loss_is_stays_known() -> None:
    """A store that deceives comes without them; without keys nobody has a name to be moved or revoked by."""
    for plan in map(draw, range(400)):
        if any(fault.kind in DISHONEST for fault in plan.faults):
            assert not traits(plan)
        if not plan.is_secure:
            assert traits(plan) <= {"crowd", "limits", "junk", "in time", "unread", "hand back"}


@pytest.mark.gate
def test_what_a_cramped_receiver_refuses_comes_again_soon() -> None:
    """A large message in many packets for a full queue, and room for few that came too early: 222751 was such a one."""
    senders = [
        plan.hosts[stream.sender].settings.order
        for plan in map(draw, range(600))
        for stream in plan.streams
        if is_limited((receiver := plan.hosts[stream.receiver].settings).limits)
        and receiver.order.max_held_packets <= HELD_FEW
    ]
    assert len(senders) >= 3
    assert {order.seq_resend_13_s for order in senders} == {QUICK_TIER_S}


# Additions to plans: each comes, to a share of the seeds, and changes nothing else of a plan.


def schemes(plan: Plan) -> set[str]:
    return {address.partition(":")[0] for host in plan.hosts for address in host.addresses}


@pytest.mark.gate
def test_a_share_of_the_seeds_has_each() -> None:
    """Peers at addresses of both transports, narrow paths, and changing permissions, in a block of 350 seeds."""
    plans = [draw(seed) for seed in range(350)]
    assert sum(len(schemes(plan)) == 2 for plan in plans) >= 5
    assert sum(any(stream.wavers for stream in plan.streams) for plan in plans) >= 10
    assert sum(any(fault.kind == "narrow" for fault in plan.faults) for plan in plans) >= 50
    assert sum(any(fault.kind == "hide" for fault in plan.faults) for plan in plans) >= 25
    for plan in plans:
        wavers = [index for index, stream in enumerate(plan.streams) if stream.wavers]
        assert {fault.after for fault in plan.faults if fault.kind == "forbid"} == set(wavers)
        if wavers:
            assert plan.is_secure
            assert not any(fault.kind in DISHONEST for fault in plan.faults)
            assert [fault.at_ns for fault in plan.faults] == sorted(fault.at_ns for fault in plan.faults)


@pytest.mark.gate
def test_some_stores_are_opened_a_second_time_and_some_clocks_are_set() -> None:
    """Where clocks are set, no other clock jumps, and what is sent lives for an hour."""
    plans = [draw(seed) for seed in range(350)]
    assert sum(any(fault.kind == "second-opener" for fault in plan.faults) for plan in plans) >= 30
    setting = [plan for plan in plans if any(fault.kind == "clock-set" for fault in plan.faults)]
    assert len(setting) >= 10
    for plan in setting:
        kinds = {fault.kind for fault in plan.faults}
        assert not kinds & {"wall-jump", *DISHONEST}
        assert all(stream.live_ms == LASTING_MS for stream in plan.streams)
        assert not any(stream.read_ms for stream in plan.streams)
        assert [fault.at_ns for fault in plan.faults] == sorted(fault.at_ns for fault in plan.faults)


@pytest.mark.gate
def test_some_links_are_slow_with_relays_too() -> None:
    """Each rate with each queue, and most plans have none; where the faults end, the link is fast again."""
    plain, relayed = ([draw(first + seed) for seed in range(200)] for first in (0, RELAYED_FROM))
    slow = [plan.network for plan in (*plain, *relayed) if plan.network.rate_bps]
    assert {(network.rate_bps, network.queue_bytes) for network in slow} == set(product(RATES_BPS, QUEUES_BYTES))
    assert all(10 <= sum(bool(plan.network.rate_bps) for plan in plans) <= 30 for plans in (plain, relayed))
    late = min((plan for plan in plain if plan.network.rate_bps == RATES_BPS[0]), key=lambda plan: plan.faults_end_ns)
    assert not run_plan(late).violations


@pytest.mark.gate
def test_narrow_paths_differ_each_way_and_change_in_the_middle() -> None:
    """Each carries the base at least, and there are ends that want more than that, and disagree."""
    plans = [plan for plan in map(draw, range(350)) if any(fault.kind == "narrow" for fault in plan.faults)]
    changing = unlike = 0
    for plan in plans:
        faults = [fault for fault in plan.faults if fault.kind == "narrow"]
        assert {fault.after for fault in faults} <= set(CARRIED_BYTES)
        assert {host.settings.session.max_datagram_bytes for host in plan.hosts[:2]} <= set(WANTED_BYTES)
        changing += any(fault.at_ns for fault in faults)
        unlike += len({fault.after for fault in faults if not fault.at_ns}) > 1
    assert min(changing, unlike) > len(plans) // 3


@pytest.mark.gate
def test_many_names_and_few_places() -> None:
    """Queues that get a few messages each, and streams that end soon; with few places, and with many."""
    drawn = [draw(seed) for seed in range(350)]
    plans = [plan for plan in drawn if any(one.queue.startswith("once") for one in plan.streams)]
    assert len(plans) >= 40
    assert {host.settings.max_streams for plan in plans for host in plan.hosts} == set(LIVE_MAX)
    assert {host.settings.retire_after_s for plan in plans for host in plan.hosts} == set(RETIRE_S)
    for plan in plans:
        names = [one.queue for one in plan.streams if one.queue.startswith("once")]
        assert len(set(names)) == len(names) in ONCE_NAMES
        assert not any(fault.kind in DISHONEST for fault in plan.faults)


@pytest.mark.gate
def test_streams_have_several_priorities_and_queues_are_paused() -> None:
    """Also those that go by relays; what is transactional has none."""
    plans = [draw(seed) for seed in (*range(350), *range(RELAYED_FROM, RELAYED_FROM + 50))]
    for plan in plans:
        for stream in plan.streams:
            assert not (stream.priorities and stream.delivery == "transactional")
            assert len(set(stream.priorities)) == len(stream.priorities) <= PRIORITIES_MAX
    assert sum(any(stream.priorities for stream in plan.streams) for plan in plans[:350]) >= 120
    assert any(stream.priorities for plan in plans[350:] for stream in plan.streams)
    paused = [plan for plan in plans if any(fault.kind == "pause-queue" for fault in plan.faults)]
    assert len(paused) >= 25
    assert not any(fault.kind in DISHONEST for plan in paused for fault in plan.faults)
    faults = [fault for plan in paused for fault in plan.faults if fault.kind == "pause-queue"]
    assert {(fault.other, fault.forever) for fault in faults} == {(0, False), (0, True), (OUTGOING, False)}


@pytest.mark.gate
def test_some_plans_have_bodies_in_parts() -> None:
    """Of durable streams of honest plans, around the size of a part; the rest of such a plan stays as it was."""
    plans = [(plan, stream_bodies(plan, Random(seed))) for seed, plan in enumerate(map(draw, range(200)))]
    streamed = [(plan, more, stream) for plan, more in plans if plan != more for stream in more.streams]
    large = [stream for _, _, stream in streamed if stream.streamed_bytes]
    assert {stream.delivery for stream in large} == {"transactional", "recoverable"}
    assert not any(stream.journal or stream.sealed or stream.poison or stream.source >= 0 for stream in large)
    parts = {more.hosts[0].settings.large.part_bytes for _, more, _ in streamed}
    assert len(parts) > 1
    assert {stream.streamed_bytes for stream in large} >= {20, *parts, *(size + 1 for size in parts)}
    assert any(more.hosts[0].settings.limits.queue_quota for _, more, _ in streamed)
    for plan, more, _ in streamed:
        assert [replace(it, streamed_bytes=0) for it in more.streams] == [
            replace(it, streamed_bytes=0) for it in plan.streams
        ]
        assert more.faults == plan.faults
        assert not any(fault.kind in DISHONEST for fault in plan.faults)


# Plans with topics: each strategy and kind of subscriber comes to a share of the seeds; runs keep every promise.

TOPIC_SEEDS = range(TOPICS_FROM, TOPICS_FROM + 200)


@pytest.mark.gate
def test_each_strategy_and_subscriber_comes_to_a_share_of_the_seeds() -> None:
    plans = [draw(seed) for seed in TOPIC_SEEDS]
    topics = [host.settings.topics[GAMES] for plan in plans for host in plan.hosts if host.settings.topics]
    assert len(topics) == len(plans)
    assert all(count >= 40 for count in Counter(topic.strategy for topic in topics).values())
    assert sum(topic.quota is not None for topic in topics) >= 40
    kinds = Counter((one.kind, bool(one.durable)) for plan in plans for one in plan.subscribers[1:])
    assert all(kinds[kind, durable] >= 20 for kind in TOPIC_KINDS for durable in (False, True))
    assert sum(any(fault.kind == "kill" and fault.after for fault in plan.faults) for plan in plans) >= 40


def test_half_of_the_seeds_draw_times_failures_pauses_and_shared_subscriptions() -> None:
    plans = [draw(seed) for seed in TOPIC_SEEDS]
    topics = [host.settings.topics[GAMES] for plan in plans for host in plan.hosts if host.settings.topics]
    assert sum(topic.ack_wait_s is not None for topic in topics) >= 30
    assert sum(any(stream.read_ms for stream in plan.streams) for plan in plans) >= 30
    assert sum(sum(one.shared for one in plan.subscribers) == 2 for plan in plans) >= 30
    kinds = Counter(one.kind for plan in plans for one in plan.subscribers)
    assert all(kinds[kind] >= 20 for kind in MORE_KINDS)


def test_disks_fail_at_both_ends_of_subscriptions_from_another_node() -> None:
    at_hub = at_subscriber = 0
    for plan in map(draw, TOPIC_SEEDS):
        full = {fault.host for fault in plan.faults if fault.kind == "disk-full"}
        at_hub += any(one.hub in full for one in plan.away)
        at_subscriber += any(one.host in full for one in plan.away)
    assert at_hub >= 30
    assert at_subscriber >= 15


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(TOPICS_FROM, TOPICS_FROM + 8))
def test_every_promise_of_topics_is_kept(seed: int) -> None:
    """``triack chaos --first 2000000`` goes on."""
    outcome = run_seed(seed)
    assert outcome.violations == []
    events = {record["event"] for log in outcome.logs.values() for record in parse_records(log)}
    assert {"topic_opened", "subscribed", "placed", "dispatched", "handed"} <= events


# Keys that are exchanged and peers that are revoked: nothing suffers from the one, nothing gets past the other.

SLOW = replace(STREAM, gap_ns=800 * MS)


@pytest.mark.parametrize("host", [0, 1])
def test_a_key_is_exchanged_while_messages_flow(make: Callable[[Plan], Trusting], host: int) -> None:
    """In the end there is a new one, nobody knows the old one, and all has arrived."""
    scene = make(plan_of())
    scene.world.run(SECOND)
    old = scene.hosts[host].identity.keys
    for _ in range(2):
        # The second is asked for while the first goes on, and is left alone.
        scene.trust.rotate(Fault(0, "rotate", host, for_ns=2 * SECOND))
    scene.world.run(SECOND)
    assert old[0] in scene.hosts[host].identity.keys
    scene.world.run(30 * SECOND)
    (new,) = scene.hosts[host].identity.keys
    assert new not in old
    other, name = scene.hosts[1 - host], scene.hosts[host].name
    known = other.directory.named(name)
    assert known is not None
    assert known.keys == scene.hosts[host].peer.keys
    assert scene.handed == 200
    scene.trust.judge(scene.work.history)
    assert scene.trust.violations == []


@pytest.mark.gate
def test_what_a_revoked_peer_has_waits_until_it_is_trusted_again(make: Callable[[Plan], Trusting]) -> None:
    """Its session ends, nothing of it arrives, and then everything does."""
    scene = make(plan_of(streams=(SLOW,)))
    scene.world.run(2 * SECOND)
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=5 * SECOND))
    assert scene.trust.apart(0, 1)
    scene.world.run(SECOND)
    before = scene.handed
    assert 0 < before < 200
    scene.world.run(3 * SECOND)
    assert scene.handed == before
    scene.world.run(30 * SECOND)
    assert not scene.trust.apart(1, 0)
    assert scene.handed == 200
    scene.trust.judge(scene.work.history)
    assert scene.trust.violations == []


def test_some_are_forgiven_only_when_all_else_is_at_rest(make: Callable[[Plan], Trusting]) -> None:
    """The others with the end of the faults."""
    scene = make(plan_of(hosts=3))
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=500 * SECOND))
    assert not scene.trust.heal(scene.work.history)
    scene.trust.revoke(Fault(0, "revoke", 2, 0, forever=True))
    assert scene.trust.heal(scene.work.history)
    assert (scene.trust.apart(0, 1), scene.trust.apart(0, 2)) == (False, True)
    scene.trust.forgive()
    assert not scene.trust.apart(0, 2)


def test_a_node_that_does_not_listen_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on, and what comes by it is taken."""
    scene = make(plan_of(streams=(SLOW,)))
    scene.world.run(2 * SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "handle_directory_changed", lambda self, now_ns: None)
        scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=5 * SECOND))
        scene.world.run(3 * SECOND)
    scene.trust.forgive()
    scene.trust.judge(scene.work.history)
    sentences = {sentence for rule, sentence in scene.trust.violations if rule == "revoked"}
    assert sentences == {
        "b has a session with a a second after it was revoked",
        "b took messages of a, which is revoked",
    }


def test_a_node_that_lets_anybody_in_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the session, and answers the next connect."""
    scene = make(plan_of())
    scene.world.run(SECOND)
    peer = scene.hosts[0].peer
    answer = SecureChannels.answer

    def lax(self: SecureChannels, *args: object) -> object:
        monkeypatch.setattr(self._directory, "_by_key", dict.fromkeys(peer.keys, peer))
        return answer(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(SecureChannels, "answer", lax)
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=5 * SECOND))
    scene.world.run(4 * SECOND)
    scene.trust.forgive()
    scene.trust.judge(scene.work.history)
    assert ("revoked", "b opened a session with a, which is revoked") in scene.trust.violations


def test_what_is_forbidden_is_so_from_the_start(make: Callable[[Plan], Trusting]) -> None:
    """And stays so when the sender changes its key; its other queues are as they were."""
    forbidden = replace(STREAM, queue="closed", count=20, forbidden=True)
    scene = make(plan_of(streams=(STREAM, forbidden)))
    scene.trust.rotate(Fault(0, "rotate", 0, for_ns=100 * MS))
    scene.world.run(30 * SECOND)
    assert scene.handed == 200
    scene.work.read_dead_letters(scene.hosts[0])
    assert scene.work.history.streams[1].refused == set(range(20))
    assert scene.work.history.violations == []


# Permissions that come and go: forbidden messages are refused, and a host that takes one is found.

WAVERING = replace(STREAM, gap_ns=SECOND, batch=3, wavers=True)
FORBID = Fault(0, "forbid", 1, 0, after=0, for_ns=100 * SECOND)


def forbid_for_a_while(scene: Trusting) -> None:
    scene.world.run(2 * SECOND)
    scene.trust.rights.forbid(FORBID)
    scene.world.run(3 * SECOND)
    assert scene.trust.rights.of(1, 0) == ()
    scene.trust.heal(scene.work.history)
    assert scene.trust.rights.of(1, 0) == ("*",)
    scene.work.finish()
    scene.world.run(30 * SECOND)
    scene.work.read_dead_letters(scene.hosts[0])
    scene.work.history.finish()
    scene.trust.judge(scene.work.history)


def test_what_comes_meanwhile_is_refused_and_what_comes_later_is_taken(make: Callable[[Plan], Trusting]) -> None:
    """Every message is handed out, or a dead letter with the reason."""
    scene = make(plan_of(streams=(WAVERING,)))
    forbid_for_a_while(scene)
    (seen,) = scene.work.history.streams
    assert seen.refused
    assert seen.handed
    assert seen.refused | seen.handed.keys() == seen.fates.keys()
    assert scene.trust.violations == scene.work.history.violations == []


@pytest.mark.plain
def test_a_node_that_does_not_hear_of_it_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on as it was when the stream began."""
    monkeypatch.setattr(Inbox, "handle_directory_changed", lambda self: None)
    scene = make(plan_of(streams=(WAVERING,)))
    forbid_for_a_while(scene)
    sentences = [sentence for rule, sentence in scene.trust.violations if rule == "permission"]
    assert sentences
    assert all("while its sender might not send there" in sentence for sentence in sentences)


@pytest.mark.plain
def test_a_node_that_never_forgives_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forbidden stream stays so."""
    scene = make(plan_of(streams=(WAVERING,)))
    scene.world.run(2 * SECOND)
    scene.trust.rights.forbid(FORBID)
    scene.world.run(SECOND)
    monkeypatch.setattr(Inbox, "handle_directory_changed", lambda self: None)
    forbid_for_a_while(scene)
    assert [rule for rule, sentence in scene.trust.violations if "may send there again" in sentence] == ["permission"]


# Plans with sealed streams, and relays that lie about them.

PLANS = [draw(seed) for seed in range(RELAYED_FROM, RELAYED_FROM + 200)]


def test_some_streams_are_sealed_and_some_relays_hostile() -> None:
    """Only streams whose dead letters can be read, and only relays."""
    sealed = [stream for plan in PLANS for stream in plan.streams if stream.sealed]
    assert len(sealed) > 40
    assert {stream.delivery for stream in sealed} == {"transactional", "express"}
    hostile = [(plan, fault) for plan in PLANS for fault in plan.faults if fault.kind == HOSTILE]
    assert len(hostile) > 15
    assert all(fault.host in {route.via for route in plan.routes} for plan, fault in hostile)
    assert all(any(stream.lied_about for stream in plan.streams) for plan, _ in hostile)


@pytest.mark.slow
def test_hostile_relays_lie_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of them lie several times; the others end too soon, or have no packets to lie about."""
    made: list[Hostile] = []
    begin = Hostile.__init__

    def note(self: Hostile, *given: Any) -> None:
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(Hostile, "__init__", note)
    hostile = [plan for plan in PLANS if any(fault.kind == HOSTILE for fault in plan.faults)]
    short = [plan for plan in hostile if all(fault.for_ns < 60 * 10**9 for fault in plan.faults)]
    for plan in short[:8]:
        assert run_plan(plan).violations == [], plan.seed
    assert sum(it.lies > 0 for it in made) >= 4
    assert sum(it.lies for it in made) >= 20


# Subscribers of a simulated world do what their kind says.


def calm(kind: str) -> Plan:
    """A plan without faults with one subscriber of a kind beside the one that gets everything."""
    plan = next(plan for plan in map(draw, range(TOPICS_FROM, TOPICS_FROM + 100)) if len(plan.hosts) == 1)
    hosts = tuple(replace(host, settings=replace(host.settings, topics={GAMES: Topic()})) for host in plan.hosts)
    other = replace(plan.subscribers[0], kind=kind, durable="")
    return replace(plan, hosts=hosts, faults=(), network=Faults(), subscribers=(plan.subscribers[0], other))


@pytest.mark.parametrize("kind", ["quick", "slow", "dead", "flapping", "failing", "holding", "pausing"])
def test_a_subscriber_does_as_its_kind_says(kind: str) -> None:
    outcome = run_plan(calm(kind))
    assert outcome.violations == []
    records = [record for log in outcome.logs.values() for record in parse_records(log)]
    mine = [record for record in records if str(record.get("subscription", "")).startswith("$")]
    events = Counter(record["event"] for record in mine)
    assert events["subscribed"] >= 1
    assert (events["unsubscribed"] > 0) == (kind == "flapping")
    assert events["assigned"] > 0
    assert (events["subscription_suspended"] > 0) == (kind == "pausing")
    if kind in ("failing", "holding"):
        assert events["returned"] >= 5


# Subscribers on other machines than the topics.


@pytest.mark.gate
def test_they_are_of_each_kind_and_never_on_the_machine_with_the_topics() -> None:
    drawn = [one for seed in range(200) for one in draw_away(Random(seed), 3, 2, PATTERNS)]
    assert {one.kind for one in drawn} == set(AWAY_KINDS)
    assert {one.host for one in drawn} == {0, 1}
    assert {bool(one.durable) for one in drawn} == {True, False}
    assert all(one.delivery is not Delivery.EXPRESS for one in drawn if one.durable)
    assert draw_away(Random(1), 1, 0, PATTERNS) == ()


@pytest.mark.gate
def test_a_run_with_some_keeps_all_promises() -> None:
    """The first seed that has them."""
    outcome = next(it for it in map(run_seed, range(TOPICS_FROM, TOPICS_FROM + 20)) if "away" in it.plan.describe())
    assert outcome.violations == []
