"""Every setting of the library is a key, by the same name, with a description."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, get_origin, get_type_hints

import pytest

from triack.node.config.keys import KEYS, SECTIONS, NodeTable, key_at, part_of, written_path
from triack.queues.node_settings import NodeSettings
from triack.queues.routes import Route


def leaves(kind: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields of a class of settings that hold values, by path."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        part = part_of(hints[one.name])
        if part is not None:
            yield from leaves(part, (*before, one.name))
        elif get_origin(hints[one.name]) is not Mapping:
            yield (*before, one.name)


@pytest.mark.slow
@pytest.mark.gate
def test_settings_have_no_descriptions_without_docstrings() -> None:
    """``python -OO`` leaves them out."""
    program = "from triack.node.config.keys import KEYS; print({key.description for key in KEYS.values()})"
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "{''}\n"


def test_every_setting_is_a_key_with_the_same_name() -> None:
    """Those of the node itself are in the table ``node``, with the arguments of ``triack.open``."""
    wanted = {path if len(path) > 1 else ("node", *path) for path in leaves(NodeSettings)}
    assert len(wanted) > 90
    own = {("node", one.name) for one in fields(NodeTable)}
    assert {path for path in KEYS if "*" not in path} == wanted | own
    assert {path for path in KEYS if "*" in path} == {
        *(("queues", "*", "quota", name) for name in ("messages", "size_bytes", "when_full")),
        *(("queues", "*", "journal", name) for name in ("messages", "size_bytes", "when_full", "keep_s")),
        *(("queues", "*", "redelivery", name) for name in ("first_wait_s", "max_wait_s", "keep_order")),
        *(("topics", "*", name) for name in ("strategy", "max_unacked", "delivery_timeout_s", "ack_wait_s")),
        *(("topics", "*", "quota", name) for name in ("messages", "size_bytes", "when_full")),
        ("peers", "*", "address"),
        *(("routes", "*", one.name) for one in fields(Route)),
    }


def test_every_key_says_what_it_does() -> None:
    """And every table that has keys, in the order of the tables."""
    assert all(key.description.endswith(".") for key in KEYS.values())
    assert list(dict.fromkeys(path[:-1] for path in KEYS)) == list(SECTIONS)
    assert all(SECTIONS.values()), SECTIONS


def test_a_queue_and_a_peer_have_names_of_their_own() -> None:
    assert key_at(("queues", "a.b", "quota", "messages")) == KEYS["queues", "*", "quota", "messages"]
    assert key_at(("peers", "hub", "address")) == KEYS["peers", "*", "address"]
    assert key_at(("session", "hub")) is None
    assert written_path(("queues", "a.b", "quota")) == 'queues."a.b".quota'
