"""What relays tell of the stores of destinations, late and in any order: only a store that went back is accused."""

from itertools import permutations
from random import Random

from tests.queues.relays import Relays, post
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.ordering.wire import EARLIER_MAX, StoreWord
from triack.queues.peers.told_histories import NODES_MAX, ToldHistories

NODE = b"d" * 16
HOUR = 3_600 * SECOND


def histories() -> ToldHistories:
    return ToldHistories(lambda _event, _now_ns, **_fields: None)


def accused(*words: StoreWord) -> bool:
    told = histories()
    for word in words:
        told.handle_word(NODE, "d", word, 0)
    return bool(told.take_detected())


def test_a_later_start_that_has_all_is_right() -> None:
    assert not accused(StoreWord(71, 10, 1), StoreWord(72, 15, 2, ((71, 12),)))
    assert not accused(StoreWord(71, 10, 1), StoreWord(72, 10, 2, ((71, 10),)))


def test_a_start_that_ended_before_what_was_heard_of_it_is_an_older_copy() -> None:
    assert accused(StoreWord(71, 10, 1), StoreWord(72, 11, 2, ((71, 9),)))
    assert accused(StoreWord(71, 10, 1), StoreWord(71, 30, 1), StoreWord(73, 40, 3, ((71, 20), (72, 30))))


def test_a_start_in_the_place_of_another_is_an_older_copy() -> None:
    """The copy was made before the start of which words were heard: it does not know that."""
    known = StoreWord(72, 20, 2, ((71, 10),))
    assert accused(known, StoreWord(82, 12, 2, ((71, 10),)))
    assert accused(known, StoreWord(83, 30, 3, ((71, 10), (82, 20))))
    assert accused(StoreWord(73, 30, 3, ((71, 10), (72, 20))), StoreWord(82, 12, 2, ((71, 10),)))


def test_starts_with_two_ends_are_two_stores() -> None:
    assert accused(StoreWord(73, 30, 3, ((71, 10), (72, 20))), StoreWord(74, 40, 4, ((71, 10), (72, 19), (73, 30))))


def test_a_late_word_accuses_nobody() -> None:
    """The rule of a smaller serial of the same start would."""
    assert not accused(StoreWord(71, 10, 1), StoreWord(71, 7, 1))
    assert not accused(StoreWord(71, 10, 1), StoreWord(72, 15, 2, ((71, 12),)), StoreWord(71, 12, 1))


def test_words_with_no_start_in_common_say_nothing() -> None:
    assert not accused(StoreWord(71, 10, 1), StoreWord(99, 9, 20, ((98, 8),)))


def test_words_of_a_sound_store_accuse_nobody_in_any_order() -> None:
    words = [
        StoreWord(71, 5, 1), StoreWord(71, 9, 1), StoreWord(72, 12, 2, ((71, 10),)), StoreWord(72, 14, 2, ((71, 10),)),
        StoreWord(73, 20, 3, ((71, 10), (72, 14))),
    ]  # fmt: skip
    assert not any(accused(*order) for order in permutations(words))


def test_many_starts_and_words_in_any_order_accuse_only_a_copy() -> None:
    """Words of a hundred lives, some told again much later, some lost."""
    for seed in range(50):
        random, serial, ends = Random(seed), 0, list[tuple[int, int]]()
        words: list[StoreWord] = []
        for start in range(1, 100):
            for _ in range(random.randrange(4)):
                serial += random.randrange(3)
                words.append(StoreWord(start + 1_000, serial, start, tuple(ends[-EARLIER_MAX:])))
            ends.append((start + 1_000, serial))
        order = [words[min(len(words) - 1, at + random.randrange(20))] for at in range(len(words))]
        assert not accused(*order), seed


def test_a_point_outlives_a_restart() -> None:
    told, commit = histories(), Commit()
    told.handle_word(NODE, "d", StoreWord(71, 10, 1), 0)
    told.write_down(commit)
    again = histories()
    again.restore({name: word for name, word in commit.state.items() if word is not None})
    again.handle_word(NODE, "d", StoreWord(72, 11, 2, ((71, 9),)), 0)
    (error,) = again.take_detected()
    assert (error.peer, error.rolled_back) == (NODE.hex(), "peer")
    # It is reported once: what follows is compared with the store as it is now.
    again.handle_word(NODE, "d", StoreWord(72, 12, 2, ((71, 9),)), 0)
    assert again.take_detected() == []


def test_invented_nodes_fill_no_memory() -> None:
    told, commit = histories(), Commit()
    for number in range(NODES_MAX + 10):
        told.handle_word(number.to_bytes(16, "big"), "d", StoreWord(1, 1, 1), 0)
    told.write_down(commit)
    assert len(commit.state) == NODES_MAX


def test_an_origin_hears_by_another_relay_that_its_destination_went_back() -> None:
    """The relay that knew the destination's store is on the way no more; the new one has never met it."""
    routes = {"a": [("b", "r")], "b": [("a", "r")]}
    net = Relays("ar as rb sb", routes)
    a, b = net["a"], net["b"]
    post(a, "b", b"1")
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    b.crash()
    copy = b.copy_store()
    b.start()
    post(a, "b", b"2")
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert a.log("rollback_detected") == []
    b.crash()
    b.restore(copy)
    net.world.cut(net["r"], b)
    b.start()
    net.reroute("a", ("b", "s"))
    net.reroute("b", ("a", "s"))
    post(a, "b", b"3", queue="other")
    assert net.world.run(HOUR, lambda: bool(a.log("rollback_detected")))
    (found,) = a.log("rollback_detected")
    assert (found["peer"], found["peer_name"], found["rolled_back"]) == (b.live.node_id.hex(), "b", "peer")
    assert found["contradicts"] == 2


def test_restarts_of_a_destination_accuse_nobody() -> None:
    net = Relays("ar rb", {"a": [("b", "r")], "b": [("a", "r")]})
    a, b = net["a"], net["b"]
    for number in range(12):
        post(a, "b", b"%d" % number, delivery=list(Delivery)[number % 2 + 1])
        net.world.run(3 * SECOND)
        (b, a, net["r"])[number % 3].restart()
        net.world.run(20 * SECOND)
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert not any(node.log("rollback_detected") for node in net.nodes.values())
