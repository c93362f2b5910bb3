"""Names, texts of others, addresses of paths, errors and reasons."""

import json
import re
import sys
from itertools import chain
from unicodedata import normalize

import pytest

import triack
from triack.base import errors, news
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import (
    COMPARED_MAX,
    TOLD_MAX,
    check_levels,
    check_name,
    check_pattern,
    check_permitted,
    check_queue,
    check_topic,
    composed,
    covers,
    nearest,
    what_else,
)
from triack.base.paths import address_in, called_in, path_of
from triack.base.peers import Directory, Peer
from triack.base.printable import SHOWN_LETTERS_MAX, counted, escaped, escaped_json, printable, written
from triack.base.reasons import DeadReason, DropReason, FreedReason, Reason, RejectReason


@pytest.mark.parametrize(
    "name", ["orders", "a.b_c-$1", "bestellungen-süd", "注文", "ü" * 62, "आदेश", "คำสั่งซื้อ", "ஆணைகள்", "အော်ဒါ", "שָׁלוֹם"]
)
def test_a_name_is_given_back(name: str) -> None:
    """Letters and digits of any script; 124 bytes are a name."""
    assert check_name(name) == normalize("NFC", name)


@pytest.mark.parametrize("word", ["Aufträge", "đơn-hàng", "주문", "Å"])
def test_a_name_has_one_form_however_it_is_written(word: str) -> None:
    """Each check gives back the composed form, of topics, patterns and permissions, too."""
    apart, whole = normalize("NFD", word), normalize("NFC", word)
    assert apart != whole
    assert composed(apart) == check_name(apart) == check_queue(apart) == check_name(whole) == whole
    assert check_queue(f"topic:{apart}.{apart}") == f"topic:{whole}.{whole}"
    assert check_topic(apart) == check_levels(apart) == whole
    assert check_pattern(f"{apart}.*.{apart}") == f"{whole}.*.{whole}"
    assert check_permitted(f"*.{apart}") == f"*.{whole}"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must not be empty"),
        (".hidden", "must not start with '.'"),
        ("a/b", "'/' is not a letter"),
        ("a b", "' ' is not a letter"),
        ("a\nb", "is not a letter"),
        ("\u0308a", "has no letter before it"),
        ("a.\u0308a", "has no letter before it"),
        ("orders\u3164", "is shown as nothing"),
        ("orders\ufe0f", "is shown as nothing"),
        ("or\u200dders", "is not a letter"),
        ("a\u20dd", "is not a letter"),
        ("ü" * 62 + "x", "longer than 124 bytes"),
        *((wrong, r"^a name is text, not ") for wrong in (None, 5, b"orders", ["orders"])),
    ],
)
def test_a_bad_name_is_rejected_with_its_reason(name: object, why: str) -> None:
    """With the first thing that is wrong; what would be a path or a line of its own among them."""
    with pytest.raises(AddressError, match=why):
        check_name(name)


def test_what_there_is_instead() -> None:
    """The nearest name, or some of all; compared with a hundred at most.

    Thousands of numbered queues are like each other, and to compare one with all takes longer than a node has.
    """
    names = [f"q{number:03}" for number in range(TOLD_MAX + 5)]
    assert what_else("ordres", ["invoices", "orders"]) == "did you mean orders?"
    assert what_else("stock", ["orders", "invoices"]) == "there is invoices, orders"
    assert what_else("stock", []) == "there is none yet"
    assert what_else("stock", names) == f"there is {', '.join(names[:TOLD_MAX])} and 5 more"
    known, many = ["invoices", "orders", "dead-letter"], [f"orders-{number:04}" for number in range(COMPARED_MAX)]
    assert [nearest(name, known) for name in ("ordres", "orders2", "stock")] == ["orders", "orders", None]
    assert nearest("orders-", many) is not None
    assert nearest("orders-", [*many, "stock"]) is None


@pytest.mark.parametrize(
    ("permitted", "pattern", "covered"),
    [
        ("#", "Games.#", True), ("Games.#", "Games", True), ("Games.#", "Games.#", True), ("Games.#", "Games.*", True),
        ("Games.*", "Games.*", True), ("Games.*", "Games.Chess", True), ("*.Chess", "Games.Chess", True),
        ("Games.*", "Games.#", False), ("Games.*", "Games", False), ("Games.*", "Games.*.x", False),
        ("Games.Chess", "Games.*", False), ("Games.#", "Plays.#", False), ("*.Chess", "Games.*", False),
        ("Games.Chess.#", "Games.#", False),
    ],
)  # fmt: skip
def test_a_permission_covers_a_pattern_if_it_stands_for_all_its_topics(
    permitted: str, pattern: str, covered: bool
) -> None:
    assert check_permitted(permitted) == permitted
    assert covers(permitted, pattern) is covered


@pytest.mark.parametrize("wrong", ["", "#.x", "Games.#.x", "Games..x", None, 7])
def test_what_is_no_permission(wrong: object) -> None:
    with pytest.raises(AddressError):
        check_permitted(wrong)


@pytest.mark.parametrize("pattern", ["#", "*", "*.Scores", "#.Scores"])
def test_a_pattern_over_all_roots_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(AddressError, match=f"^{re.escape(f'pattern {pattern!r}: there is no pattern over all roots')}"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-süd 注文", "orders-süd 注文"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x9b0m", "\\x1b[31mred\\x9b0m"),
        ("abc\u202edef\u2066", "abc\\u202edef\\u2066"),
        ("\u2028\x00\x7f\ud800", "\\u2028\\x00\\x7f\\ud800"),
        ("key triack-private-abc234.", "key triack-private-...."),
        ("TRIACK-SHARED-ABC", "TRIACK-SHARED-..."),
        ("triack-public-abc", "triack-public-abc"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    """Letters of any script as they are; what acts instead of being seen by its name; of a secret its kind."""
    assert printable(text) == shown


@pytest.mark.slow
def test_no_character_gets_through_that_is_not_seen() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    for start in range(0, len(everything), SHOWN_LETTERS_MAX // 20):
        assert printable(everything[start : start + SHOWN_LETTERS_MAX // 20]).isprintable()


def test_numbers_go_with_their_nouns() -> None:
    said = [counted(number, "message") for number in (0, 1, 2, 2_500)]
    assert said == ["0 messages", "1 message", "2 messages", "2,500 messages"]


def test_the_name_of_a_file_is_shown_whole() -> None:
    """However long it is: it is cut nowhere, and nothing in it is a secret. Other texts are cut."""
    name = "\x1b" + "x" * 10**4 + "triack-private-abc"
    assert escaped(name) == "\\x1b" + name[1:]
    assert len(printable("x" * 10**6)) == SHOWN_LETTERS_MAX + 3


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_not_printable_is_escaped_in_json(ascii_only: bool) -> None:
    """As JSON does it, so that a program reads what it would have read, and a terminal does nothing."""
    text = "s\u00fcd \u6ce8\x00\x1b[31m\x7f\x9b\u202e\u2028\ud800\U000e0001\n"
    line = escaped_json(json.dumps({"label": text}, ensure_ascii=ascii_only))
    assert json.loads(line) == {"label": text}
    assert line.isprintable()
    assert ("s\u00fcd \u6ce8" in line) == (not ascii_only)


def test_whole_numbers_are_written_with_all_their_digits() -> None:
    """However large: nobody counts powers of ten."""
    said = [written(number) for number in (0, 64, 2**31 - 1, 1e6, 0.25, -3.0, float("inf"))]
    assert said == ["0", "64", "2147483647", "1000000", "0.25", "-3", "inf"]


def test_all_errors_and_events_are_public() -> None:
    """``triack.X`` is the same class."""
    kinds = {name for name, kind in vars(news).items() if isinstance(kind, type) and issubclass(kind, news.NodeEvent)}
    for home, names in ((errors, errors.__all__), (news, kinds)):
        assert set(names) <= set(triack.__all__)
        for name in names:
            assert getattr(triack, name) is getattr(home, name)


@pytest.mark.parametrize(
    ("error", "caught"),
    [("UsageError", ValueError), ("WaitTimeout", TimeoutError), ("StoreDamaged", errors.StoreError)],
)
def test_errors_are_what_python_calls_them(error: str, caught: type[Exception]) -> None:
    assert issubclass(getattr(errors, error), caught)


def test_a_breach_of_the_protocol_has_its_name_first() -> None:
    """The name under which it is counted; then what was seen, if that says more."""
    assert str(ProtocolError(DropReason.BAD_TAG)) == "bad-tag"
    assert str(ProtocolError(DropReason.BAD_VERSION, "7")) == "bad-version: 7"


# Each reason has a unique name and a sentence for people.

REASONS = list[Reason](chain(DropReason, RejectReason, FreedReason, DeadReason))


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{type(reason).__name__}.{reason.name}")
def test_a_name_is_that_of_its_constant(reason: Reason) -> None:
    """So a name in a log can be found in the code."""
    assert reason == reason.name.lower().replace("_", "-")
    assert re.fullmatch(r"[A-Z].*[a-z)]\.", reason.sentence)


@pytest.mark.parametrize("reasons", [DropReason, RejectReason, FreedReason, DeadReason])
def test_two_reasons_never_share_a_sentence(reasons: type[Reason]) -> None:
    sentences = [reason.sentence for reason in reasons]
    assert len(set(sentences)) == len(sentences)


def test_a_reason_counts_and_is_written_as_its_text() -> None:
    assert json.dumps({DropReason.BAD_TAG: 1}) == '{"bad-tag": 1}'
    assert {"bad-tag": 1}[DropReason.BAD_TAG] == 1
    assert {reason.value: reason for reason in DropReason}["bad-tag"] is DropReason.BAD_TAG
    assert f"{DropReason.BAD_TAG}" == "bad-tag"


@pytest.mark.parametrize(
    ("address", "called"), [("udp://192.0.2.9:7801", "198.51.100.7"), ("udp://[fe80::1%2]:7801", "")]
)
def test_a_path_has_both_addresses(address: str, called: str) -> None:
    path = path_of(address, called)
    assert (address_in(path), called_in(path)) == (address, called)
    assert (path == address) is (called == "")


KEY, OTHER = b"k" * 32, b"o" * 32


def test_a_peer_is_found_by_all_that_it_has() -> None:
    plant = Peer("plant-b", keys=(KEY, OTHER), addresses=("udp://b:1", "tcp://b:2"))
    directory = Directory([plant, Peer("plant-c")])
    assert [peer.name for peer in directory] == ["plant-b", "plant-c"]
    assert directory.named("plant-b") is directory.with_key(KEY) is directory.with_key(OTHER) is plant
    assert directory.at("udp://b:1") is directory.at("tcp://b:2") is plant
    assert directory.named("nobody") is directory.with_key(b"") is directory.at("udp://c:1") is None


def test_who_is_replaced_is_forgotten() -> None:
    """With keys and addresses; a key that another peer has now is trusted as its alone."""
    directory = Directory([Peer("b", keys=(KEY,), addresses=("udp://b:1",))])
    assert directory.trusts("b", KEY)
    directory.replace([Peer("c", keys=(KEY,))])
    assert [directory.trusts(name, KEY) for name in "bc"] == [False, True]
    assert directory.named("b") is directory.at("udp://b:1") is None


def test_a_peer_relays_nothing_by_default() -> None:
    """Neither by way of this node nor for others; each node of a way by hand must be allowed."""
    stranger = Peer("x")
    assert not stranger.may_relay_to("plant-b")
    assert not stranger.may_bring("plant-a")
    hub, ways = Peer("hub", may_relay=("plant-*",), relays_for=("sensor-?",)), ("plant-b@plant-c", "plant-b@elsewhere")
    assert [hub.may_relay_to(way) for way in ("plant-b", *ways)] == [True, True, False]
    assert [hub.may_bring(name) for name in ("sensor-1", "sensor-10")] == [True, False]


def test_a_peer_may_send_where_a_pattern_says_so() -> None:
    queues, peer = ("orders", "log-1", "Orders", "orders2", "x"), Peer("b", may_send=("orders", "log-*"))
    assert [peer.may_send_to(queue) for queue in queues] == [True, True, False, False, False]
    assert Peer("b").may_send_to("anything")
    assert not Peer("b", may_send=()).may_send_to("orders")
