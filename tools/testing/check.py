"""Whether the nodes of a simulated world kept their promises: their session logs are judged."""

from collections.abc import Collection

from triack.testing.errors import PromiseBroken

__all__ = ["check_logs"]

FINDINGS_MAX = 5
"""Findings in the error's text: the first ones say what happened, the others what followed from it."""


def check_logs(logs: dict[str, bytes], paused: Collection[str] = ()) -> None:
    """Check session logs against every promise of ``triack replay``.

    Args:
        logs: the records of each start of each node, by name, those of one node in the order of its starts.
        paused: the names of those whose process stood still for a while; they need not be in time.

    Raises:
        PromiseBroken: with the first findings.
    """
    __tracebackhide__ = True
    from triack.tools.chaos.verdict import judge_logs

    found = judge_logs(logs, paused)
    if found:
        listed = "\n".join(f"  {finding}" for finding in found[:FINDINGS_MAX])
        raise PromiseBroken(f"the session logs show {len(found)} broken promises:\n{listed}")
