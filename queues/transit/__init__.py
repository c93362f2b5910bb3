"""Streams of other nodes that pass through this one: relays."""
