"""Spans of messages, by OpenTelemetry: ``pip install 'triack[otel]'``.

tracing = triack.tracing.Tracing()
async with triack.open("plant-b", data="plant-b") as node:
    tracing.watch(node)                                  # spans of sends and receives
    async for message in node.receive("orders"):
        with tracing.processing(message):                # and of the work on a message
            ...
"""

from triack.tracing.tracing import Tracing

__all__ = ["Tracing"]
