"""Bridges between a node and a broker of MQTT or AMQP: ``[[bridges]]`` in triack.toml, or one by hand.

table = BridgeTable("sensors", "mqtt://localhost", take=["sensors/{site}/# -> cloud/telemetry"])
await triack.bridges.Bridge(node, table).run()        # beside the node, or a client of it, until cancelled
"""

from triack.bridges.bridge import Bridge
from triack.node.config.bridge_table import BridgeTable

__all__ = ["Bridge", "BridgeTable"]
