"""Streams of packets that outlive sessions: what leaves, what arrives, and what becomes of each."""
