"""Chaos on real sockets, real disks and real processes: what no simulation can replace."""
