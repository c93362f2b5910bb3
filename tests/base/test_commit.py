"""Row keys, and when a transaction holds anything."""

from dataclasses import fields

import pytest

from triack.base.commit import Commit, PeerRow, key_of, split_key


@pytest.mark.parametrize(("group", "number"), [(0, 1), (1, 0), (1, 2**40 - 1), (2**23 - 1, 2**40 - 1)])
def test_a_key_reads_back(group: int, number: int) -> None:
    """And is a number that SQLite keeps: 63 bits."""
    assert split_key(key_of(group, number)) == (group, number)
    assert key_of(group, number) < 2**63


def test_keys_ascend_by_group_then_number() -> None:
    """So a range of keys is a range of numbers of one group."""
    keys = [key_of(group, number) for group in range(3) for number in (0, 1, 2, 2**40 - 1)]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Commit) if field.name not in ("serial", "clock", "records")]
)
def test_every_field_alone_makes_a_commit(name: str) -> None:
    """What would not is never written; a number alone is nothing to write."""
    commit = Commit(serial=7)
    assert not commit
    held = getattr(commit, name)
    if isinstance(held, dict):
        held[b"x"] = PeerRow(b"x", 1, 1)
    else:
        held.append((1, 2))
    assert commit


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Commit) if field.name not in ("serial", "clock", "records")]
)
def test_what_only_takes_out_adds_nothing(name: str) -> None:
    """Everything else does, so that a caller may wait for it."""
    commit = Commit()
    held = getattr(commit, name)
    if isinstance(held, dict):
        held[b"x"] = PeerRow(b"x", 1, 1)
    else:
        held.append((1, 2))
    taking_out = {"outgoing_deletes", "message_deletes", "progress", "queue_deletes"}
    taking_out |= {"stream_deletes", "position_deletes", "transit_deletes", "transit_stream_deletes"}
    taking_out |= {"subscriptions", "subscription_deletes"}
    assert commit.adds == (name not in taking_out)
