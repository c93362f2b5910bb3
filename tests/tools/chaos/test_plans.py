"""What a seed makes: a plan, its machines, topologies, faults and rarities."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest

from tests.tools.chaos.conftest import Make
from tests.tools.chaos.scenes import STREAM
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import Topic
from triack.queues.streams.inbox import Inbox
from triack.tools.chaos import additions
from triack.tools.chaos.away_subscribers import KINDS as AWAY_KINDS
from triack.tools.chaos.away_subscribers import draw_away
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.machines import draw_host
from triack.tools.chaos.pausing import OUTGOING
from triack.tools.chaos.plan import DISHONEST, LASTING_MS, STRANGE, Fault, Plan, StreamPlan, is_limited
from triack.tools.chaos.rarities import HELD_FEW, QUICK_TIER_S, SHARE
from triack.tools.chaos.run import run_plan, run_seed
from triack.tools.chaos.sealing import HOSTILE, Hostile
from triack.tools.chaos.topics import GAMES, MORE_KINDS, PATTERNS, TOPICS_FROM
from triack.tools.chaos.topics import KINDS as TOPIC_KINDS
from triack.tools.chaos.topologies import AWAY_NS, QUOTA_BYTES, RELAYED_FROM, TOPOLOGIES
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import SHARES, Faults
from triack.transport.secure import SecureChannels

PLAIN, RELAYED, OF_TOPICS = range(600), range(RELAYED_FROM, RELAYED_FROM + 400), range(TOPICS_FROM, TOPICS_FROM + 200)
drawn = cache(draw)


def plans_of(seeds: Iterable[int]) -> list[Plan]:
    return [drawn(seed) for seed in seeds]


def kinds_of(plan: Plan) -> set[str]:
    return {fault.kind for fault in plan.faults}


def having(plans: list[Plan], *kinds: str) -> list[Plan]:
    return [plan for plan in plans if kinds_of(plan) & {*kinds}]


def streams_of(plans: list[Plan]) -> list[StreamPlan]:
    return [stream for plan in plans for stream in plan.streams]


KINDS = {
    *("kill", "power-loss", "pause", "pause-queue", "stop", "cut", "cut-one-way", "clog", "hide", "narrow", "rebind"),
    *("wall-jump", "clock-set", "second-opener", "disk-error", "disk-full", "disk-low", "move", "rotate", "revoke"),
    *("forbid", *STRANGE, *DISHONEST),
}
CLASSES = {"express", "recoverable", "transactional"}


@pytest.mark.gate
def test_a_swarm_covers_every_option() -> None:
    """In a few hundred seeds every kind of fault, of message and of network has been drawn, and has been left out."""
    plans = plans_of(PLAIN[:300])
    assert draw(7) == draw(7) != draw(8)
    kinds = Counter(kind for plan in plans for kind in kinds_of(plan))
    assert set(kinds) == KINDS
    assert max(kinds.values()) < 200
    assert {host.settings.messages_per_packet for plan in plans for host in plan.hosts} == {None, 1, 3}
    networks = Counter(name for plan in plans for name in plan.describe()["network"])
    assert {*SHARES, "rate_bps", "queue_bytes"} <= set(networks)
    assert {stream.delivery for stream in streams_of(plans)} == CLASSES
    assert {plan.hosts[0].address[:3] for plan in plans} == {"udp", "tcp"}
    assert any(plan.dead_path for plan in plans)
    assert any(stream.source >= 0 for stream in streams_of(plans))
    assert any(stream.live_ms for stream in streams_of(plans))


def test_machines_differ_in_what_their_settings_allow() -> None:
    """From a window of one packet to one that follows its path, from no cache to a large one."""
    hosts = [draw_host(Random(seed), "a", "udp") for seed in range(60)]
    assert {host.address for host in hosts} == {"udp://a:1"}
    assert {host.settings.session.max_unacked_packet for host in hosts} >= {1, 2, 3, 8, 64, "auto"}
    assert {host.settings.body_cache_bytes for host in hosts} >= {0, 4_000}
    assert {host.transactional for host in hosts} == {True, False}


@pytest.mark.gate
def test_each_topology_comes_in_turn_and_each_fault_to_a_share_of_the_seeds() -> None:
    plans = plans_of(RELAYED)
    assert [len(plan.hosts) for plan in plans[: len(TOPOLOGIES)]] == [3, 5, 4, 5]
    assert all(plan.links and plan.routes for plan in plans[: len(TOPOLOGIES)])
    kinds = Counter(kind for plan in plans for kind in kinds_of(plan))
    assert all(kinds[kind] >= 20 for kind in ("kill", "power-loss", "disk-full", "reroute", "old-copy", "cut"))
    assert sum(any(fault.for_ns == AWAY_NS for fault in plan.faults) for plan in plans) >= 10
    quotas = [host.settings.limits.peer_transit_bytes for plan in plans for host in plan.hosts]
    assert quotas.count(QUOTA_BYTES) >= 20
    assert 100 <= sum(bool(plan.sync.hosts) for plan in plans) <= 180
    assert 160 <= sum((plan.hosts[0].settings.retire_after_s or 0) < 10 for plan in plans) <= 240
    for plan in plans:
        diamond = len(plan.links) == 4 and len(plan.hosts) == 5 and (1, 3) in plan.links
        assert any(stream.astray for stream in plan.streams) == diamond


@pytest.mark.gate
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_promise_is_kept(name: str) -> None:
    """Two seeds of each; ``triack chaos --first 1000000`` goes on."""
    first = RELAYED_FROM + list(TOPOLOGIES).index(name)
    for seed in (first, first + len(TOPOLOGIES)):
        assert run_seed(seed).violations == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(TOPOLOGIES)))
def test_every_promise_is_kept_over_synchronous_links(at: int) -> None:
    """One seed of each topology whose hosts wait until messages were passed on."""
    seed = next(seed for seed in RELAYED if seed % len(TOPOLOGIES) == at and drawn(seed).sync.hosts)
    assert run_seed(seed).violations == [], seed


@pytest.mark.slow
def test_every_promise_is_kept_while_gateways_die_in_turn() -> None:
    """Of the diamonds whose routes have both gateways; messages go by the other one in some of them."""
    plans = [plan for plan in plans_of(RELAYED) if any(route.others for route in plan.routes)]
    assert 35 <= len(plans) <= 65
    outcomes = [run_seed(plan.seed) for plan in plans[:2]]
    assert [outcome.violations for outcome in outcomes] == [[], []]
    assert all(b'"rerouted"' in b"".join(outcome.logs.values()) for outcome in outcomes)


RARE_KINDS = {"move", "rotate", "revoke", *STRANGE}


def traits(plan: Plan) -> set[str]:
    found = kinds_of(plan) & RARE_KINDS
    found |= {"limits" for host in plan.hosts if is_limited(host.settings.limits)}
    found |= {"forbidden" for stream in plan.streams if stream.forbidden}
    found |= {"hand back" for host in plan.hosts if host.settings.reconnect.after_session_lost != "resend"}
    found |= {"in time" for stream in plan.streams if stream.read_ms}
    found |= {"unread" for stream in plan.streams if not stream.is_read}
    return found | ({"crowd"} if len(plan.hosts) > 3 else set())


@pytest.mark.gate
def test_a_share_of_the_seeds_has_rarities_and_whose_fault_a_loss_is_stays_known() -> None:
    """A store that deceives comes without them; without keys no host has a name to be moved or revoked by."""
    plans = plans_of(PLAIN[:250])
    assert 0.15 < sum(bool(traits(plan)) for plan in plans) / len(plans) < SHARE
    for kind in (*RARE_KINDS, "limits", "forbidden", "in time", "unread", "hand back", "crowd"):
        assert sum(kind in traits(plan) for plan in plans) >= 3, kind
    assert {len(plan.hosts) for plan in plans} == {2, 3, 4, 5}
    for plan in plans_of(PLAIN[:400]):
        assert not (kinds_of(plan) & {*DISHONEST} and traits(plan))
        assert plan.is_secure or traits(plan) <= {"crowd", "limits", "junk", "in time", "unread", "hand back"}


@pytest.mark.gate
def test_what_a_cramped_receiver_refuses_comes_again_soon() -> None:
    """A large message in many packets for a full queue, and room for few that came too early: 222751 was such a one."""
    tiers: list[float] = []
    for hosts, stream in ((plan.hosts, stream) for plan in plans_of(PLAIN) for stream in plan.streams):
        receiver = hosts[stream.receiver].settings
        if is_limited(receiver.limits) and receiver.order.max_held_packets <= HELD_FEW:
            tiers.append(hosts[stream.sender].settings.order.seq_resend_13_s)
    assert len(tiers) >= 3
    assert set(tiers) == {QUICK_TIER_S}


def ordered(plan: Plan) -> bool:
    return [fault.at_ns for fault in plan.faults] == sorted(fault.at_ns for fault in plan.faults)


@pytest.mark.gate
def test_a_share_of_the_seeds_has_each() -> None:
    """Peers at addresses of both transports, narrow paths, and changing permissions."""
    plans = plans_of(PLAIN[:350])
    schemes = [{it.partition(":")[0] for host in plan.hosts for it in host.addresses} for plan in plans]
    assert sum(len(both) == 2 for both in schemes) >= 5
    assert len(having(plans, "narrow")) >= 50
    assert len(having(plans, "hide")) >= 25
    assert len(having(plans, "second-opener")) >= 30
    wavering = [plan for plan in plans if any(stream.wavers for stream in plan.streams)]
    assert len(wavering) >= 10
    for plan in plans:
        wavers = {index for index, stream in enumerate(plan.streams) if stream.wavers}
        assert {fault.after for fault in plan.faults if fault.kind == "forbid"} == wavers
    assert all(plan.is_secure and ordered(plan) for plan in wavering)
    assert not having(wavering, *DISHONEST)


@pytest.mark.gate
def test_where_clocks_are_set_no_other_clock_jumps_and_what_is_sent_lives_for_an_hour() -> None:
    setting = having(plans_of(PLAIN[:350]), "clock-set")
    assert len(setting) >= 10
    assert not having(setting, "wall-jump", *DISHONEST)
    assert {(stream.live_ms, bool(stream.read_ms)) for stream in streams_of(setting)} == {(LASTING_MS, False)}
    assert all(map(ordered, setting))


@pytest.mark.gate
def test_some_links_are_slow_with_relays_too() -> None:
    """Each rate with each queue, and most plans have none; where the faults end, the link is fast again."""
    plain, relayed = plans_of(PLAIN[:200]), plans_of(RELAYED[:200])
    slow = [plan.network for plan in (*plain, *relayed) if plan.network.rate_bps]
    assert {(network.rate_bps, network.queue_bytes) for network in slow} == set(
        product(additions.RATES_BPS, additions.QUEUES_BYTES)
    )
    assert all(10 <= sum(bool(plan.network.rate_bps) for plan in plans) <= 30 for plans in (plain, relayed))
    late = min(
        (plan for plan in plain if plan.network.rate_bps == additions.RATES_BPS[0]), key=lambda plan: plan.faults_end_ns
    )
    assert not run_plan(late).violations


@pytest.mark.gate
def test_narrow_paths_differ_each_way_and_change_in_the_middle() -> None:
    """Each carries the base at least, and there are ends that want more than that, and disagree."""
    plans = having(plans_of(PLAIN[:350]), "narrow")
    changing = unlike = 0
    for plan in plans:
        faults = [fault for fault in plan.faults if fault.kind == "narrow"]
        assert {fault.after for fault in faults} <= set(additions.CARRIED_BYTES)
        assert {host.settings.session.max_datagram_bytes for host in plan.hosts[:2]} <= set(additions.WANTED_BYTES)
        changing += any(fault.at_ns for fault in faults)
        unlike += len({fault.after for fault in faults if not fault.at_ns}) > 1
    assert min(changing, unlike) > len(plans) // 3


@pytest.mark.gate
def test_many_names_and_few_places() -> None:
    """Queues that get a few messages each, and streams that end soon; with few places, and with many."""
    plans = [plan for plan in plans_of(PLAIN[:350]) if any(one.queue.startswith("once") for one in plan.streams)]
    assert len(plans) >= 40
    assert {host.settings.max_streams for plan in plans for host in plan.hosts} == set(additions.LIVE_MAX)
    assert {host.settings.retire_after_s for plan in plans for host in plan.hosts} == set(additions.RETIRE_S)
    for plan in plans:
        names = [one.queue for one in plan.streams if one.queue.startswith("once")]
        assert len(set(names)) == len(names) in additions.ONCE_NAMES
    assert not having(plans, *DISHONEST)


@pytest.mark.gate
def test_streams_have_several_priorities_and_queues_are_paused() -> None:
    """Also those that go by relays; what is transactional has none."""
    plain, relayed = plans_of(PLAIN[:350]), plans_of(RELAYED[:50])
    for stream in streams_of([*plain, *relayed]):
        assert not (stream.priorities and stream.delivery == "transactional")
        assert len(set(stream.priorities)) == len(stream.priorities) <= additions.PRIORITIES_MAX
    assert sum(any(stream.priorities for stream in plan.streams) for plan in plain) >= 120
    assert any(stream.priorities for stream in streams_of(relayed))
    paused = having([*plain, *relayed], "pause-queue")
    assert len(paused) >= 25
    assert not having(paused, *DISHONEST)
    faults = [fault for plan in paused for fault in plan.faults if fault.kind == "pause-queue"]
    assert {(fault.other, fault.forever) for fault in faults} == {(0, False), (0, True), (OUTGOING, False)}


@pytest.mark.gate
def test_some_plans_have_bodies_in_parts() -> None:
    """Of durable streams of honest plans, around the size of a part; the rest of such a plan stays as it was."""
    plans = [(plan, additions.stream_bodies(plan, Random(seed))) for seed, plan in enumerate(plans_of(PLAIN[:200]))]
    streamed = [(plan, more) for plan, more in plans if plan != more]
    large = [stream for stream in streams_of([more for _, more in streamed]) if stream.streamed_bytes]
    assert {stream.delivery for stream in large} == {"transactional", "recoverable"}
    assert not any(stream.journal or stream.sealed or stream.poison or stream.source >= 0 for stream in large)
    parts = {more.hosts[0].settings.large.part_bytes for _, more in streamed}
    assert len(parts) > 1
    assert {stream.streamed_bytes for stream in large} >= {20, *parts, *(size + 1 for size in parts)}
    assert any(more.hosts[0].settings.limits.queue_quota for _, more in streamed)
    for plan, more in streamed:
        before, after = ([replace(it, streamed_bytes=0) for it in one.streams] for one in (plan, more))
        assert (before, plan.faults) == (after, more.faults)
    assert not having([plan for plan, _ in streamed], *DISHONEST)


@pytest.mark.gate
def test_each_strategy_and_subscriber_comes_to_a_share_of_the_seeds() -> None:
    """Disks fail at both ends of subscriptions from another node."""
    plans = plans_of(OF_TOPICS)
    topics = [host.settings.topics[GAMES] for plan in plans for host in plan.hosts if host.settings.topics]
    assert len(topics) == len(plans)
    assert all(count >= 40 for count in Counter(topic.strategy for topic in topics).values())
    assert sum(topic.quota is not None for topic in topics) >= 40
    assert sum(topic.ack_wait_s is not None for topic in topics) >= 30
    assert sum(any(stream.read_ms for stream in plan.streams) for plan in plans) >= 30
    assert sum(sum(one.shared for one in plan.subscribers) == 2 for plan in plans) >= 30
    kinds = Counter((one.kind, bool(one.durable)) for plan in plans for one in plan.subscribers[1:])
    assert all(kinds[kind, durable] >= 20 for kind in TOPIC_KINDS for durable in (False, True))
    assert all(sum(kinds[kind, durable] for durable in (False, True)) >= 20 for kind in MORE_KINDS)
    assert sum(any(fault.kind == "kill" and fault.after for fault in plan.faults) for plan in plans) >= 40
    full = [(plan, {fault.host for fault in plan.faults if fault.kind == "disk-full"}) for plan in plans]
    assert sum(any(one.hub in hosts for one in plan.away) for plan, hosts in full) >= 30
    assert sum(any(one.host in hosts for one in plan.away) for plan, hosts in full) >= 15


@pytest.mark.gate
@pytest.mark.parametrize("seed", OF_TOPICS[:8])
def test_every_promise_of_topics_is_kept(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violations == []
    events = {record["event"] for log in outcome.logs.values() for record in parse_records(log)}
    assert {"topic_opened", "subscribed", "placed", "dispatched", "handed"} <= events


SLOW = replace(STREAM, gap_ns=800 * MS)
REVOKE = Fault(0, "revoke", 1, 0, for_ns=5 * SECOND)


@pytest.mark.parametrize("host", [0, 1])
def test_a_key_is_exchanged_while_messages_flow(make: Make, host: int) -> None:
    """In the end there is a new one, nobody knows the old one, and all has arrived."""
    scene = make()
    scene.world.run(SECOND)
    changing, other = scene.hosts[host], scene.hosts[1 - host]
    old = changing.identity.keys
    for _ in range(2):
        # The second is asked for while the first goes on, and is left alone.
        scene.trust.rotate(Fault(0, "rotate", host, for_ns=2 * SECOND))
    scene.world.run(SECOND)
    assert old[0] in changing.identity.keys
    scene.world.run(30 * SECOND)
    (new,) = changing.identity.keys
    assert new not in old
    known = other.directory.named(changing.name)
    assert known is not None
    assert known.keys == changing.peer.keys
    assert len(scene.handed()) == 200
    assert scene.judged() == []


@pytest.mark.gate
def test_what_a_revoked_peer_has_waits_until_it_is_trusted_again(make: Make) -> None:
    """Its session ends, nothing of it arrives, and then everything does."""
    scene = make(SLOW)
    scene.world.run(2 * SECOND)
    scene.trust.revoke(REVOKE)
    assert scene.trust.apart(0, 1)
    scene.world.run(SECOND)
    before = scene.handed()
    assert 0 < len(before) < 200
    scene.world.run(3 * SECOND)
    assert scene.handed() == before
    scene.world.run(30 * SECOND)
    assert not scene.trust.apart(1, 0)
    assert len(scene.handed()) == 200
    assert scene.judged() == []


def test_some_are_forgiven_only_when_all_else_is_at_rest(make: Make) -> None:
    scene = make(hosts=3)
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=500 * SECOND))
    assert not scene.trust.heal(scene.history)
    scene.trust.revoke(Fault(0, "revoke", 2, 0, forever=True))
    assert scene.trust.heal(scene.history)
    assert (scene.trust.apart(0, 1), scene.trust.apart(0, 2)) == (False, True)
    scene.trust.forgive()
    assert not scene.trust.apart(0, 2)


@pytest.mark.parametrize("lax", [False, True], ids=["does not listen", "lets anybody in"])
def test_a_node_that_keeps_a_revoked_peer_is_found_out(make: Make, monkeypatch: pytest.MonkeyPatch, lax: bool) -> None:
    """The session goes on, and what comes by it is taken; or it ends, and the next connect is answered."""
    scene = make(SLOW)
    scene.world.run(2 * SECOND)
    peer, answer = scene.hosts[0].peer, SecureChannels.answer

    def let_in(self: SecureChannels, *args: object) -> object:
        monkeypatch.setattr(self._directory, "_by_key", dict.fromkeys(peer.keys, peer))
        return answer(self, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        if lax:
            patch.setattr(SecureChannels, "answer", let_in)
        else:
            patch.setattr(Engine, "handle_directory_changed", lambda self, now_ns: None)
        scene.trust.revoke(REVOKE)
        scene.world.run(4 * SECOND)
    scene.trust.forgive()
    said = {"b opened a session with a, which is revoked"}
    if not lax:
        said = {"b has a session with a a second after it was revoked", "b took messages of a, which is revoked"}
    assert said <= {sentence for rule, sentence in scene.judged() if rule == "revoked"}


def test_what_is_forbidden_is_so_from_the_start(make: Make) -> None:
    """And stays so when the sender changes its key; its other queues are as they were."""
    scene = make(STREAM, replace(STREAM, queue="closed", count=20, forbidden=True))
    scene.trust.rotate(Fault(0, "rotate", 0, for_ns=100 * MS))
    scene.world.run(30 * SECOND)
    assert len(scene.handed()) == 200
    scene.work.read_dead_letters(scene.hosts[0])
    assert scene.history.streams[1].refused == set(range(20))
    assert scene.history.violations == []


FORBID = Fault(0, "forbid", 1, 0, after=0, for_ns=100 * SECOND)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("deaf_from_s", "said"),
    [(None, ""), (0, "while its sender might not send there"), (3, "may send there again")],
    ids=["listens", "does not hear of it", "never forgives"],
)
def test_what_comes_meanwhile_is_refused_and_what_comes_later_is_taken(
    make: Make, monkeypatch: pytest.MonkeyPatch, deaf_from_s: int | None, said: str
) -> None:
    """Every message is handed out, or a dead letter with the reason; a node that does not hear of it is found out."""
    scene = make(replace(STREAM, gap_ns=SECOND, batch=3, wavers=True))
    for second in range(6):
        if second == deaf_from_s:
            monkeypatch.setattr(Inbox, "handle_directory_changed", lambda self: None)
        if second == 2:
            scene.trust.rights.forbid(FORBID)
            assert scene.trust.rights.of(1, 0) == ()
        scene.world.run(SECOND)
    scene.trust.heal(scene.history)
    assert scene.trust.rights.of(1, 0) == ("*",)
    scene.work.finish()
    scene.world.run(30 * SECOND)
    scene.work.read_dead_letters(scene.hosts[0])
    scene.history.finish()
    (seen,) = scene.history.streams
    found = scene.judged()
    assert [rule for rule, sentence in found if said in sentence] == ["permission"] * len(found)
    assert bool(found) == bool(said)
    if not said:
        assert seen.refused
        assert seen.handed
        assert seen.refused | seen.handed.keys() == seen.fates.keys()
        assert scene.history.violations == []


def test_some_streams_are_sealed_and_some_relays_hostile() -> None:
    """Only streams whose dead letters can be read, and only relays."""
    plans = plans_of(RELAYED[:200])
    sealed = [stream for stream in streams_of(plans) if stream.sealed]
    assert len(sealed) > 40
    assert {stream.delivery for stream in sealed} == {"transactional", "express"}
    hostile = [(plan, fault) for plan in plans for fault in plan.faults if fault.kind == HOSTILE]
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
    hostile = having(plans_of(RELAYED[:200]), HOSTILE)
    short = [plan for plan in hostile if all(fault.for_ns < 60 * 10**9 for fault in plan.faults)]
    for plan in short[:8]:
        assert run_plan(plan).violations == [], plan.seed
    assert sum(it.lies > 0 for it in made) >= 4
    assert sum(it.lies for it in made) >= 20


@pytest.mark.parametrize("kind", ["quick", "slow", "dead", "flapping", "failing", "holding", "pausing"])
def test_a_subscriber_does_as_its_kind_says(kind: str) -> None:
    """Beside one that gets everything, where nothing fails."""
    plan = next(plan for plan in map(drawn, OF_TOPICS) if len(plan.hosts) == 1)
    hosts = tuple(replace(host, settings=replace(host.settings, topics={GAMES: Topic()})) for host in plan.hosts)
    both = (plan.subscribers[0], replace(plan.subscribers[0], kind=kind, durable=""))
    outcome = run_plan(replace(plan, hosts=hosts, faults=(), network=Faults(), subscribers=both))
    assert outcome.violations == []
    records = [record for log in outcome.logs.values() for record in parse_records(log)]
    events = Counter(it["event"] for it in records if str(it.get("subscription", "")).startswith("$"))
    assert events["subscribed"] >= 1
    assert (events["unsubscribed"] > 0) == (kind == "flapping")
    assert events["assigned"] > 0
    assert (events["subscription_suspended"] > 0) == (kind == "pausing")
    assert events["returned"] >= 5 * (kind in ("failing", "holding"))


@pytest.mark.gate
def test_subscribers_of_other_machines_are_of_each_kind_and_a_run_with_some_keeps_all_promises() -> None:
    """They are never on the machine with the topics. The first seed that has them is run."""
    away = [one for seed in range(200) for one in draw_away(Random(seed), 3, 2, PATTERNS)]
    assert {one.kind for one in away} == set(AWAY_KINDS)
    assert {one.host for one in away} == {0, 1}
    assert {bool(one.durable) for one in away} == {True, False}
    assert all(one.delivery is not Delivery.EXPRESS for one in away if one.durable)
    assert draw_away(Random(1), 1, 0, PATTERNS) == ()
    first = next(plan for plan in map(drawn, OF_TOPICS) if "away" in plan.describe())
    assert run_seed(first.seed).violations == []
