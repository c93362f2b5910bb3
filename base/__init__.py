"""Shared by all rooms: errors, delivery classes, ranges, units, names, and the layouts of datagrams and commits.

It imports nothing of Triack. Pure.
"""
