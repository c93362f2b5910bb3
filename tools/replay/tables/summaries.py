"""What tables of facts come to: a row for each start of a node, session, stream, queue, link and outage."""

# ruff: noqa: S608 - the parts of each statement are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from triack.tools.replay.log.schema import FAILURE_REASONS
from triack.tools.replay.tables.counts import ACCOUNT, DEAD, count_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

_NODES: Final = """
    select node, start, max(name) as name, max(address) as address, max(boot) as boot, max(survives) as survives,
        min(begin_wall_ns) as begin_wall_ns, max(end_wall_ns) as end_wall_ns,
        max(stopped) as stopped, sum(records) as records
    from (
        select node, start, name, address, boot, survives, null as begin_wall_ns, null as end_wall_ns,
            word = 'node_stopped' as stopped, 0 as records
        from {starts}
        union all
        select node, start, null, null, null, null, begin_wall_ns, end_wall_ns, false, records from {segments})
    group by node, start"""

_SESSIONS: Final = f"""
    with ends as (
        select node, start, session, max(peer) as peer, max(peer_name) as peer_name, max(role) as role,
            max(address) as address, max(window_packets) as window_packets,
            min(if(word = 'session_opened', wall_ns, null)) as opened_wall_ns,
            max(if(word = 'session_closed', wall_ns, null)) as closed_wall_ns,
            max(reason) as reason, max(unacked_packets) as unacked_packets
        from {{openings}} group by node, start, session),
    traffic as (
        select node, start, session,
            sum(if(direction = 'sent', packet_last - packet_first + 1, 0)) as sent_packets,
            sum(if(direction = 'sent' and again, packet_last - packet_first + 1, 0)) as resent_packets,
            sum(if(direction = 'received', packet_last - packet_first + 1, 0)) as received_packets,
            sum(if(direction = 'received' and again, packet_last - packet_first + 1, 0)) as duplicate_packets,
            sum(if(direction = 'sent', size_bytes, 0)) as sent_bytes,
            sum(if(direction = 'received', size_bytes, 0)) as received_bytes
        from {{packets}} group by node, start, session)
    select ends.*, coalesce(reason in {FAILURE_REASONS}, false) as failed,
        coalesce(sent_packets, 0) as sent_packets, coalesce(resent_packets, 0) as resent_packets,
        coalesce(received_packets, 0) as received_packets, coalesce(duplicate_packets, 0) as duplicate_packets,
        coalesce(sent_bytes, 0) as sent_bytes, coalesce(received_bytes, 0) as received_bytes
    from ends left join traffic using (node, start, session)"""

_STREAMS: Final = """
    select counted.* except (changed), peer_name from {counted} counted left join (
        select origin, stream, sequence, max(peer_name) as peer_name from {commits}
        where change = 'queued' group by origin, stream, sequence) using (origin, stream, sequence)"""

_QUEUES: Final = f"""
    select peer_name, queue, system, count(*) as streams,
        {", ".join(f"sum({name}) as {name}" for name in (*ACCOUNT, "duplicates_delivered", "out_of_order"))}
    from {{streams}} group by peer_name, queue, system"""

_LINKS: Final = """
    select node, peer, max(peer_name) as peer_name, count(*) as sessions, sum(int(failed)) as failed_sessions,
        sum(sent_packets) as sent_packets, sum(resent_packets) as resent_packets,
        sum(received_packets) as received_packets, sum(duplicate_packets) as duplicate_packets,
        sum(sent_bytes) as sent_bytes, sum(received_bytes) as received_bytes
    from {sessions} group by node, peer"""

_OUTAGES: Final = """
    select node, peer, peer_name, session, reason, since_wall_ns, until_wall_ns from (
        select s.*, coalesce(closed_wall_ns, end_wall_ns) as since_wall_ns,
            lead(opened_wall_ns) over (partition by s.node, peer order by opened_wall_ns) as until_wall_ns
        from {sessions} s join (select node, start, end_wall_ns from {nodes}) n
            on s.node = n.node and s.start = n.start)
    where (failed or (closed_wall_ns is null and until_wall_ns is not null))
        and coalesce(until_wall_ns, since_wall_ns + 1) > since_wall_ns"""

_OVER: Final = {
    "nodes": (_NODES, "starts", "segments"),
    "sessions": (_SESSIONS, "openings", "packets"),
    "queues": (_QUEUES, "streams"),
    "links": (_LINKS, "sessions"),
    "outages": (_OUTAGES, "sessions", "nodes"),
    "dead": (DEAD, "commits", "streams"),
}
"""For each but the streams: what makes it, and of which tables."""
SUMMARIES: Final = ("nodes", "sessions", "streams", "queues", "links", "outages", "dead")
"""The tables that are made of facts."""


def summarize(facts: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables that are made of facts, none of which is computed before it is asked for."""
    made: dict[str, DataFrame] = {}
    for name in SUMMARIES:
        made[name] = summary(name, facts, made)
    return made


def summary(name: str, facts: Mapping[str, DataFrame], made: Mapping[str, DataFrame]) -> DataFrame:
    """Return one of ``SUMMARIES``."""
    sql = facts["packets"].sparkSession.sql
    if name == "streams":
        counted = count_facts(
            packets=facts["packets"],
            commits=facts["commits"],
            acks=facts["acks"].where("ack != 'session'"),
            handed=facts["deliveries"].where("delivery = 'handed'"),
            starts=facts["starts"].where("word = 'node_started'").select("node", "start"),
        )
        return sql(_STREAMS, counted=counted, commits=facts["commits"])
    statement, *of = _OVER[name]
    known: dict[str, Any] = {**facts, **made}
    return sql(statement, **{it: known[it] for it in of})
