"""Settings are built over those of a policy; the classes themselves say what is wrong."""

from dataclasses import fields
from pathlib import Path

from tests.node.config.files import problems_of, read
from triack import policies
from triack.queues.node_settings import Journal, NodeSettings, Quota, Redelivery, Topic
from triack.queues.routes import Route


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "").settings == NodeSettings()


def test_a_key_beats_the_policy_which_beats_the_default(tmp_path: Path) -> None:
    settings = read(tmp_path, '[node]\npolicy = "MSMQ"\n[session]\nmax_unacked_packet = 5\n').settings
    assert settings.session.max_unacked_packet == 5
    assert settings.order == policies.MSMQ.order
    assert settings.session.ack_trigger == policies.MSMQ.session.ack_trigger
    assert read(tmp_path, '[node]\npolicy = "amps"\n').settings == policies.AMPS


def test_a_queue_has_what_is_not_said_of_it_from_all_queues(tmp_path: Path) -> None:
    text = """
    [limits.quota]
    messages = 10
    [queues.orders]
    quota.size_bytes = "1 KiB"
    redelivery = { first_wait_s = 0 }
    """
    settings = read(tmp_path, text).settings
    assert settings.limits.quota_of("orders") == Quota(messages=10, size_bytes=1_024)
    assert settings.limits.quota_of("others") == Quota(messages=10)
    assert settings.redelivery_of("orders") == Redelivery(first_wait_s=0)


def test_a_queue_has_a_journal_when_its_table_says_anything_of_one(tmp_path: Path) -> None:
    """The rest is as for all journals; with MSMQ's policy a full one gets no more copies."""
    text = """
    [node]
    policy = "MSMQ"
    [queues.orders]
    journal = { messages = 5, keep_s = "none" }
    """
    journals = read(tmp_path, text).settings.limits.queue_journal
    assert journals == {"orders": Journal(messages=5, when_full="stop", keep_s=None)}
    bad = "[queues.orders]\njournal.when_full = 'burn'\n"
    assert "drop oldest" in problems_of(tmp_path, bad)[0]


def test_a_root_of_topics_has_settings_of_its_own(tmp_path: Path) -> None:
    text = """
    [limits.quota]
    messages = 10
    [topics.Games]
    strategy = "discard_allowed"
    delivery_timeout_s = "1 min"
    quota.size_bytes = "1 KiB"
    """
    settings = read(tmp_path, text).settings
    assert settings.topic_of("Games") == Topic(
        "discard_allowed", delivery_timeout_s=60, quota=Quota(messages=10, size_bytes=1_024)
    )
    assert settings.topic_of("Plays") == Topic()
    assert settings.quota_of("topic:Games") == Quota(messages=10, size_bytes=1_024)
    assert settings.quota_of("topic:Plays") == Quota(messages=10)
    (told,) = problems_of(tmp_path, '[topics.Games]\nstrategy = "fastest"\n')
    assert "topics.Games.strategy" in told
    (told,) = problems_of(tmp_path, '[topics."Games.Cricket"]\nmax_unacked = 5\n')
    assert "only a root, the first level of names, has settings" in told


def test_several_refused_values_of_one_table_are_all_told(tmp_path: Path) -> None:
    """Each is left out until the class takes the rest."""
    text = "[session]\nmax_unacked_packet = 0\nmax_datagram_bytes = 5\ncongestion = 'reno'\ndrain_timeout_s = 7\n"
    assert [problem.partition(": ")[2] for problem in problems_of(tmp_path, text)] == [
        'session.max_unacked_packet: must be 1 to 65535 or "auto", not 0',
        "session.max_datagram_bytes: must be 576 to 65535, not 5",
        "session.congestion: must be one of bbr, newreno, not 'reno'",
    ]


def test_a_key_that_contradicts_a_default_is_told_at_its_own_line(tmp_path: Path) -> None:
    """The class names the other one, which nobody has written."""
    (told,) = problems_of(tmp_path, "[session]\nack_timeout_max_s = 1\n")
    assert told.startswith("triack.toml:2: session.ack_timeout_max_s: ack_timeout_min_s is 2.0, more than")


def test_a_delay_that_nothing_reads_is_a_mistake(tmp_path: Path) -> None:
    text = "[session]\nidle_ack_delay_s = 2\n[session.ack_trigger]\ncount = 5\n"
    (told,) = problems_of(tmp_path, text)
    assert told.startswith("triack.toml:2: session.idle_ack_delay_s: it has no effect, as session.ack_trigger is set")


def test_names_and_addresses_are_checked(tmp_path: Path) -> None:
    text = """\
[node]
name = "a b"
suite = "rot13"
queues = ["orders"]
tls_key = "key.pem"
data = ""
[queues.order.quota]
messages = 1
[peers.one]
address = "udp://a:1"
[peers.two]
address = "udp://A:1"
[peers."t t"]
address = "udp://b:1"
"""
    assert [problem.removeprefix("triack.toml:") for problem in problems_of(tmp_path, text)] == [
        "2: node.name: name 'a b': ' ' is not a letter, a digit or one of . _ - $",
        '3: node.suite: there is no suite "rot13"; there is 25519_AESGCM_SHA256, 25519_ChaChaPoly_BLAKE2s',
        "5: node.tls_key: it needs node.tls_cert, the certificate of that key",
        "6: node.data: it is empty",
        "8: queues.order: it is not in node.queues; did you mean orders?",
        "12: peers.two.address: it is the address of one, too",
        "14: peers.\"t t\": name 't t': ' ' is not a letter, a digit or one of . _ - $",
    ]


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    """And those of a variable to the working directory."""
    node = read(tmp_path, '[node]\ndata = "here"\nlog = "/var/log"\n', {"TRIACK_NODE__TLS_CA": "ca.pem"}).node
    assert (node.data, node.log, node.tls_ca) == (str(tmp_path / "here"), "/var/log", "ca.pem")


ROUTES = """\
[[routes]]
to = "plant-*"
via = "hub"
[[routes]]
to = "press"
rename = "press-7"
[[routes]]
to = "a/b"
via = "hub"
[[routes]]
to = "c"
via = "h b"
by = "x"
"""


def test_routes_are_in_their_order_and_each_mistake_has_its_line(tmp_path: Path) -> None:
    found = read(tmp_path, ROUTES.partition('[[routes]]\nto = "a/b"')[0].replace("rename =", 'via = "hub"\nrename ='))
    assert found.routes == (Route("plant-*", "hub"), Route("press", "hub", "press-7"))
    assert [problem.removeprefix("triack.toml:") for problem in problems_of(tmp_path, ROUTES)] == [
        "5: routes.1: via is missing",
        "8: routes.2.to: is 'a/b': a route is for nodes, without queues and without @",
        "12: routes.3.via: name 'h b': ' ' is not a letter, a digit or one of . _ - $",
        f"13: routes.3.by: there is no such key; there is {', '.join(sorted(field.name for field in fields(Route)))}",
    ]
    assert problems_of(tmp_path, "[routes]\nto = 'a'\n") == [
        "triack.toml:2: routes.to: write each route as a table of its own, [[routes]]"
    ]


def test_a_part_that_its_owner_refuses_is_told_at_the_part(tmp_path: Path) -> None:
    (told,) = problems_of(tmp_path, "[limits]\nmemory_bytes = 5\n[limits.transit_quota]\nwhen_full = 'reject'\n")
    assert told.startswith("triack.toml:4: limits.transit_quota: when_full must be hold")


def test_a_route_makes_its_link_synchronous(tmp_path: Path) -> None:
    """Routes by one neighbour must agree, and the mistake is at one of them."""
    sync = '[[routes]]\nto = "plant-*"\nvia = "hub"\nlink = "sync"\ndowngrade_after_s = 10\n'
    found = read(tmp_path, sync)
    assert found.routes == (Route("plant-*", "hub", link="sync", downgrade_after_s=10),)
    (said,) = problems_of(tmp_path, sync.replace("downgrade_after_s = 10", ""))
    assert said.startswith("triack.toml:4: routes.0.link: is sync, and downgrade_after_s, which has no default,")
    (said,) = problems_of(tmp_path, sync + '[[routes]]\nto = "*"\nvia = "hub"\n')
    assert "go by hub, and say different things of that link" in said
