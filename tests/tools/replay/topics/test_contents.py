"""The messages of a topic by their places."""

from triack.tools.replay.topics.contents import Contents


def filled() -> Contents:
    contents = Contents()
    for first, last, below, cls in (
        (1, 10, "Chess", "recoverable"),
        (11, 12, "Go", "express"),
        (13, 20, "Go", "express"),
    ):
        contents.put(first, last, below, cls)
    contents.next = 21
    return contents


def test_messages_of_one_name_in_a_row_are_one_run() -> None:
    assert list(filled().named(5, 15)) == [(5, 10, "Chess"), (11, 15, "Go")]


def test_what_is_known_from_the_start_before_is_not_doubled() -> None:
    contents = filled()
    contents.put(1, 10, "Chess", "recoverable")
    assert list(contents.named(1, 20)) == [(1, 10, "Chess"), (11, 20, "Go")]
    contents.put(18, 24, "Go", "express")
    assert list(contents.named(1, 30)) == [(1, 10, "Chess"), (11, 24, "Go")]


def test_each_message_knows_when_it_was_dispatched() -> None:
    contents = filled()
    for first, last, at_ns in ((1, 4, 7), (5, 8, 7), (9, 20, 30)):
        contents.dispatch(first, last, at_ns)
    assert list(contents.dates(3, 9)) == [(3, 8, 7), (9, 9, 30)]
    assert contents.dispatched == 20


def test_what_is_deleted_twice_is_told() -> None:
    contents = filled()
    assert contents.free(1, 10) == []
    assert contents.free(9, 12) == [(9, 10)]
    assert list(contents.kept) == [(13, 20)]
    assert list(contents.named(1, 20)) == [(11, 20, "Go")]


def test_express_messages_end_with_their_process() -> None:
    contents = filled()
    assert contents.restart() == [(11, 20)]
    assert list(contents.kept) == [(1, 10)]
