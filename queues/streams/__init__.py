"""Streams of packets that outlive sessions, outgoing and incoming."""
