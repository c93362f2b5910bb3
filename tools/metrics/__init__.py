"""The counts of a node, for Prometheus, through its own client library: ``pip install 'triack[metrics]'``.

prometheus_client.REGISTRY.register(triack.metrics.NodeCollector(node))    # beside the service's own metrics

``triack serve --metrics 127.0.0.1:9464`` serves them without a line of code.
"""

from triack.metrics.collector import NodeCollector

__all__ = ["NodeCollector"]
