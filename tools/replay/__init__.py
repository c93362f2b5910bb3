"""Replay: prove from session logs that nothing was lost, repeated or reordered.

The layers, lowest first: ``schema`` (records, checks, verdict), ``files`` (finding and reading logs), two engines that
must agree (``local_*`` in plain Python, ``spark_*`` on PySpark), ``report`` and ``plots`` (the page), ``run`` (the
function) and ``command`` (the command line).
"""
