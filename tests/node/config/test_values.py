"""A value is read by the type of its key, and refused with what is wanted."""

import tomllib
from fractions import Fraction

import pytest

from triack.node.config.keys import KEYS, KeyPath
from triack.node.config.values import read_value, write_value

WINDOW: KeyPath = ("session", "max_unacked_packet")
SHARE: KeyPath = ("session", "ack_trigger", "window_share")


@pytest.mark.parametrize(
    ("path", "raw", "value"),
    [
        (WINDOW, 128, 128),
        (WINDOW, "auto", "auto"),
        (("session", "ack_timeout_s"), "none", None),
        (("session", "ack_timeout_s"), "20 s", 20),
        (("session", "ack_timeout_s"), 20, 20.0),
        (("limits", "node_quota_bytes"), "8 GiB", 8 * 2**30),
        (("redelivery", "keep_order"), False, False),
        (("blocking", "durable"), "stored", "stored"),
        (("node", "queues"), ["a", "b"], ["a", "b"]),
        (SHARE, "1/3", 1 / 3),
    ],
)
def test_a_value_of_a_file_has_the_type_of_its_key(path: KeyPath, raw: object, value: object) -> None:
    assert read_value(KEYS[path], raw) == value


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        (WINDOW, "128", 128),
        (WINDOW, "auto", "auto"),
        (("redelivery", "keep_order"), "false", False),
        (("redelivery", "first_wait_s"), "0.5", 0.5),
        (("redelivery", "first_wait_s"), "500 ms", 0.5),
        (("limits", "node_quota_bytes"), "4096", 4_096),
        (("node", "queues"), "a, b", ["a", "b"]),
        (("node", "name"), "12", "12"),
        (("session", "ack_timeout_s"), "none", None),
    ],
)
def test_a_variable_is_a_text_that_is_read_by_the_type_of_its_key(path: KeyPath, text: str, value: object) -> None:
    found = read_value(KEYS[path], text, from_text=True)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("path", "raw", "told"),
    [
        (WINDOW, 1.5, 'must be a whole number or "auto", not 1.5'),
        (WINDOW, True, 'must be a whole number or "auto", not true'),
        (("order", "seq_resend"), "some", 'must be "all" or "first", not "some"'),
        (("redelivery", "first_wait_s"), "soon", 'must be seconds, such as 1.5 or "500 ms", not "soon"'),
        (("limits", "memory_bytes"), "8 Gib", 'must be bytes, such as 65536 or "64 KiB", not "8 Gib"'),
        (("limits", "memory_bytes"), "none", 'must be bytes, such as 65536 or "64 KiB", not "none"'),
        (("redelivery", "keep_order"), 1, "must be true or false, not 1"),
        (("node", "name"), 5, 'must be text or "none", not 5'),
        (("node", "queues"), "orders", 'must be a list of texts or "none", not "orders"'),
        (SHARE, "1/0", 'must be a number or "none", not "1/0"'),
    ],
)
def test_what_is_no_value_is_refused_with_what_is_wanted(path: KeyPath, raw: object, told: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        read_value(KEYS[path], raw)
    assert str(caught.value) == told


def test_each_default_is_read_as_it_is_written() -> None:
    """So a file of defaults says what is in force without it."""
    for key in KEYS.values():
        text = write_value(key, key.default)
        raw = tomllib.loads(f"x = {text}")["x"]
        assert read_value(key, raw) == key.default, key.path


def test_a_share_that_no_short_number_is_stays_a_fraction() -> None:
    assert [write_value(KEYS[SHARE], share) for share in (Fraction(1, 2), Fraction(1, 3))] == ["0.5", '"1/3"']
