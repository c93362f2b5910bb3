"""Logs that older nodes wrote are read as if they were of today."""

import json
from pathlib import Path

from tests.tools.replay.builder import healthy
from triack.base.session_log import SETTINGS
from triack.tools.replay.log.version1 import count_records, modernize
from triack.tools.replay.run import replay


def test_a_packet_is_a_range_of_one() -> None:
    sent = {"v": 1, "event": "packet_sent", "packet": 3, "number": 7, "previous": 6, "count": 10, "size": 9}
    ranged = {"packet": 3, "packets": 1, "number": 7, "previous": 6, "counts": [[1, 10]], "size": 9}
    assert modernize(sent) == {"v": 2, "event": "packet_sent", **ranged}
    handed = {"v": 1, "event": "handed", "number": 7, "first": 4, "last": 9}
    assert modernize(handed) == {"v": 2, "event": "handed", "number": 7, "place": 4, "counts": [[1, 6]]}


def test_it_wrote_a_record_for_each_packet() -> None:
    assert count_records({"event": "packet_sent", "packets": 7}) == 7
    assert count_records({"event": "handed", "counts": [[3, 10], [1, 2]]}) == 4
    assert count_records({"event": "ack_sent"}) == 1


def test_what_is_no_record_of_version_1_stays_as_it_is() -> None:
    """To be refused by whoever looks at it next."""
    for record in ({"v": 2, "event": "handed", "first": 1}, {"v": True}, {"event": "packet_sent"}):
        assert modernize(record) == record
    assert modernize({"v": 1, "event": "handed", "first": "1", "last": 2})["first"] == "1"


def test_logs_from_before_peers_had_names_are_read(tmp_path: Path) -> None:
    """Their streams had an address, their sessions nothing, and no node told its settings."""
    world = healthy()
    for record in (*world.alpha.records, *world.beta.records):
        name = record.pop("peer_name", None)
        if record["event"] == "queued":
            record["peer_address"] = name
        for setting in SETTINGS if record["event"] == "node_started" else ():
            record.pop(setting, None)
    directories = world.save(tmp_path)
    assert any('"peer_address"' in json.dumps(record) for record in world.alpha.records)
    assert replay(directories, engine="local").verdict == "pass"
