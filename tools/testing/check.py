"""Whether the nodes of a simulated world kept their promises: independent checkers read their session logs."""

from collections.abc import Collection

from triack.testing.errors import PromiseBroken

__all__ = ["check_logs"]

FINDINGS_MAX = 5
IN_TIME = {"idle_delay", "resend_tiers"}
"""What a process that stood still cannot keep."""


def check_logs(logs: dict[str, bytes], paused: Collection[str] = ()) -> None:
    """Check session logs against every promise of ``triack replay``, and some more.

    Args:
        logs: the records of each start of each node, by name, those of one node in the order of its starts.
        paused: the names of those whose process stood still for a while; they need not be in time.

    Raises:
        PromiseBroken: with the first findings.
    """
    __tracebackhide__ = True
    from triack.tools.chaos.checkers import check, check_more, parse

    records = [record for log in logs.values() for record in parse(log)]
    late = {record["node"] for name in paused for record in parse(logs[name])[:1]}
    found = [
        finding
        for finding in check(records) + check_more(records)
        if finding.check not in IN_TIME or finding.node not in late
    ]
    if found:
        listed = "\n".join(f"  {finding}" for finding in found[:FINDINGS_MAX])
        raise PromiseBroken(f"the session logs show {len(found)} broken promises:\n{listed}")
