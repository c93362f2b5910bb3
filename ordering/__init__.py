"""Sequences that outlive sessions: exactly once, in order, resent by tiers. Pure: no clock, no I/O, no randomness.

A sequence is the stream of packets from one node to one queue at one address. Its position is on disk at both ends, so
it survives crashes and never expires.
"""
