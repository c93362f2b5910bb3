"""Whether the nodes of a simulated world kept their promises: their session logs are judged."""

from triack.testing.errors import PromiseBroken

FINDINGS_MAX = 5


def check_logs(logs: dict[str, bytes]) -> None:
    """Check session logs against every promise of ``triack replay``. Raises PromiseBroken with the first findings.

    ``logs``: the records of each start of each node, by name, those of one node in the order of its starts.
    """
    __tracebackhide__ = True
    from triack.tools.chaos.verdict import judge_logs

    found = judge_logs(logs)
    if found:
        listed = "\n".join(f"  {finding}" for finding in found[:FINDINGS_MAX])
        raise PromiseBroken(f"the session logs show {len(found)} broken promises:\n{listed}")
