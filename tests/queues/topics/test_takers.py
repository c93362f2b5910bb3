"""What a root remembers of a name follows the subscriptions that begin and end."""

from tests.queues.topics.bench import Bench
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.takers import Takers


def test_what_is_remembered_of_a_name_follows_the_subscriptions() -> None:
    bench, takers = Bench(1), Takers()
    one, other = (bench.subscribe("Games.*") for _ in range(2))
    kept, all_below = bench.subscribe("Games.*", durable="kept"), bench.subscribe("Games.#")

    def of(topic: str) -> tuple[list[Subscription], list[Subscription]]:
        found = takers.of(topic)
        assert found.number == len([*found.durable, *found.others])
        return list(found.durable), list(found.others)

    assert of("Games.Go") == ([], [])
    takers.add(one)
    assert of("Games.Go") == ([], [one])
    takers.add(other)
    takers.add(kept)
    takers.add(all_below)
    assert of("Games.Go") == ([kept], [all_below, one, other])
    assert of("Games") == ([], [all_below])
    takers.remove(one)
    assert of("Games.Go") == ([kept], [all_below, other])
    assert takers.takes(other, "Games.Go")
    assert takers.takes(kept, "Games.Chess"), "a name that is not remembered"
    assert not takers.takes(one, "Games.Go")
    assert not takers.takes(other, "Games")
